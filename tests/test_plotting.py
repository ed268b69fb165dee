"""`model.plot` draws what the fit found, on one's own axes or on new ones."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from dlcca import LocalCCA, open_model, simulate
from dlcca.errors import DataError, NotFittedYet, SettingsError


@pytest.fixture(scope="module")
def model() -> LocalCCA:
    views, _ = simulate.pendulums(private=True, swing=2, random_state=0)
    return LocalCCA(n_components=3, random_state=0).fit(views)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def drawn(ax) -> None:
    """Draw for real, so that whatever is wrong with an artist comes out."""
    ax.figure.canvas.draw()


def test_the_embedding_is_one_point_for_each_sample(model):
    _, ax = plt.subplots()
    assert model.plot.embedding(ax) is ax
    drawn(ax)
    (points,) = ax.collections
    np.testing.assert_allclose(points.get_offsets(), model.embedding_[:, :2])
    np.testing.assert_allclose(points.get_array(), np.arange(400))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("coordinate 1", "coordinate 2")


def test_other_coordinates_and_colours_are_drawn_as_asked(model):
    ax = model.plot.embedding(coordinates=(2, 0), color=model.embedding_[:, 1], label="second", cmap="viridis")
    drawn(ax)
    (points,) = ax.collections
    np.testing.assert_allclose(points.get_offsets(), model.embedding_[:, [2, 0]])
    np.testing.assert_allclose(points.get_array(), model.embedding_[:, 1])
    assert [other.get_ylabel() for other in ax.figure.axes[1:]] == ["second"]


def test_axes_in_space_show_three_coordinates(model):
    ax = plt.figure().add_subplot(projection="3d")
    model.plot.embedding(ax)
    drawn(ax)
    assert ax.get_zlabel() == "coordinate 3"
    assert len(ax.collections[0].get_array()) == 400


def test_eigenvalues_are_bars_with_their_largest_gap(model):
    ax = model.plot.eigenvalues()
    drawn(ax)
    assert [bar.get_height() for bar in ax.patches[:3]] == pytest.approx(model.eigenvalues_.tolist())
    gap = np.max(-np.diff(model.eigenvalues_))
    assert f"gap {gap:.2f}" in [text.get_text() for text in ax.texts]


def test_the_spectrum_peaks_where_the_coordinate_oscillates(model):
    step = 5 / 400
    ax = model.plot.spectrum(step=step, marks={"here": 1.0})
    drawn(ax)
    lines = {line.get_label(): line for line in ax.lines}
    x, y = lines["coordinate 2"].get_data()
    frequency = np.fft.rfftfreq(400, step)
    rough = np.abs(np.fft.rfft((model.embedding_[:, 1] - model.embedding_[:, 1].mean()) * np.hanning(400)))
    assert x[np.argmax(y)] == pytest.approx(frequency[rough.argmax()], abs=2 * frequency[1])
    assert ax.get_xlabel() == "frequency [Hz]"
    assert "here" in [text.get_text() for text in ax.texts]


def test_strength_is_drawn_at_the_landmarks_in_the_time_that_is_given(model):
    time = np.arange(400) * 0.0125
    ax = model.plot.strength(time=time)
    drawn(ax)
    line = next(line for line in ax.lines if line.get_label() == "at the landmarks")
    np.testing.assert_allclose(line.get_xdata(), np.sort(time[model.landmarks_]))
    assert ax.get_xlabel() == "time [s]"
    assert model.plot.strength().get_xlabel() == "sample"


FIGURES = ("embedding", "spectrum", "strength", "eigenvalues")


def contents(ax) -> dict:
    """All that is on axes: words, and numbers of points, lines, bars and areas."""
    drawn(ax)
    return {
        "words": [ax.get_xlabel(), ax.get_ylabel(), *(text.get_text() for text in ax.texts)],
        "named": [line.get_label() for line in ax.lines],
        "lines": [np.asarray(line.get_xydata(), float) for line in ax.lines],
        "points": [np.asarray(points.get_offsets(), float) for points in ax.collections],
        "areas": [path.vertices for points in ax.collections for path in points.get_paths()],
        "bars": [np.asarray(bar.get_bbox().bounds) for bar in ax.patches if hasattr(bar, "get_height")],
    }


def assert_same(found: dict, expected: dict) -> None:
    assert (found["words"], found["named"]) == (expected["words"], expected["named"])
    for kind in ("lines", "points", "areas", "bars"):
        assert len(found[kind]) == len(expected[kind]), kind
        for one, other in zip(found[kind], expected[kind], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12, err_msg=kind)


@pytest.mark.parametrize("name", FIGURES)
def test_a_model_from_disk_is_drawn_alike(model, tmp_path, name):
    model.save(tmp_path / "model.zarr")
    again = open_model(tmp_path / "model.zarr")
    found = contents(getattr(again.plot, name)())
    assert_same(found, contents(getattr(model.plot, name)()))
    assert sum(part.size for kind in ("lines", "points", "bars") for part in found[kind]) > 0
    assert all(found["words"][:2])  # both axes say what they are


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_on_the_axes_that_are_given_and_nowhere_else(model, name):
    figure, (mine, other) = plt.subplots(1, 2)
    plt.sca(other)  # the one that pyplot would take
    assert getattr(model.plot, name)(mine) is mine
    assert plt.get_fignums() == [figure.number]
    assert [*other.lines, *other.collections, *other.patches, *other.texts] == []
    assert_same(contents(mine), contents(getattr(model.plot, name)()))


def test_the_strength_is_that_of_the_fit_with_its_median(model):
    ax = model.plot.strength()
    lines = {line.get_label(): line for line in ax.lines}
    order = np.argsort(model.landmarks_)
    strength = model.local_quality_["strength"][order]
    np.testing.assert_allclose(lines["at the landmarks"].get_xdata(), model.landmarks_[order])
    np.testing.assert_allclose(lines["at the landmarks"].get_ydata(), strength)
    first = model.landmarks_[order] <= 399 / 48  # the first of 48 equal parts of 400 samples
    assert lines["median"].get_ydata()[0] == pytest.approx(np.median(strength[first]))


@pytest.mark.parametrize("coordinates", [(0, 3), (0,), (-1, 0)])
def test_coordinates_that_are_not_there_are_refused(model, coordinates):
    with pytest.raises(SettingsError, match="2 of 0 to 2 are needed"):
        model.plot.embedding(coordinates=coordinates)


def test_colours_and_times_must_be_of_every_sample(model):
    with pytest.raises(DataError, match="each of 400 samples"):
        model.plot.embedding(color=np.zeros(3))
    with pytest.raises(DataError, match="each of 400 samples"):
        model.plot.strength(time=np.zeros(3))
    with pytest.raises(SettingsError, match="more than 0"):
        model.plot.spectrum(step=0)


def test_what_is_not_fitted_cannot_be_drawn():
    with pytest.raises(NotFittedYet):
        _ = LocalCCA().plot
