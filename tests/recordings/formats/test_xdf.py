"""XDF: a real file, files written here as the format says, and damaged ones; pyxdf is the peer."""

import pickle
import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import pyxdf
from numpy.testing import assert_allclose, assert_array_equal

from dlcca.errors import DataError
from dlcca.recordings.formats import open_recording
from tests.support.recordings import shared

FORMATS = {"int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "float32": "f4", "double64": "f8"}


def everything(signal):
    return signal.read(0, signal.n, range(len(signal.channels)))


# A writer: chunks as bytes.


def chunk(tag, content):
    length = len(content) + 2
    return (
        (b"\1" + bytes([length]) if length < 256 else b"\4" + struct.pack("<I", length))
        + struct.pack("<H", tag)
        + content
    )


def varlen(number):
    return b"\1" + bytes([number]) if number < 256 else b"\4" + struct.pack("<I", number)


def file_header(when="2024-03-31T03:30:00+0200"):
    return chunk(1, f"<info><version>1.0</version><datetime>{when}</datetime></info>".encode())


def stream_header(number, name, kind, rate, channels, format, labels=()):
    described = "".join(
        f"<channel><label>{x}</label><unit>microvolts</unit><type>{kind}</type></channel>" for x in labels
    )
    desc = f"<desc><channels>{described}</channels></desc>" if labels else "<desc/>"
    text = (
        f"<info><name>{name}</name><type>{kind}</type><channel_count>{channels}</channel_count>"
        f"<nominal_srate>{rate}</nominal_srate><channel_format>{format}</channel_format>{desc}</info>"
    )
    return chunk(2, struct.pack("<I", number) + text.encode())


def samples(number, values, times, format, stamped=lambda k: True):
    """Values (n, channels) or texts; `stamped` says which samples bring their time."""
    body = struct.pack("<I", number) + varlen(len(values))
    for k, (value, time) in enumerate(zip(values, times, strict=True)):
        body += b"\x08" + struct.pack("<d", time) if stamped(k) else b"\0"
        if format == "string":
            body += varlen(len(value.encode())) + value.encode()
        else:
            body += np.asarray(value, f"<{FORMATS[format]}").tobytes()
    return chunk(3, body)


def offset(number, time, value):
    return chunk(4, struct.pack("<Idd", number, time, value))


def footer(number, count):
    return chunk(6, struct.pack("<I", number) + f"<info><sample_count>{count}</sample_count></info>".encode())


def write(tmp_path, *chunks):
    path = tmp_path / "made.xdf"
    path.write_bytes(b"XDF:" + b"".join(chunks))
    return str(path)


def streamed(number, values, times, format, size, stamped=lambda k: True):
    """Chunks of `size` samples."""
    return [
        samples(number, values[a : a + size], times[a : a + size], format, stamped) for a in range(0, len(values), size)
    ]


@pytest.fixture
def two_streams(tmp_path):
    """EEG at 100 Hz whose clock runs 300 ppm slow and 20 s behind, and breathing at 25 Hz on the recorder's clock."""
    rng = np.random.default_rng(0)
    eeg, breath = rng.normal(size=(3000, 3)), rng.integers(-99, 99, size=(700, 1))
    own = 1000 + np.arange(3000) / 100 * (1 - 1e-4) + rng.normal(scale=1e-3, size=3000)
    even = 1020.5 + np.arange(700) / 25
    fast = streamed(1, eeg, own, "float32", 32)
    slow = streamed(2, breath, even, "int16", 7, lambda k: k == 0)
    mixed = [piece for i in range(100) for piece in (*fast[i : i + 1], *slow[i : i + 1])]
    clock = [offset(1, t, 20 + 3e-4 * (t - 1000)) for t in np.arange(1000, 1035, 5)]
    clock[3] = offset(1, 1015, 20.4)  # one measurement that the network held up
    marks = [samples(3, [text], [time], "string") for text, time in [("lights off", 1021.25), ("äöü", 1030.0)]]
    path = write(
        tmp_path,
        file_header(),
        stream_header(1, "amp", "EEG", 100, 3, "float32", ["Fz", "Cz", "Pz"]),
        stream_header(2, "belt", "Resp", 25, 1, "int16"),
        stream_header(3, "markers", "Markers", 0, 1, "string"),
        *clock, *mixed, *fast[100:], *slow[100:], *marks,
        footer(1, 3000), footer(2, 700), footer(3, 2),
    )  # fmt: skip
    return path, eeg, breath


def test_streams_are_signals_with_the_samples_that_pyxdf_reads(two_streams):
    path, eeg, breath = two_streams
    amp, belt = open_recording(path).signals
    peers = {stream["info"]["name"][0]: stream for stream in pyxdf.load_xdf(path)[0]}
    assert (amp.rate, amp.n, belt.rate, belt.n) == (100, 3000, 25, 700)
    assert_array_equal(everything(amp), peers["amp"]["time_series"])
    assert_array_equal(everything(belt), peers["belt"]["time_series"])
    assert_array_equal(everything(amp), eeg.astype("f4"))
    assert_array_equal(everything(belt), breath)


def test_clocks_are_corrected_as_pyxdf_does(two_streams):
    path, *_ = two_streams
    amp, belt = open_recording(path).signals
    peers = {stream["info"]["name"][0]: stream for stream in pyxdf.load_xdf(path)[0]}
    begun = peers["amp"]["time_stamps"][0]
    for signal, name in [(amp, "amp"), (belt, "belt")]:
        times = signal.start_s + np.arange(signal.n) / signal.rate * (1 + signal.drift_ppm * 1e-6)
        assert_allclose(times, peers[name]["time_stamps"] - begun, atol=2e-4)
    # 300 ppm of its clock, less the 100 that it samples too fast; 1 ms of noise leaves a few ppm of doubt.
    assert amp.drift_ppm == pytest.approx(200, abs=10)
    assert amp.start_s == 0
    assert (belt.start_s, belt.drift_ppm) == (pytest.approx(0.5, abs=1e-3), pytest.approx(0, abs=1e-3))


def test_times_since_1970_lose_no_drift(tmp_path):
    times = 1.7e9 + np.arange(2000) / 500 * (1 + 50e-6)
    path = write(
        tmp_path, file_header(), stream_header(1, "amp", "EEG", 500, 1, "int16"),
        *streamed(1, np.zeros((2000, 1)), times, "int16", 100),
    )  # fmt: skip
    (signal,) = open_recording(path).signals
    assert signal.drift_ppm == pytest.approx(50, abs=0.05)


def test_markers_are_annotations_on_the_clock_of_the_recording(two_streams):
    recording = open_recording(two_streams[0])
    peers = {stream["info"]["name"][0]: stream for stream in pyxdf.load_xdf(two_streams[0])[0]}
    begun = peers["amp"]["time_stamps"][0]
    assert [mark.text for mark in recording.annotations] == ["lights off", "äöü"]
    onsets = peers["markers"]["time_stamps"] - begun
    assert_allclose([mark.onset_s for mark in recording.annotations], onsets, atol=2e-4)
    assert recording.start == datetime(2024, 3, 31, 1, 30, tzinfo=UTC)


def test_channels_have_the_names_units_and_kinds_of_their_headers(two_streams):
    amp, belt = open_recording(two_streams[0]).signals
    assert [(c.name, c.unit, c.kind) for c in amp.channels] == [(x, "microvolts", "eeg") for x in ("Fz", "Cz", "Pz")]
    assert [(c.name, c.unit, c.kind) for c in belt.channels] == [("belt", "", "resp")]


def test_labels_that_two_streams_share_are_told_apart_by_the_stream(tmp_path):
    values, times = np.zeros((20, 2)), np.arange(20) / 10
    path = write(
        tmp_path, file_header(),
        stream_header(1, "left", "ACC", 10, 2, "int16", ["x", "y"]),
        stream_header(2, "right", "ACC", 10, 2, "int16", ["x", "z"]),
        samples(1, values, times, "int16"), samples(2, values, times, "int16"),
    )  # fmt: skip
    assert [signal.names for signal in open_recording(path).signals] == [["left/x", "y"], ["right/x", "z"]]


@pytest.mark.parametrize("format", list(FORMATS))
@pytest.mark.parametrize("stamped", [lambda k: True, lambda k: k == 0, lambda k: False, lambda k: k % 3 == 1])
def test_every_format_and_way_to_give_times_is_read(tmp_path, format, stamped):
    values = np.random.default_rng(1).integers(-100, 100, size=(50, 2))
    times = 7 + np.arange(50) / 10
    first = samples(1, values[:1], times[:1], format)
    path = write(
        tmp_path, file_header(), stream_header(1, "s", "EEG", 10, 2, format), first,
        *streamed(1, values[1:], times[1:], format, 12, stamped),
    )  # fmt: skip
    (signal,) = open_recording(path).signals
    assert_array_equal(everything(signal), values)
    assert signal.drift_ppm == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("first", "last", "columns"), [(0, 3000, [2, 0]), (31, 33, [1]), (1000, 1007, [0]), (9, 9, [0])]
)
def test_any_piece_is_a_piece_of_the_whole(two_streams, first, last, columns):
    signal = open_recording(two_streams[0]).signals[0]
    assert_array_equal(signal.read(first, last, columns), everything(signal)[first:last][:, columns])
    assert_array_equal(pickle.loads(pickle.dumps(signal)).read(first, last, columns), signal.read(first, last, columns))


