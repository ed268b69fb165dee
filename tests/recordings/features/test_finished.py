"""Every kind of feature can be scaled after it was drafted, as if the samples had been scaled before."""

import numpy as np
import pytest

from dlcca.recordings.features.bandpower import BandPower
from dlcca.recordings.features.covariance import Covariances
from dlcca.recordings.features.raw import RawSamples
from dlcca.recordings.features.spectrogram import Spectrogram

KINDS = {
    "raw": RawSamples.all_of(64, 32.0),
    "delay": RawSamples.delayed(64, 32.0, 5, 7),
    "bandpower": BandPower(32.0, (("a", 1.0, 4.0), ("b", 4.0, 16.0))),
    "spectrogram": Spectrogram(32.0, 64, 16, 12.0),
    "covariance": Covariances(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_after_the_draft_equals_scaling_before(kind):
    feature, rng = KINDS[kind], np.random.default_rng(0)
    center, scale = np.array([3.0, -100.0, 0.0]), np.array([2.0, 0.01, 30.0])
    X = center + scale * rng.standard_normal((5, 64, 3))
    after = feature.finished(feature.draft(X), center, scale)
    before = feature.finished(feature.draft((X - center) / scale), np.zeros(3), np.ones(3))
    np.testing.assert_allclose(after, before, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_name_of_its_own_and_float32_stays(kind):
    feature = KINDS[kind]
    X = np.random.default_rng(0).standard_normal((5, 64, 3)).astype(np.float32)
    F = feature.finished(feature.draft(X), np.zeros(3), np.ones(3))
    assert F.dtype == np.float32
    names = feature.names(["a", "b", "c"])
    assert len(set(names)) == len(names) == F.shape[1]
