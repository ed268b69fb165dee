"""WAV, held against the standard library and SciPy."""

import struct
import wave
from datetime import datetime

import numpy as np
import pytest
from scipy.io import wavfile

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from tests.recordings.formats.reading import all_of, in_pieces, sent, within

RNG = np.random.default_rng(0)


def written(path, values, width, rate=8000):
    """A file of the standard library from whole numbers (n, channels) that fit into some bytes."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(values.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        raw = [int(v + 128 * (width == 1)).to_bytes(width, "little", signed=width > 1) for v in values.reshape(-1)]
        file.writeframes(b"".join(raw))
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_integers_of_any_width_are_fractions_of_full_scale_or_as_stored(tmp_path, width):
    full = 2 ** (8 * width - 1)
    values = RNG.integers(-full, full, (50, 2))
    values[:2] = [[-full, full - 1], [0, -1]]
    path = written(tmp_path / "x.wav", values, width)
    (signal,) = open_recording(path).signals
    assert (signal.n, signal.rate, signal.names) == (50, 8000, ["0", "1"])
    np.testing.assert_array_equal(in_pieces(signal), values / full)
    np.testing.assert_array_equal(all_of(open_recording(path, integers=True).signals[0]), values)
    np.testing.assert_array_equal(sent(signal).read(7, 9, [1]), values[7:9, [1]] / full)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_are_as_they_are(tmp_path, dtype):
    values = RNG.standard_normal((40, 3)).astype(dtype)
    wavfile.write(tmp_path / "x.wav", 1000, values)
    np.testing.assert_array_equal(in_pieces(open_recording(tmp_path / "x.wav").signals[0]), values)


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def riff(*chunks, outer=b"RIFF"):
    body = b"WAVE" + b"".join(chunks)
    return outer + struct.pack("<I", len(body)) + body


PCM = struct.pack("<HHIIHH", 1, 1, 100, 200, 2, 16)
SAMPLES = np.arange(10, dtype="<i2").tobytes()


def test_an_extensible_header_and_other_chunks_are_passed_over(tmp_path):
    fmt = struct.pack("<HHIIHHHHI", 0xFFFE, 1, 100, 200, 2, 16, 22, 16, 0) + struct.pack("<H", 1) + b"\0" * 14
    (tmp_path / "x.wav").write_bytes(riff(chunk(b"LIST", b"odd"), chunk(b"fmt ", fmt), chunk(b"data", SAMPLES)))
    (signal,) = open_recording(tmp_path / "x.wav", integers=True).signals
    np.testing.assert_array_equal(all_of(signal)[:, 0], np.arange(10))


def test_a_broadcast_wave_says_when_it_began(tmp_path):
    bext = b"\0" * 320 + b"2024-05-3122:30:00" + b"\0" * 264
    (tmp_path / "x.wav").write_bytes(riff(chunk(b"bext", bext), chunk(b"fmt ", PCM), chunk(b"data", SAMPLES)))
    assert open_recording(tmp_path / "x.wav").start == datetime(2024, 5, 31, 22, 30)


def test_lengths_that_do_not_fit_32_bits_are_in_a_chunk_of_their_own(tmp_path):
    ds64 = struct.pack("<QQQI", 0, len(SAMPLES), 10, 0)
    data = b"data" + struct.pack("<I", 0xFFFFFFFF) + SAMPLES
    (tmp_path / "x.wav").write_bytes(riff(chunk(b"ds64", ds64), chunk(b"fmt ", PCM), data, outer=b"RF64"))
    assert open_recording(tmp_path / "x.wav").signals[0].n == 10


def test_a_length_that_was_never_written_is_that_of_the_file(tmp_path):
    data = b"data" + struct.pack("<I", 0xFFFFFFFF) + SAMPLES
    (tmp_path / "x.wav").write_bytes(riff(chunk(b"fmt ", PCM), data))
    recording = open_recording(tmp_path / "x.wav")
    assert recording.signals[0].n == 10
    assert "end of the file" in recording.notes[0]


def test_a_file_that_is_cut_off_is_refused_or_kept_as_asked(tmp_path):
    path = written(tmp_path / "x.wav", RNG.integers(-100, 100, (50, 2)), 2)
    path.write_bytes(path.read_bytes()[:-41])
    with pytest.raises(DataError, match="says 50 samples, and the file holds 39"):
        open_recording(path)
    recording = open_recording(path, truncated="keep")
    assert recording.signals[0].n == 39
    assert "truncated" in recording.notes[0]
    with pytest.raises(SettingsError, match="did you mean 'keep'"):
        open_recording(path, truncated="keeep")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"hello, this is no sound", "begins with b'hell.*', and WAV with b'RIFFWAVE'"),
        (riff(chunk(b"fmt ", PCM)), "no chunk 'data'"),
        (riff(chunk(b"data", SAMPLES)), "no chunk 'fmt '"),
        (riff(chunk(b"fmt ", struct.pack("<HHIIHH", 7, 1, 100, 100, 1, 8)), chunk(b"data", SAMPLES)), "mu-law"),
        (riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 0, 100, 100, 1, 8)), chunk(b"data", SAMPLES)), "0 channels"),
    ],
)
def test_what_is_no_sound_is_refused(tmp_path, content, complaint):
    (tmp_path / "x.wav").write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        open_recording(tmp_path / "x.wav")


WORDS = (0, 1, 2, 3, 7, 8, 15, 17, 18, 1000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF7, 0xFFFFFFFF)


@pytest.mark.parametrize("outer", [b"RIFF", b"RF64"])
def test_no_word_of_a_header_keeps_the_reader_busy(tmp_path, outer):
    """Behind the header lies a gigabyte of silence, which a wrong length makes a reader take for chunks."""
    silence = 1 << 30
    chunks = [chunk(b"ds64", struct.pack("<QQQI", silence, silence, 0, 0))] if outer == b"RF64" else []
    head = riff(*chunks, chunk(b"LIST", b"INFOIART" + bytes(6)), chunk(b"fmt ", PCM), b"data", outer=outer)
    head += struct.pack("<I", 0xFFFFFFFF if outer == b"RF64" else silence)
    path = tmp_path / "x.wav"
    ended = {"read": 0, "refused": 0}
    with path.open("wb") as file:
        file.truncate(len(head) + silence)  # without taking place on the disk
    for at in range(0, len(head) - 3, 2):
        for word in WORDS:
            with path.open("r+b") as file:
                file.write(head[:at] + struct.pack("<I", word) + head[at + 4 :])
            try:
                with within(5):
                    (signal,) = open_recording(path, truncated="keep").signals
                    signal.read(signal.n // 2, signal.n // 2 + 1, range(1))
                ended["read"] += 1
            except DataError:
                ended["refused"] += 1
    assert min(ended.values()) > 50