def test_a_break_divides_a_stream(tmp_path):
    values = np.arange(2000).reshape(-1, 1)
    times = np.arange(2000) / 100
    times[1207:] += 60
    path = write(
        tmp_path, file_header(), stream_header(1, "s", "EEG", 100, 1, "int32"), *streamed(1, values, times, "int32", 50)
    )
    before, after = open_recording(path).signals
    assert (before.n, after.n, after.start_s) == (1207, 793, pytest.approx(72.07))
    assert_array_equal(everything(after), values[1207:])
    assert_array_equal(before.read(1200, 1207, [0]), values[1200:1207])
    with pytest.raises(DataError, match="1207"):
        before.read(1200, 1208, [0])


def test_time_that_goes_backwards_is_refused(tmp_path):
    times = np.arange(2000) / 100
    times[1000:] -= 8
    path = write(
        tmp_path, file_header(), stream_header(1, "s", "EEG", 100, 1, "int32"),
        *streamed(1, np.zeros((2000, 1)), times, "int32", 50),
    )  # fmt: skip
    with pytest.raises(DataError, match="stream 's' goes backwards at sample 1000"):
        open_recording(path)


def test_uneven_numbers_are_left_out_and_single_whole_ones_are_markers(tmp_path):
    even = [stream_header(1, "s", "EEG", 10, 1, "int16"), samples(1, np.zeros((5, 1)), np.arange(5) / 10, "int16")]
    gaze = [stream_header(2, "gaze", "Gaze", 0, 2, "float32"), samples(2, np.ones((2, 2)), [0, 0.3], "float32")]
    keys = [stream_header(3, "keys", "Markers", 0, 1, "int32"), samples(3, [[4], [17]], [0.1, 0.25], "int32")]
    recording = open_recording(write(tmp_path, file_header(), *even, *gaze, *keys))
    assert [signal.names for signal in recording.signals] == [["s"]]
    assert [mark.text for mark in recording.annotations] == ["4", "17"]
    assert [mark.onset_s for mark in recording.annotations] == pytest.approx([0.1, 0.25])
    assert "stream 'gaze' was left out: its rate is 0" in recording.notes[0]
    with pytest.raises(DataError, match="stream 'gaze' was left out"):
        open_recording(write(tmp_path, file_header(), *gaze))


