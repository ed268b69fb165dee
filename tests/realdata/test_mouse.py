"""A running mouse from the side and from below: the cameras share the rhythm of its strides."""

import numpy as np
import pytest

from dlcca.storage import run as run_store
from tests.realdata.problems import mouse, run, strongest_frequency


@pytest.mark.slow
def test_the_leading_coordinate_has_the_rhythm_of_the_strides(tmp_path):
    problem = mouse(tmp_path)
    run(problem)
    found = run_store.read(problem.asked.store)
    assert found.embedding.shape[0] == 994
    frequency = strongest_frequency(found.embedding[:, 0].astype(float), 250.0)
    stride = frequency / round(frequency / 7.15)  # 7.1-7.2 Hz, or the same of a harmonic
    assert round(frequency / 7.15) in (1, 2)
    assert 7.1 <= stride <= 7.2


@pytest.mark.parametrize("hertz", [7.15, 14.31])
def test_a_frequency_between_bins_is_found(hertz):
    x = np.sin(2 * np.pi * hertz * np.arange(994) / 250 + 0.3)
    assert strongest_frequency(x + 5, 250.0) == pytest.approx(hertz, abs=0.02)
