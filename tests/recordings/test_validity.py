"""Windows that touch a fault are marked with its reason; nothing else is."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from dlcca.errors import DataError
from dlcca.recordings.formats.recording import Annotation
from dlcca.storage.views import Reason
from tests.recordings.fakes import ArraySignal, ingested, noise, recipe, write

RATE = 100.0
START = datetime(2026, 3, 1, 22, 0, 0)


def reasons(tmp_path, X, marks=(), block=None, **values):
    """Of windows of a second of a recording at 100 Hz."""
    X = np.asarray(X).reshape(len(X), -1)
    file = write(tmp_path / "a.npz", ArraySignal(X, [f"c{i}" for i in range(X.shape[1])], RATE), marks=marks)
    made = recipe(file, **{"window_s": 1.0, **values})
    _, group = ingested(tmp_path / "v.zarr", x=made, block=block)
    return group["reason"][...].tolist()


def marked(where, reason, n=20):
    return [int(reason) if i in where else 0 for i in range(n)]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number(tmp_path, value):
    X = noise(2000, 2)
    X[550, 1] = value
    assert reasons(tmp_path, X) == marked({5}, Reason.MISSING)


@pytest.mark.parametrize(
    ("onset", "lasts", "where"),
    [(5.0, 1.0, {5}), (5.5, 1.0, {5, 6}), (4.99, 0.02, {4, 5}), (7.0, 0.0, {7}), (7.5, 0.0, {7}), (-3, 4.5, {0, 1})],
)
def test_an_annotation_that_begins_with_bad(tmp_path, onset, lasts, where):
    marks = [
        Annotation(onset, lasts, "BAD_muscle"),
        Annotation(10.0, 1.0, "sleep stage 2"),
        Annotation(12, 1, "not BAD"),
    ]
    assert reasons(tmp_path, noise(2000, 1), marks) == marked(where, Reason.MARKED)


@pytest.mark.parametrize("text", ["BAD", "bad segment", "Bad_acq_skip"])
def test_bad_may_be_written_in_any_case_as_in_mne(tmp_path, text):
    assert reasons(tmp_path, noise(2000, 1), [Annotation(3.0, 1.0, text)]) == marked({3}, Reason.MARKED)


@pytest.mark.parametrize("block", [None, 1, 3])
def test_a_channel_that_keeps_its_value_is_flat_even_across_blocks(tmp_path, block):
    X = noise(2000, 3)
    X[540:660, 2] = 0.25  # 1.2 s, not a second in any window
    assert reasons(tmp_path, X, block=block) == marked({5, 6}, Reason.FLAT)


@pytest.mark.each_value
@pytest.mark.parametrize("block", [1, 3, 5])
@pytest.mark.parametrize("kind", ["flat", "saturated"])
def test_overlapping_windows_are_judged_alike_whatever_the_blocks(tmp_path, block, kind):
    """A run may begin in the last window of a block, at samples that belong to the next one."""
    n, length = 2000, 110 if kind == "flat" else 20
    for begin in range(500, 660, 15):
        X = noise(n, 2)
        X[begin : begin + length, 1] = 0.25 if kind == "flat" else 9.0
        found = []
        for size in (None, block):
            folder = tmp_path / f"{begin}-{size}"
            folder.mkdir()
            found.append(reasons(folder, X, block=size, window_s=2.0, step_s=0.5))
        assert found[0] == found[1]
        starts = 50 * np.arange(len(found[0]))
        touched = (starts < begin + length) & (begin < starts + 200)
        assert np.flatnonzero(found[0]).tolist() == np.flatnonzero(touched).tolist()


def test_a_short_rest_is_not_flat_and_the_length_can_be_chosen(tmp_path):
    X = noise(2000, 1)
    X[540:600] = 0.25
    assert reasons(tmp_path, X) == marked(set(), Reason.FLAT)
    (tmp_path / "b").mkdir()
    assert reasons(tmp_path / "b", X, flat_s=0.5) == marked({5}, Reason.FLAT)


@pytest.mark.each_value
@pytest.mark.parametrize("block", [None, 4])
@pytest.mark.parametrize("side", [1, -1])
def test_runs_at_the_end_of_the_range_are_saturated(tmp_path, block, side):
    X = noise(2000, 2)
    X[:, 0] = np.clip(X[:, 0], -2.0, 2.0)  # single samples at the end: that happens
    X[820:840, 0] = 2.0 * side
    X[1495:1515, 0] = 2.0 * side
    assert reasons(tmp_path, X, block=block) == marked({8, 14, 15}, Reason.SATURATED)


@pytest.mark.parametrize("block", [None, 4])
def test_a_plateau_below_the_largest_value_is_not_saturated_wherever_blocks_begin(tmp_path, block):
    X = noise(2000, 1).clip(-2, 2)
    X[820:840] = 2.5  # the largest of its block
    X[100] = 3.0
    assert reasons(tmp_path, X, block=block) == marked(set(), Reason.SATURATED)


def test_faults_can_be_left_unnoticed(tmp_path):
    X = noise(2000, 1)
    X[500:800] = 9.0
    assert reasons(tmp_path, X, flat_s=0.0, saturated_s=0.0) == marked(set(), Reason.FLAT)


@pytest.mark.parametrize("kind", ["video", "stim"])
def test_channels_that_may_rest_are_not_judged(tmp_path, kind):
    X = np.zeros(2000)
    X[::300] = 1.0
    file = write(tmp_path / "a.npz", ArraySignal(X, ["x"], RATE, kinds=[kind]))
    header, _ = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0))
    assert header["rows"] == 20


def test_the_first_reason_in_order_is_given(tmp_path):
    X = noise(2000, 2)
    X[500:700, 0] = 0.5
    X[550, 1] = np.nan
    got = reasons(tmp_path, X, [Annotation(6.5, 0.1, "BAD")])
    assert got[5:7] == [Reason.MISSING, Reason.MARKED]


def test_windows_that_overlap_a_fault_are_all_marked(tmp_path):
    X = noise(2000, 1)
    X[1000] = np.nan
    got = reasons(tmp_path, X, window_s=1.0, step_s=0.25)
    touched = {t for t in range(77) if t * 25 <= 1000 < t * 25 + 100}
    assert got == marked(touched, Reason.MISSING, n=77)


def test_rows_are_the_valid_windows_and_segments_break_at_the_others(tmp_path):
    X = noise(1000, 1)
    X[[350, 620]] = np.nan
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a"], RATE))
    header, group = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0, scaling="none"))
    assert group["rows"][...].tolist() == [0, 1, 2, 4, 5, 7, 8, 9]
    assert group["segment"][...].tolist() == [0, 0, 0, -1, 1, 1, -1, 2, 2, 2]
    np.testing.assert_allclose(group["views/x"][...], X.reshape(10, 100)[group["rows"][...]], rtol=1e-6)
    assert (header["rows"], header["segments"], header["reasons"]["missing"]) == (8, 3, 2)


def test_two_files_with_a_break_are_one_recording_with_a_gap(tmp_path):
    X, Y = noise(450, 1), noise(500, 1, seed=1)
    one = write(tmp_path / "a.npz", ArraySignal(X, ["a"], RATE), start=START)
    other = write(tmp_path / "b.npz", ArraySignal(Y, ["a"], RATE), start=START + timedelta(seconds=7.5))
    _, group = ingested(tmp_path / "v.zarr", x=recipe(one, other, window_s=1.0, scaling="none"), block=5)
    assert group["reason"][...].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert group["segment"][...].tolist() == [0, 0, 0, 0, -1, -1, -1, -1, 1, 1, 1, 1]
    np.testing.assert_allclose(group["views/x"][4:], Y[50:450].reshape(4, 100), rtol=1e-6)
    np.testing.assert_allclose(group["time"][...], np.arange(12))


def test_a_file_that_follows_at_once_begins_a_stretch_of_its_own(tmp_path):
    one = write(tmp_path / "a.npz", ArraySignal(noise(500, 1), ["a"], RATE), start=START)
    other = write(tmp_path / "b.npz", ArraySignal(noise(500, 1), ["a"], RATE), start=START + timedelta(seconds=5))
    _, group = ingested(tmp_path / "v.zarr", x=recipe(one, other, window_s=1.0))
    assert group["segment"][...].tolist() == [0] * 5 + [1] * 5


def test_a_signal_in_pieces_within_one_file_keeps_its_gap(tmp_path):
    pieces = [ArraySignal(noise(300, 1, seed=i), ["a"], RATE, start_s=4.0 * i) for i in range(2)]
    file = write(tmp_path / "a.npz", *pieces)
    _, group = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0))
    assert group["reason"][...].tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_a_fault_in_one_view_takes_the_window_from_all(tmp_path):
    X = noise(1000, 2)
    X[350, 1] = np.nan
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a", "b"], RATE))
    _, group = ingested(tmp_path / "v.zarr", a=recipe(file, channels="a", window_s=1.0), b=recipe(file, channels="b"))
    assert group["views/a"].shape == group["views/b"].shape == (9, 100)


def test_faults_do_not_spoil_the_scale_of_a_channel(tmp_path):
    X = noise(20_000, 1)
    X[5000:12_000] = 500.0  # marked
    X[14_000:19_000] = 40.0  # flat
    file = write(tmp_path / "a.npz", ArraySignal(X, ["a"], RATE), marks=[Annotation(50.0, 70.0, "BAD")])
    header, _ = ingested(tmp_path / "v.zarr", x=recipe(file, window_s=1.0), block=30)
    assert header["views"]["x"]["center"][0] == pytest.approx(0, abs=0.05)
    assert header["views"]["x"]["scale"][0] == pytest.approx(1, abs=0.05)


def test_a_dead_channel_is_named_when_nothing_is_left(tmp_path):
    X = noise(2000, 3)
    X[:, 1] = 4.0
    with pytest.raises(DataError, match=r"none of the 20 windows .*\(20 flat.*'c1' \(flat\)"):
        reasons(tmp_path, X)