def test_the_real_file_has_what_it_is_known_for():
    recording = open_recording(shared("format-samples", "minimal.xdf"))
    (signal,) = recording.signals
    assert (len(signal.channels), signal.rate, signal.n) == (3, 10, 9)
    assert everything(signal)[1].tolist() == [12, 22, 32]
    assert [mark.text for mark in recording.annotations][1:] == ["Hello", "World", "from", "LSL"] * 2
    # One of its clocks is corrected by -0.1 s, the other has no offsets.
    assert [mark.onset_s for mark in recording.annotations] == pytest.approx(np.arange(1, 10) / 10)


# Damage.


def test_a_file_cut_short_is_refused_or_read_up_to_the_break(two_streams):
    path, eeg, _ = two_streams
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"made.xdf.* is broken or cut off .* set truncated = 'keep'"):
        open_recording(path)
    recording = open_recording(path, truncated="keep")
    amp = recording.signals[0]
    assert 1000 < amp.n < 2000
    assert_array_equal(everything(amp), eeg[: amp.n].astype("f4"))
    assert "cut off" in recording.notes[0]


def test_a_chunk_with_fewer_texts_than_it_declares_is_refused_or_left_out(tmp_path):
    broken = chunk(3, struct.pack("<I", 1) + varlen(2) + b"\0" + varlen(3) + b"off")
    stream = stream_header(1, "markers", "Markers", 0, 1, "string")
    path = write(tmp_path, file_header(), stream, samples(1, ["on"], [5.0], "string"), broken)
    with pytest.raises(DataError, match="is broken or cut off"):
        open_recording(path)
    assert [mark.text for mark in open_recording(path, truncated="keep").annotations] == ["on"]


@pytest.mark.parametrize("count", [19, 21])
def test_a_footer_that_lies_about_the_length_is_refused(tmp_path, count):
    path = write(
        tmp_path, file_header(), stream_header(1, "s", "EEG", 10, 1, "int16"),
        samples(1, np.zeros((20, 1)), np.arange(20) / 10, "int16"), footer(1, count),
    )  # fmt: skip
    with pytest.raises(DataError, match=f"holds 20 samples of stream 's', and its footer declares {count}"):
        open_recording(path)
    assert open_recording(path, truncated="keep").signals[0].n == 20


def test_what_is_not_xdf_is_refused(tmp_path):
    (tmp_path / "empty.xdf").touch()
    (tmp_path / "text.xdf").write_text("time,value\n" * 100)
    (tmp_path / "bare.xdf").write_bytes(b"XDF:" + file_header())
    (tmp_path / "noise.xdf").write_bytes(b"XDF:" + bytes(range(9, 250)))
    orphan = samples(5, np.zeros((2, 1)), [0, 1], "int16")
    (tmp_path / "orphan.xdf").write_bytes(b"XDF:" + file_header() + orphan)
    for name, complaint in [
        ("empty.xdf", "0 bytes"),
        ("text.xdf", "begins with b'time', and XDF with b'XDF:'"),
        ("bare.xdf", "holds no stream"),
        ("noise.xdf", "1, 4 or 8 are allowed"),
        ("orphan.xdf", "stream 5, which has no header"),
        ("none.xdf", "no file"),
        ("", "directory"),
    ]:
        with pytest.raises(DataError, match=complaint):
            open_recording(tmp_path / name, format="xdf")
