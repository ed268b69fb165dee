"""What the views share, and what is the matter with a result: told by a staged run as by a fit in memory."""

import warnings

import numpy as np
import pytest
import zarr

from dlcca import LocalCCA, simulate, stability
from dlcca.errors import Untrusted
from dlcca.fitting import runner
from dlcca.settings.auto import choose
from dlcca.settings.fit import Settings
from dlcca.storage import run as run_store
from tests.fitting.jobs import KNN, TIME, recordings, small_job

N = 400


def given(n, k=12):
    """Neighborhoods of every fourth row, that neither time nor values would give."""
    return np.arange(0, n, 4)[:, None] // 2 + np.arange(k) * 7 % n


CASES = {
    "nearest": (2, KNN),
    "nearest, 3 views": (3, KNN),
    "windows": (2, TIME),
    "windows, 3 views": (3, TIME),
    "given": (2, {"neighborhoods": given(N), "landmarks": np.arange(0, N, 4), "n_components": 3}),
}


def run(folder, views, options):
    """Memory and stages: the fitted estimator, and the run that was written."""
    job = small_job(folder, views, 64, block_rows=128, **options)
    choices = choose(Settings.from_options(**options), job.n, job.K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        runner.run(job, choices)
        model = LocalCCA(random_state=0, **options).fit(views)
    return model, run_store.read(job.address)


@pytest.mark.parametrize("case", CASES)
def test_a_staged_run_finds_what_a_fit_in_memory_finds(case, tmp_path):
    K, options = CASES[case]
    model, found = run(tmp_path, recordings(K, N), options)
    assert found.n_common == model.n_common_
    for name in ("p_common", "effective_neighbors", "common_by_chance", "common_strength"):
        assert found.quality[name] == pytest.approx(model.quality_[name], rel=1e-8), name
    assert found.quality["common_against"] == model.quality_["common_against"]
    assert found.warnings == model.warnings_
    assert found.quality["notes"] == model.notes_
    for name in ("far_rows", "landmarks_seen", "half_landmarks_r2", "eigengap", "independent_coordinates", "carriers"):
        assert found.quality[name] == pytest.approx(model.quality_[name], rel=1e-6, abs=1e-8), name
    assert set(found.local) == set(model.local_quality_)
    for name, values in model.local_quality_.items():
        np.testing.assert_allclose(found.local[name], values, rtol=1e-6, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(found.strength, model.common_strength_, atol=1e-8)
    assert found.strength.shape == (N,)
    assert ((found.strength >= 0) & (found.strength <= 1)).all()


@pytest.mark.parametrize("case", CASES)
def test_a_run_measures_how_much_of_each_coordinate_is_reproduced_on_half_of_the_samples(case, tmp_path):
    K, options = CASES[case]
    model, found = run(tmp_path, recordings(K, N), options)
    assert "from_halves" not in model.quality_  # in memory `dlcca.stability` measures it, on request
    if case == "given":
        assert "from_halves" not in found.quality
        return
    again = found.quality["from_halves"]
    assert len(again) == 3
    expected = stability(model, recordings(K, N), n_splits=1).reproducibility
    np.testing.assert_allclose(again, expected, atol=1e-5)


def test_so_few_rows_that_they_cannot_be_halved_are_told_nothing_of_and_do_no_harm(tmp_path):
    _model, found = run(tmp_path, recordings(2, 60), {**TIME, "landmarks": 30})
    assert "from_halves" not in found.quality


def test_views_that_share_nothing_are_told_so_by_a_staged_run(tmp_path):
    views, _truth = simulate.independent(N, random_state=0)
    _model, found = run(tmp_path, views, KNN)
    assert found.n_common == 0
    assert any("nothing common found" in reason for reason in found.warnings)


def test_one_view_has_no_strength(tmp_path):
    _model, found = run(tmp_path, recordings(1, N), TIME)
    assert found.strength is None
    assert "p_common" not in found.quality


def test_a_damaged_strength_is_found(tmp_path):
    run(tmp_path, recordings(2, N), TIME)
    place = str(tmp_path / "run.zarr")
    assert not any(run_store.damages(place).values())
    for name in ("strength", "quality/p_value"):
        array = zarr.open_array(f"{place}/{name}", mode="r+")
        array[:3] = 0.123
    wrong = {name for name, problem in run_store.damages(place).items() if problem}
    assert wrong >= {"strength", "quality/p_value"}
