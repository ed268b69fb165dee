"""Means over many records of the kinds that the defaults were chosen for, beside linear CCA."""

import functools
import importlib.util
import warnings

import numpy as np
import pytest

from dlcca import LocalCCA
from tests.support.recordings import shared

pytestmark = pytest.mark.slow


class NumpyThatUnpacksOnce:
    """NumPy, but an archive is unpacked when it is loaded, and not each time that one of its arrays is indexed."""

    def __getattr__(self, name):
        return getattr(np, name)

    def load(self, file):
        with np.load(file) as found:
            return dict(found)


@functools.cache
def tool():
    """The scoring tool beside the recordings."""
    path = shared("..", "realscores.py")
    spec = importlib.util.spec_from_file_location("realscores", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = NumpyThatUnpacksOnce()
    return module


def fitted(views, q):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LocalCCA(n_components=q, neighborhoods="knn", random_state=0).fit(views).embedding_


@functools.cache
def problems(kind, most):
    """Each problem: its name, views and score, and an embedding of so many coordinates."""
    found, last = [], (None, None)
    for name, views, _qs, score in tool().problems([kind]):
        if last[0] is not views:  # the watch has two scores of the same views
            last = views, fitted(views, most)
        found.append((name, views, score, last[1]))
    return found


def scores(kind, q, most=None):
    """Scores (problems,) of q coordinates of local CCA with its defaults and of linear CCA, by the name of the problem.

    They are the first of ``most`` coordinates, of which the leading ones do not depend on how many there are.
    """
    return {
        name: (score(embedding[:, :q]), score(tool().linear_cca(views, q)))
        for name, views, score, embedding in problems(kind, most or q)
    }


@pytest.mark.parametrize(("q", "least"), [(5, 0.77), (2, 0.62)])
def test_breath_phase_of_twelve_records(q, least):
    ours, linear = np.mean(list(scores("bidmc", q, most=5).values()), axis=0)
    assert ours >= least
    assert ours > linear + 0.05


def test_two_coordinates_are_the_first_of_five():
    for _name, views, _score, embedding in problems("bidmc", 5)[:2]:
        np.testing.assert_allclose(fitted(views, 2), embedding[:, :2], atol=1e-8)


def test_sleep_stages_of_four_nights():
    ours, linear = np.mean(list(scores("sleep", 5).values()), axis=0)
    assert ours >= linear + 0.03


def test_digits_of_four_pairs_of_features():
    ours = [score for score, _linear in scores("digits", 9).values()]
    assert np.mean(ours) >= 0.945
    assert min(ours) >= 0.92


def test_exercises_are_in_the_coordinates_and_the_side_is_not():
    found = scores("watch", 5)
    assert found["watch exercise (wanted)"][0] >= 0.80
    assert found["watch side (nuisance, chance .5)"][0] <= 0.60
