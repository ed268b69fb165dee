"""Wrong input gets an error that says what was found, what was needed and what to change; and leaves nothing behind."""

import json

import numpy as np
import pytest

from dlcca import LocalCCA, Settings, open_model, simulate
from dlcca.errors import DataError, ModelFileError, NeighborhoodTooSmall, SettingsError, StorageError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 60, 3))


def spoiled(row, channel, value):
    bad = Y.copy()
    bad[row, channel] = value
    return bad


BAD_VIEWS = {
    "different lengths": ([X, Y[:50]], r"'view 1' has 60, 'view 2' has 50 samples.*cut or resample"),
    "NaN": ([X, spoiled(17, 2, np.nan)], r"'view 2' holds NaN in row 17, channel 2"),
    "infinity": ({"eeg": X, "ecg": spoiled(3, 0, -np.inf)}, r"'ecg' holds infinity in row 3, channel 0"),
    "one sample": ([X[:1], Y[:1]], r"1 sample; at least 2"),
    "no samples": ([X[:0], Y[:0]], r"0 samples; at least 2"),
    "no views": ([], r"no views were given"),
    "no views in a dict": ({}, r"no views were given"),
    "complex": ([X, Y + 1j], r"dtype complex128; real numbers.*real and imaginary parts"),
    "object": ([X, Y.astype(object)], r"dtype object; real numbers"),
    "text": ([X, Y.astype(str)], r"dtype <U\d+; real numbers"),
    "constant view": ([X, np.full_like(Y, 2.5)], r"'view 2' is constant: all 3 channels.*leave this view out"),
    "no channels": ([X, Y[:, :0]], r"'view 2' has no channels"),
    "too many axes": ([X, np.zeros((60, 3, 2))], r"shape \(60, 3, 2\); \(samples, channels\)"),
    "a missing view": ([X, None], r"only transform may lack a view"),
    "not arrays at all": (42, r"list or dict of arrays.*not int"),
    "nothing": (None, r"list or dict of arrays.*not NoneType"),
}


@pytest.mark.parametrize("name", BAD_VIEWS)
def test_views_that_cannot_be_fitted_are_refused_with_the_reason(name):
    views, message = BAD_VIEWS[name]
    with pytest.raises(DataError, match=message):
        LocalCCA().fit(views)


