"""The table of metrics: a new one is a line, known to fits in memory, to runs and to the checks of settings."""

from unittest import mock

import numpy as np
import pytest

from dlcca import LocalCCA, Settings
from dlcca.errors import SettingsError
from dlcca.fitting import metric as metric_stage
from dlcca.fitting import pipeline
from dlcca.numerics.metrics import METRICS, Metric
from dlcca.numerics.metrics.cca import cca_metric
from tests.fitting.jobs import KNN, embedding, recordings, small_job


@pytest.fixture
def added():
    """A metric from outside of the package."""
    with mock.patch.dict(METRICS):
        METRICS["mine"] = Metric(lambda views, ridge, rank: cca_metric(*views, ridge=2 * ridge), most_views=2)
        yield "mine"


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")
def test_a_metric_that_was_added_is_that_of_a_fit_and_of_a_run(added, tmp_path):
    views = recordings(2)
    model = LocalCCA(**KNN, metric=added, random_state=0).fit(views)
    same = LocalCCA(**KNN, metric="cca", ridge=0.06, random_state=0).fit(views)
    np.testing.assert_allclose(model.embedding_, same.embedding_, atol=1e-10)
    job = small_job(tmp_path, views, 50, **KNN, metric=added)
    pipeline.run(job)
    np.testing.assert_allclose(embedding(job), model.embedding_, atol=1e-8)


def test_a_metric_that_was_added_has_a_fingerprint_of_its_own(added, tmp_path):
    jobs = [small_job(tmp_path / name, recordings(2), 50, **KNN, metric=name) for name in (added, "cca")]
    one, two = (metric_stage.METRIC.fingerprint(job) for job in jobs)
    assert one != two


def test_the_number_of_views_is_checked_by_the_table(added):
    with pytest.raises(SettingsError, match="metric='mine' is for two views and 3 were given"):
        LocalCCA(metric=added).fit(recordings(3))


def test_an_unknown_metric_is_refused_with_the_nearest_known_one():
    with pytest.raises(SettingsError, match="did you mean 'maxvar'"):
        Settings.from_options(metric="maxvr")


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_gives_as_many_directions_as_its_line_says(name):
    known, rng = METRICS[name], np.random.default_rng(0)
    K = known.most_views or 3
    views = [rng.standard_normal((2, 12, d)) for d in (3, 5, 4)[:K]]
    found = known.compute(views, 0.03, 16)
    assert {F.shape[2] for F in found.factors} == {known.directions([min(12, X.shape[2]) for X in views])}
