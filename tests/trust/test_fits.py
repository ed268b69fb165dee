"""What a fit says about itself: whether anything is common, and every reason not to trust it."""

import re
import warnings

import numpy as np
import pytest

from dlcca import LocalCCA, open_model, simulate
from dlcca.errors import Untrusted
from dlcca.numerics.metrics.cca import LocalMetric
from dlcca.trust.quality import Checks, assess
from tests.realdata.arrays import beats, digits

KNN = {"neighborhoods": "knn", "random_state": 0}


def fitted(views, **options):
    """The fit, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)
        return LocalCCA(**options).fit(views)


@pytest.mark.each_value
@pytest.mark.parametrize("smoothness", [0.0, 0.95])
@pytest.mark.parametrize("options", [KNN, {"window": 8}, {"window": 31}], ids=["knn", "windows", "long windows"])
def test_independent_views_share_nothing_and_no_landmark_says_otherwise(smoothness, options):
    views, _truth = simulate.independent(800, smoothness=smoothness, random_state=1)
    with pytest.warns(Untrusted, match="nothing common found"):
        model = LocalCCA(landmarks=100, **options).fit(views)
    assert model.n_common_ == 0
    assert model.quality_["p_common"] > 0.05
    assert model.quality_["landmarks_common"] <= 0.02


@pytest.mark.parametrize("private", [False, True])
def test_pendulums_are_common_though_a_shift_would_not_part_them(private):
    views, _truth = simulate.pendulums(private=private, random_state=1)
    model = LocalCCA().fit(views)
    assert (model.n_common_, model.warnings_) == (1, [])
    assert model.quality_["common_against"] == "speeds"
    assert model.quality_["p_common"] <= 0.05


@pytest.mark.each_value
@pytest.mark.parametrize("noise", [0.02, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_what_two_of_three_views_share_is_named_and_not_called_common_to_all(noise, seed):
    views, _truth = simulate.overlapping(n=1000, shared=[(0, 1)], noise=noise, random_state=seed)
    model = fitted(views, landmarks=100, **KNN)
    assert model.n_common_ == 0
    assert model.quality_["pairs_common"] == [[0, 1]]
    (reason,) = [reason for reason in model.warnings_ if "nothing common found to all 3 views" in reason]
    assert "two by two these views share something: 1 and 2." in reason


def test_variables_that_every_two_of_three_views_share_are_not_common_to_all():
    views, _truth = simulate.overlapping(n=1000, shared=[(0, 1), (1, 2), (0, 2)], noise=0.1, random_state=0)
    model = fitted(views, landmarks=100, **KNN)
    assert model.n_common_ == 0
    assert model.quality_["pairs_common"] == [[0, 1], [0, 2], [1, 2]]


@pytest.mark.each_value
@pytest.mark.parametrize("noise", [0.02, 0.4])
@pytest.mark.parametrize("shared", [[(0, 1, 2)], [(0, 1, 2), (0, 1)]])
def test_a_variable_of_all_three_views_is_found(noise, shared):
    views, _truth = simulate.overlapping(n=1000, shared=shared, noise=noise, random_state=0)
    model = LocalCCA(landmarks=100, **KNN).fit(views)
    assert model.n_common_ >= 1
    assert "pairs_common" not in model.quality_


def test_the_summary_does_not_contradict_itself_where_no_landmark_is_significant_alone():
    views, _truth = simulate.pendulums(random_state=1)
    model = LocalCCA().fit(views)
    assert model.quality_["landmarks_common"] == 0
    assert "1 common dimension, significant over all landmarks together (at none of them alone)." in model.summary()


@pytest.mark.parametrize("n_common", [1, 2, 3])
def test_common_dimensions_are_counted_and_every_landmark_has_its_numbers(n_common):
    views, _truth = simulate.linear(3000, n_common=n_common, random_state=0)
    model = LocalCCA(landmarks=150, **KNN).fit(views)
    assert model.n_common_ == n_common
    shapes = {name: X.shape for name, X in model.local_quality_.items()}
    alone, by_view = ("n_common", "p_value", "strength", "null_edge"), ("rank", "radius", "condition")
    assert shapes == dict.fromkeys(alone, (150,)) | dict.fromkeys(by_view, (150, 2))
    assert (model.local_quality_["condition"] >= 1).all()
    assert (model.local_quality_["rank"] == n_common + 1).all()


def test_strength_is_large_where_views_share_and_small_where_they_do_not():
    rng = np.random.default_rng(0)
    z, *noise = rng.standard_normal((4, 2000, 2))
    z, *noise = (np.cumsum(x, axis=0) * 0.05 + x for x in (z, *noise))
    second = np.where(np.arange(2000)[:, None] < 1000, z + 0.2 * noise[0], noise[1])
    model = fitted([z + 0.2 * noise[2], second], window=31, landmarks=400)
    strength = model.common_strength_
    assert strength.shape == (2000,)
    assert strength[:950].mean() > 0.6
    assert strength[1050:].mean() < 0.2
    assert model.n_common_ >= 1
    here = model.local_quality_["n_common"][model.landmarks_ > 1050]
    assert (here > 0).mean() < 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_digits_are_found_to_be_common_to_their_features(seed):
    model = LocalCCA(n_components=9, neighborhoods="knn", landmarks=300, random_state=seed).fit(digits())
    assert model.n_common_ >= 1
    assert not any("nothing common" in reason for reason in model.warnings_)


def test_a_coordinate_of_one_outlier_gives_way_and_is_told_of():
    model = LocalCCA(n_components=5, coordinates="diffusion", **KNN).fit(beats(20))
    assert min(model.quality_["carriers"]) >= 0.01
    assert "1 slower coordinate dominated by less than 1% of the samples replaced by others" in "".join(model.notes_)
    assert model.n_common_ >= 1


@pytest.mark.parametrize("artefact", [0, 5])
def test_an_outlier_makes_no_potential_coordinate(artefact):
    views = [X.copy() for X in beats(20)]
    for X in views:
        X[100] += artefact * np.ptp(X, axis=0)  # one row of each view far outside
    model = LocalCCA(n_components=5, **KNN).fit(views)
    assert model.settings_.spectrum.coordinates == "potential"
    assert min(model.quality_["carriers"]) >= 0.01
    assert model.n_common_ >= 1
    assert any("not connected with the others" in note for note in model.notes_) == (artefact > 0)


def test_where_there_is_nothing_better_it_is_warned_of(monkeypatch):
    monkeypatch.setattr("dlcca.fitting.spectrum.SPARE", 0)
    with pytest.warns(Untrusted, match="coordinate 1: less than 1% of the samples hold half of its variance"):
        model = LocalCCA(n_components=5, coordinates="diffusion", **KNN).fit(beats(20))
    assert model.quality_["carriers"][0] < 0.01
    assert 0 not in model.quality_["independent_coordinates"]


def test_harmonics_are_named_and_do_not_spoil_the_result():
    views, _truth = simulate.swiss_roll(1500, random_state=0)
    model = LocalCCA(n_components=3, **KNN).fit(views)
    assert model.warnings_ == []
    assert model.quality_["independent_coordinates"] == [0]
    assert "2, 3 follow from earlier ones (harmonics); independent: 1" in "".join(model.notes_)
    assert "Note: " in model.summary()


def test_the_number_of_separate_pieces_is_exact():
    rng = np.random.default_rng(0)
    z = rng.uniform(0, 1, 600) + 1000 * np.repeat(np.arange(4), 150)
    views = [np.column_stack([z, rng.uniform(0, 1, 600)]) for _ in range(2)]
    model = fitted(views, n_links=8, n_neighbors=32, **KNN)
    assert model.quality_["pieces"] == 4
    assert any("4 separate pieces" in reason for reason in model.warnings_)


def test_samples_far_from_all_landmarks_are_told():
    views, _truth = simulate.linear(1000, random_state=0)
    far = [np.concatenate([X, 40 + 0.01 * X[:40]]) for X in views]
    model = fitted(far, landmarks=np.arange(0, 1000, 5), n_neighbors=32, **KNN)
    assert model.quality_["far_rows"] > 0.01
    assert any("lie far from every landmark" in reason for reason in model.warnings_)
    assert fitted(views, landmarks=200, n_neighbors=32, **KNN).quality_["far_rows"] == 0


@pytest.mark.parametrize(("bandwidth", "word"), [(1e-9, "lower"), (1e3, "upper")])
def test_a_bandwidth_at_its_end_is_told(bandwidth, word):
    views, _truth = simulate.pendulums(200, random_state=0)
    model = fitted(views, bandwidth=bandwidth, n_components=1)
    assert any(f"the bandwidth is at its {word} end" in reason for reason in model.warnings_)


def test_too_few_landmarks_are_half_landmarks_r2_of_them():
    views, _truth = simulate.swiss_roll(2000, random_state=0)
    old = {"n_neighbors": 64, "coordinates": "diffusion", **KNN}
    few = fitted(views, landmarks=16, n_links=8, **old)
    many = fitted(views, landmarks=1000, **old)
    assert min(few.quality_["half_landmarks_r2"]) < 0.9
    assert min(many.quality_["half_landmarks_r2"]) > 0.95


def test_equal_eigenvalues_at_the_end_are_told():
    views, _truth = simulate.torus(2000, common="big", random_state=0)
    split = LocalCCA(n_components=1, **KNN).fit(views)
    whole = LocalCCA(n_components=2, **KNN).fit(views)
    assert split.quality_["eigengap"] < whole.quality_["eigengap"] / 3
    assert any("nearly equal eigenvalues" in note for note in split.notes_) == (split.quality_["eigengap"] < 0.05)


def test_what_is_known_of_a_fit_is_saved_with_it(tmp_path):
    views, _truth = simulate.torus(600, random_state=0)
    model = LocalCCA(landmarks=100, **KNN).fit(views)
    model.save(tmp_path / "model.zarr")
    opened = open_model(tmp_path / "model.zarr")
    assert (opened.quality_, opened.notes_, opened.warnings_) == (model.quality_, model.notes_, model.warnings_)
    np.testing.assert_array_equal(opened.common_strength_, model.common_strength_)
    assert opened.local_quality_.keys() == model.local_quality_.keys()
    for name, X in model.local_quality_.items():
        np.testing.assert_array_equal(opened.local_quality_[name], X)


def test_one_view_has_nothing_to_share_and_is_not_asked():
    views, _truth = simulate.metric_square(400, random_state=0)
    model = fitted(views, neighborhoods="knn", n_neighbors=20)
    assert "p_common" not in model.quality_
    assert model.common_strength_ is None


def found_with(**checks):
    """The reasons for a fit that is well but for what is said."""
    metric = LocalMetric([], np.full((4, 1), 0.99), np.ones((4, 2), np.int64), np.ones((4, 2)))
    well = {"carriers": np.full(2, 0.2), "half_r2_more": np.ones(2), "independent": [0, 1]}
    return assess(metric, 64, np.array([1.0, 0.9, 0.8]), checks=Checks(**{**well, **checks}))


@pytest.mark.parametrize(
    ("checks", "sentence"),
    [
        ({"half_r2_more": np.array([0.3, 1.0])}, r"too few landmarks: half of them give another .* \(R² 0.30\)"),
        ({"pieces": 3}, "falls into at least 3 separate pieces"),
        ({"far": 0.02}, "2.0% of the samples lie far"),
        ({"seen": 1.1, "could_see": 32}, "at its lower end"),
        ({"seen": 32.0, "could_see": 32}, "at its upper end"),
        ({"carriers": np.array([0.2, 0.001])}, "coordinate 2: less than 1%"),
    ],
)
def test_every_reason_is_a_sentence_of_its_own(checks, sentence):
    (reason,) = found_with(**checks).reasons
    assert re.search(sentence, reason)


def test_a_fit_that_is_well_has_no_reasons():
    quality = found_with()
    assert (quality.reasons, quality.notes, quality.measures["trusted"]) == ([], [], True)


def test_the_landmarks_are_not_to_blame_for_a_coordinate_of_one_row():
    quality = found_with(half_r2_more=np.array([0.0, 1.0]), carriers=np.array([0.001, 0.2]))
    assert len(quality.reasons) == 1
    assert "coordinate 1" in quality.reasons[0]


@pytest.mark.parametrize(
    ("views", "options"),
    [
        (lambda: simulate.pendulums(100, random_state=0)[0], {"neighborhoods": "time"}),
        (
            lambda: [
                np.linspace(0, 1, 300)[:, None] + 0.002 * np.random.default_rng(v).standard_normal((300, 1))
                for v in range(2)
            ],
            {"window": 15},
        ),
    ],
    ids=["a swing or two", "two ramps"],
)
def test_a_recording_too_short_to_tell_is_not_said_to_share_nothing(views, options):
    with pytest.warns(Untrusted, match="cannot be decided whether anything is common"):
        model = LocalCCA(random_state=0, **options).fit(views())
    assert model.n_common_ == 0
    assert not model.quality_["decidable"]
    assert not any("nothing common" in reason for reason in model.warnings_)
