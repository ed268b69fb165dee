"""What a fit in stages knows of its reach is what a fit in memory knows."""

import numpy as np
import pytest
import zarr

from dlcca import LocalCCA, open_model
from dlcca.fitting import embed, pipeline, runner
from dlcca.model import Model
from tests.fitting.jobs import KNN, TIME, recordings, small_job

pytestmark = pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")


@pytest.mark.parametrize(
    "options",
    [KNN, {**TIME, "fusion": "view"}, {**TIME, "fusion": "average", "kernel": "sparse", "n_links": 10}],
    ids=["alternating", "view", "average, sparse"],
)
def test_stages_store_the_reach_of_a_fit_in_memory(tmp_path, options):
    views = recordings(2)
    job = small_job(tmp_path, views, **options)
    pipeline.run(job)
    here = LocalCCA(random_state=0, **options).fit(views)
    np.testing.assert_allclose(embed.model_of(job).reach, here.model_.reach, rtol=1e-9)
    used = here.model_.needed
    assert (here.model_.reach[used] > 0).all()
    # By its definition, in the last view that is used.
    width = 9 if options["neighborhoods"] == "time" else 1
    X, L = views[used[-1]], here.landmarks_
    nearest = [min(np.linalg.norm(X[j] - X[i]) for i in L if abs(i - j) >= width) for j in range(len(X))]
    assert here.model_.reach[used[-1]] == pytest.approx(np.quantile(nearest, 0.999))


def test_the_model_of_a_run_lies_in_its_store(tmp_path):
    from dlcca.settings.auto import Choices

    job = small_job(tmp_path, recordings(2), **KNN)
    pipeline.run(job)
    runner.finish(job, Choices(job.settings, {}))
    opened = open_model(job.address)
    views = recordings(2)
    np.testing.assert_allclose(opened.transform(views), opened.embedding_.compute(), atol=1e-8)
    assert "model" in zarr.open_group(job.address, mode="r")
    assert isinstance(opened.model_, Model)
