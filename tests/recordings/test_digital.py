"""Raw samples of a converter are kept as they are, and read as the values that they stand for."""

import numpy as np
import pytest

from dlcca.errors import StaleStage, StoreFileError
from dlcca.fitting.job import Source
from dlcca.recordings import ingest
from dlcca.recordings.formats.recording import Digital
from dlcca.storage import views as store
from tests.recordings import fakes
from tests.recordings.fakes import ArraySignal, recipe, write
from tests.recordings.fakes import ingested as made_of

GAIN, BIAS = np.array([0.5, -2.0, 8.0]), np.array([0.0, 100.0, -3.0])


class NumberSignal(ArraySignal):
    """Whole numbers in memory; gains that differ between files are told by their first sample."""

    @property
    def digital(self):
        return Digital(np.dtype(np.int16), GAIN, BIAS + (self.X[0, 0] == 77))

    def read(self, first, last, columns):
        return self.digital.of(columns).values(self.read_digital(first, last, columns))

    def read_digital(self, first, last, columns):
        return np.ascontiguousarray(super().read(first, last, columns).astype(np.int16))


@pytest.fixture
def of_numbers(monkeypatch):
    """Files that hold whole numbers, as soon as this is called; before, they hold values."""

    def begin():
        monkeypatch.setattr(fakes, "ArraySignal", NumberSignal)

    return begin


def numbers(n=600, seed=0):
    """With a flat stretch, one at the end of the range, and one at the smallest number there is."""
    N = np.random.default_rng(seed).integers(-900, 900, (n, 3))
    N[0, 0], N[100:140, 1], N[300:312, 2] = 5, 4, 1000
    N[400:412] = -32768
    return N


def values_of(N):
    return (N.astype(np.int16) * GAIN.astype(np.float32) + BIAS.astype(np.float32)).astype(np.float64)


FEATURES = {"raw": "raw", "delay": {"kind": "delay", "delay_s": 0.1, "n_delays": 3}, "covariance": "covariance"}


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ("raw", {}),
        ("raw", {"step_s": 0.3}),
        ("raw", {"scaling": "standard"}),
        ("raw", {"pca_components": 2}),
        ("delay", {}),
        ("covariance", {}),
    ],
    ids=str,
)
def test_views_of_numbers_are_those_of_their_values(tmp_path, of_numbers, features, said):
    N = numbers()
    made = {"window_s": 0.6, "features": FEATURES[features], "saturated_s": 0.5, **said}
    values = write(tmp_path / "values.npz", ArraySignal(values_of(N), ["a", "b", "c"], 10.0))
    header, expected = made_of(tmp_path / "values.zarr", x=recipe(values, **made), block=17)
    of_numbers()
    file = write(tmp_path / "numbers.npz", ArraySignal(N, ["a", "b", "c"], 10.0))
    again, found = made_of(tmp_path / "numbers.zarr", x=recipe(file, **made), block=17)
    assert again["reasons"] == header["reasons"]
    assert header["reasons"]["saturated"] > 0
    assert header["reasons"]["flat"] > 0
    exact = features != "covariance"
    assert (found.group["views/x"].dtype == np.int16) == (exact and "pca_components" not in said)
    compare = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    compare(found["views/x"][...], expected["views/x"][...], **({} if exact else {"rtol": 1e-3, "atol": 1e-3}))


def test_values_between_samples_are_kept_as_values(tmp_path, of_numbers):
    of_numbers()
    file = write(tmp_path / "a.npz", ArraySignal(numbers(), ["a", "b", "c"], 10.0))
    _, group = made_of(tmp_path / "v.zarr", x=recipe(file, window_s=0.55, resample="linear"))
    assert group.group["views/x"].dtype == np.float32


def test_files_of_different_gains_are_kept_as_values(tmp_path, of_numbers):
    of_numbers()
    parts = [numbers(60), numbers(60, seed=1)]
    parts[1][0, 0] = 77  # its bias differs
    files = [write(tmp_path / f"{i}.npz", ArraySignal(N, ["a", "b", "c"], 10.0)) for i, N in enumerate(parts)]
    _, group = made_of(tmp_path / "v.zarr", x=recipe(*files, window_s=0.1, flat_s=0, saturated_s=0, scaling="none"))
    assert group.group["views/x"].dtype == np.float32
    expected = [values_of(parts[0]), values_of(parts[1]) + 1]
    np.testing.assert_array_equal(group["views/x"][...], np.concatenate(expected))


def test_where_there_are_no_samples_nothing_is_taken_for_some(tmp_path, of_numbers):
    of_numbers()
    files = [
        write(tmp_path / "a.npz", ArraySignal(numbers(100), ["a", "b", "c"], 10.0)),
        write(tmp_path / "b.npz", ArraySignal(numbers(100, seed=1), ["a", "b", "c"], 10.0, start_s=15.0)),
    ]
    header, group = made_of(tmp_path / "v.zarr", x=recipe(*files, window_s=1.0, flat_s=0), block=4)
    assert header["reasons"]["gap"] > 0
    assert (group.group["views/x"][...][group["reason"][...] == store.Reason.GAP] == -32768).all()
    assert len(group["views/x"][...]) == header["rows"]


def test_a_missing_chunk_is_told_and_the_smallest_number_is_a_number(tmp_path, of_numbers):
    of_numbers()
    file = write(tmp_path / "a.npz", ArraySignal(numbers(), ["a", "b", "c"], 10.0))
    made_of(tmp_path / "v.zarr", x=recipe(file, window_s=0.1, flat_s=0, saturated_s=0), block=5)
    source = Source("x", str(tmp_path / "v.zarr" / "views" / "x"))
    assert len(source.read(slice(400, 405))) == 5  # all of them the smallest
    (tmp_path / "v.zarr" / "views" / "x" / "c" / "80" / "0").unlink()
    with pytest.raises(StoreFileError, match=r"windows 400 to 404 of .* are missing"):
        source.read(slice(400, 405))


def test_what_another_version_began_is_refused_and_not_gone_on_with(tmp_path, of_numbers):
    def killed(stage, done, blocks):
        if (stage, done) == ("drafts", 2):
            raise KeyboardInterrupt

    N = numbers()
    file = write(tmp_path / "a.npz", ArraySignal(values_of(N), ["a", "b", "c"], 10.0))
    with pytest.raises(KeyboardInterrupt):
        made_of(tmp_path / "v.zarr", x=recipe(file, window_s=1.0), block=5, on_progress=killed)
    job, line = ingest.prepared(str(tmp_path / "v.zarr"), {"x": recipe(file, window_s=1.0)}, fakes.open_fake)
    with pytest.raises(StaleStage, match="another version"):  # whose blocks are of another size
        ingest.run(job, line)
