"""Digits in Fourier and in Karhunen-Loève features: what both know is which digit it is."""

import functools

import numpy as np
import pytest

from dlcca.storage import run as run_store
from tests.realdata.problems import mfeat, run, scores
from tests.support import repeats


@pytest.fixture(scope="module")
def problem_of(tmp_path_factory):
    """A problem of which the run is done, once for each fusion and pair of features."""

    @functools.cache
    def done(fusion, pair):
        problem = mfeat(tmp_path_factory.mktemp("mfeat"), fusion=fusion, pair=pair)
        run(problem)
        return problem

    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fusion", "least"), repeats.first(1, [("auto", 0.93), ("alternating", 0.89), ("average", 0.93)])
)
def test_the_digit_is_in_nine_coordinates(problem_of, fusion, least):
    problem = problem_of(fusion, ("fou", "kar"))
    embedding = run_store.read(problem.asked.store).embedding
    truth = problem.truth
    assert truth is not None
    assert truth.is_sorted  # by digit: a stretch that is held out would hold all of one
    fold = truth.folds("random")
    assert truth.score(embedding, fold) >= least
    assert np.bincount(fold).tolist() == [400] * 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"), repeats.first(1, [("fou", "kar"), ("fac", "fou"), ("zer", "kar"), ("pix", "fou")])
)
def test_no_baseline_tells_digits_better(problem_of, one, other):
    ours, *others = scores(problem_of("auto", (one, other))).values()
    assert ours >= max(others)
