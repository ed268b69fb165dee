"""Drafts that are finished column by column, against the definition, number by number."""

import numpy as np
import pytest

from dlcca.recordings.features import columns as module
from dlcca.recordings.features.columns import Columns, side_by_side


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [-np.inf, -0.5])
def test_every_column_has_numbers_of_its_own(dtype, least, monkeypatch):
    monkeypatch.setattr(module, "BATCH_BYTES", 100)
    rng = np.random.default_rng(0)
    F, center, scale = rng.standard_normal((23, 4)).astype(dtype), rng.standard_normal(4), rng.uniform(1, 2, 4)
    expected = [[max((F[i, j] - center[j]) / scale[j], least) for j in range(4)] for i in range(23)]
    found = Columns.of(center, scale, least).finish(F)
    assert found is F
    assert F.dtype == dtype
    np.testing.assert_allclose(F, expected, rtol=1e-5, atol=1e-6)


def test_columns_side_by_side_and_back_from_an_array():
    both = side_by_side([Columns.of(np.ones(2), np.full(2, 3.0)), Columns.of(np.zeros(1), np.ones(1), -5.0)])
    again = Columns.from_array(both.as_array())
    assert again.center.tolist() == [1, 1, 0]
    assert again.scale.tolist() == [3, 3, 1]
    assert again.least.tolist() == [-np.inf, -np.inf, -5]