BAD_OPTIONS = {
    "ridge 0 in small windows": (
        {"ridge": 0, "window": 6},
        r"at least 7 when ridge is 0. Raise window \(now 6\)",
    ),
    "ridge 0 with few neighbours": (
        {"ridge": 0, "neighborhoods": "knn", "n_neighbors": 5},
        r"views with 3 and 3 channels.*Raise n_neighbors",
    ),
    "more coordinates than landmarks": ({"n_components": 20, "landmarks": 10}, r"n_components=20 with 10 landmarks.*9"),
    "landmark out of range": ({"landmarks": [3, 60]}, r"landmarks names row 60; the views have rows 0 to 59"),
    "negative landmark": ({"landmarks": [-1, 6]}, r"landmarks names row -1"),
    "repeated landmark": ({"landmarks": [5, 3, 5]}, r"landmarks names row 5 twice"),
    "landmarks that are no row numbers": ({"landmarks": [0.5, 1.5]}, r"row numbers \(L,\) are needed"),
    "more landmarks than samples": ({"landmarks": 100}, r"landmarks=100, but the views have 60 samples"),
    "one landmark": ({"landmarks": 1}, r"at least 2"),
    "window longer than the recording": ({"window": 100}, r"window=100, but the views have 60 samples"),
    "more neighbours than samples": ({"neighborhoods": "knn", "n_neighbors": 99}, r"n_neighbors=99, but.*60 samples"),
    "unknown metric": ({"metric": "ccca"}, r"metric='ccca' is not known; did you mean 'cca'\?"),
    "unknown fusion": ({"fusion": "alternate"}, r"did you mean 'alternating'\?"),
    "unknown neighborhoods": ({"neighborhoods": "kn"}, r"did you mean 'knn'\?"),
    "unknown kernel": ({"kernel": "spares"}, r"did you mean 'sparse'\?"),
    "unknown bandwidth": ({"bandwidth": "medium"}, r"did you mean 'median'\?"),
    "unknown solver": ({"solver": "lanzcos"}, r"did you mean 'lanczos'\?"),
    "negative ridge": ({"ridge": -0.1}, r"ridge=-0.1; a number of at least 0"),
    "ridge as text": ({"ridge": "0.1"}, r"a number of at least 0"),
    "bandwidth 0": ({"bandwidth": 0}, r"bandwidth=0; a number above 0"),
    "no coordinates": ({"n_components": 0}, r"n_components=0; a whole number of at least 1"),
    "half a coordinate": ({"n_components": 1.5}, r"a whole number"),
    "a window of one": ({"window": 1}, r"window=1; a whole number of at least 2"),
    "mahalanobis for two views": ({"metric": "mahalanobis"}, r"is for one view and 2 were given"),
    "neighborhoods of another shape": ({"neighborhoods": np.zeros((60, 1), int)}, r"\(L, k\).*k at least 2"),
    "neighborhoods out of range": ({"neighborhoods": np.full((60, 8), 60)}, r"neighborhoods names row 60"),
    "neighborhoods without landmarks": ({"neighborhoods": np.zeros((7, 8), int)}, r"name the landmark of each row"),
    "paper's normalisation of alternating": (
        {"neighborhoods": "knn", "n_neighbors": 20, "normalization": "paper"},
        r"not defined for fusion='alternating'",
    ),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_mean_nothing_are_refused_with_the_reason(name):
    options, message = BAD_OPTIONS[name]
    with pytest.raises((SettingsError, DataError), match=message):
        LocalCCA(**options).fit([X, Y])


def test_more_coordinates_than_the_kernel_has_rank_are_refused():
    z = np.repeat(np.arange(4.0), 25)[:, None] + 1e-3 * RNG.standard_normal((100, 1))
    with pytest.raises(SettingsError, match=r"the kernel has rank \d+: ask for at most"):
        LocalCCA(n_components=40, landmarks=60, bandwidth=1e6).fit([z, z])


def test_more_coordinates_than_the_views_share_are_refused_in_alternating_fusion():
    z = np.repeat(np.arange(4.0), 50)
    views = [np.column_stack([z, z**2]) + 1e-3 * RNG.standard_normal((200, 2)) for _ in range(2)]
    options = {"neighborhoods": "knn", "landmarks": 40, "kernel": "dense", "bandwidth": 1e9, "random_state": 0}
    with pytest.raises(SettingsError, match=r"the kernel has rank \d+: ask for at most"):
        LocalCCA(n_components=30, **options).fit(views)


def test_metrics_that_need_more_or_fewer_views_say_so():
    with pytest.raises(SettingsError, match="is for two views and 3 were given; use 'maxvar'"):
        LocalCCA(metric="cca").fit([X, Y, X])
    with pytest.raises(SettingsError, match="needs two views or more"):
        LocalCCA(metric="maxvar").fit([X])
    with pytest.raises(SettingsError, match="needs two views or more"):
        LocalCCA(fusion="alternating").fit([X])


def test_small_neighborhoods_have_an_error_of_their_own():
    with pytest.raises(NeighborhoodTooSmall, match="landmark 0 has 6 neighbors"):
        LocalCCA(ridge=0, window=6).fit([X, Y])
    LocalCCA(ridge=0.03, window=6, n_components=1)  # making it checks nothing: scikit-learn's rule


@pytest.mark.parametrize("views", [[X], [X, Y, Y], [X[:, :2], Y], [X, np.full_like(Y, np.nan)]])
def test_transform_refuses_what_the_model_was_not_fitted_with(views):
    walk = np.cumsum(RNG.standard_normal((60, 3)), axis=0)
    model = LocalCCA().fit([walk, walk @ RNG.standard_normal((3, 3))])
    with pytest.raises(DataError):
        model.transform(views)


def test_an_unknown_option_or_section_suggests_the_nearest(tmp_path):
    with pytest.raises(SettingsError, match="did you mean 'n_links'"):
        Settings.from_options(nlinks=3)
    with pytest.raises(SettingsError, match=r"\[kernel\] n_link is not a setting; did you mean 'n_links'"):
        Settings.from_dict({"kernel": {"n_link": 3}})
    with pytest.raises(SettingsError, match=r"\[kernels\] is not a section; did you mean 'kernel'"):
        Settings.from_dict({"kernels": {}})
    file = tmp_path / "run.toml"
    file.write_text("[kernel]\nn_links = 12\n[metric]\nridge = 0.1\n")
    settings = Settings.from_toml(file)
    assert (settings.kernel.n_links, settings.metric.ridge) == (12, 0.1)
    file.write_text("[kernel\n")
    with pytest.raises(SettingsError, match="is not TOML"):
        Settings.from_toml(file)


@pytest.fixture
def saved(tmp_path):
    views, _truth = simulate.pendulums(400, random_state=0)
    path = tmp_path / "model.zarr"
    LocalCCA().fit(views).save(path)
    return path


def chunks(path, array):
    return sorted(p for p in (path / array / "c").rglob("*") if p.is_file())


def test_a_damaged_model_is_never_read_as_data(saved):
    chunk = chunks(saved, "factors_0")[0]
    intact = chunk.read_bytes()
    flipped = bytearray(intact)
    flipped[len(flipped) // 2] ^= 1
    for damaged in (bytes(flipped), intact[: len(intact) // 2], b""):
        chunk.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="factors_0"):
            open_model(saved)
    chunk.unlink()
    with pytest.raises(ModelFileError, match=r"'factors_0'.*damaged or incomplete"):
        open_model(saved)
    chunk.write_bytes(intact)
    open_model(saved)


def test_a_model_file_of_another_version_or_kind_is_refused(saved, tmp_path):
    header = saved / "zarr.json"
    content = json.loads(header.read_text())
    content["attributes"]["version"] = 99
    header.write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=r"version 99.*this dlcca reads version 1"):
        open_model(saved)
    content["attributes"] |= {"version": 1, "manifest": {}}
    header.write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=r"header.*damaged"):
        open_model(saved)
    header.write_text(header.read_text()[:100])
    with pytest.raises(ModelFileError, match="not a dlcca model, or its header is damaged"):
        open_model(saved)
    with pytest.raises(ModelFileError, match="no model at"):
        open_model(tmp_path / "nowhere")
    (tmp_path / "file").write_text("hello")
    with pytest.raises(ModelFileError):
        open_model(tmp_path / "file")


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # too short to tell, which is not the question here
def test_saving_never_destroys_what_is_not_a_model(tmp_path):
    views, _truth = simulate.pendulums(60, random_state=0)
    model = LocalCCA().fit(views)
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(StorageError, match="exists and is not a dlcca model"):
        model.save(folder)
    assert (folder / "thesis.txt").read_text() == "years of work"


@pytest.mark.filterwarnings("ignore::dlcca.errors.Untrusted")  # too short to tell, which is not the question here
def test_an_interrupted_save_leaves_the_old_model_or_nothing(saved, monkeypatch):
    views, _truth = simulate.pendulums(100, random_state=1)
    other = LocalCCA().fit(views)
    before = open_model(saved).embedding_

    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zarr.Group.create_array", full_disk)
    with pytest.raises(OSError, match="No space left"):
        other.save(saved)
    with pytest.raises(OSError, match="No space left"):
        other.save(saved.parent / "new.zarr")
    monkeypatch.undo()
    np.testing.assert_array_equal(open_model(saved).embedding_, before)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
