"""Digits in Fourier and in Karhunen-Loève features: what both know is which digit it is."""

import numpy as np
import pytest

from dlcca.storage import run as run_store
from tests.realdata.problems import compared, mfeat, run


@pytest.mark.slow
@pytest.mark.parametrize(("fusion", "least"), [("auto", 0.93), ("alternating", 0.89), ("average", 0.93)])
def test_the_digit_is_in_nine_coordinates(tmp_path, fusion, least):
    problem = mfeat(tmp_path, fusion=fusion)
    run(problem)
    embedding = run_store.read(problem.asked.store).embedding
    truth = problem.truth
    assert truth is not None
    assert truth.is_sorted  # by digit: a stretch that is held out would hold all of one
    fold = truth.folds("random")
    assert truth.score(embedding, fold) >= least
    assert np.bincount(fold).tolist() == [400] * 5


@pytest.mark.slow
@pytest.mark.parametrize("pair", [("fou", "kar"), ("fac", "fou"), ("zer", "kar"), ("pix", "fou")], ids="-".join)
def test_no_baseline_tells_digits_better(tmp_path, pair):
    ours, *others = compared(mfeat(tmp_path, pair=pair)).table
    assert ours["score"] >= max(entry["score"] for entry in others)
