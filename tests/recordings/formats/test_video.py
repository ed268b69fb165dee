"""Video: exact frames wherever a read begins, made small as asked, and refused where they cannot be trusted."""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording, video
from tests.recordings.formats.reading import all_of, in_pieces, sent, within
from tests.support.recordings import shared

RATE = 50


def moving(n=60, height=48, width=64):
    """Grey frames (n, height, width) of a bright bar that moves over a slope."""
    frames = np.tile(np.arange(width, dtype=np.uint8), (n, height, 1))
    for i in range(n):
        frames[i, i % height, :] = 200
    return frames


def written(path, frames, codec="ffv1", pixels="gray", times=None, rate=RATE, options=None, **container):
    """A video of grey frames; `times` are their places in ticks of 1 / rate."""
    with av.open(str(path), "w", options=container) as file:
        stream = file.add_stream(codec, rate=rate, options=options or {})
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], pixels
        stream.codec_context.time_base = Fraction(1, rate)
        for i, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="gray" if image.ndim == 2 else "rgb24")
            frame.pts, frame.time_base = i if times is None else int(times[i]), Fraction(1, rate)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return path


def decoded(path, form="gray"):
    """Every frame, one after the other, as the library gives it."""
    with av.open(str(path)) as file:
        return np.stack([frame.to_ndarray(format=form) for frame in file.decode(video=0)])


def test_frames_of_a_lossless_video_come_back_as_they_were(tmp_path):
    frames = moving()
    (signal,) = open_recording(written(tmp_path / "x.mkv", frames)).signals
    assert (signal.n, signal.rate, signal.start_s) == (60, RATE, 0)
    assert (signal.names[:2], signal.names[64], signal.channels[0].kind) == (["0.0", "0.1"], "1.0", "video")
    np.testing.assert_array_equal(in_pieces(signal), frames.reshape(60, -1))
    np.testing.assert_array_equal(sent(signal).read(9, 11, [5, 3]), frames[9:11, 0, [5, 3]])


@pytest.mark.parametrize(
    ("ending", "codec", "pixels"),
    [
        ("mp4", "libx264", "yuv420p"),
        ("mkv", "libx264", "yuv420p"),
        ("avi", "mpeg4", "yuv420p"),
        ("mpg", "mpeg2video", "yuv420p"),
        ("mov", "mjpeg", "yuvj420p"),
        ("webm", "libvpx-vp9", "yuv420p"),
        ("wmv", "msmpeg4v3", "yuv420p"),
    ],
)
def test_a_frame_that_is_sought_is_the_frame_that_is_met(tmp_path, ending, codec, pixels):
    options = {"g": "12", "bf": "2"} if codec in ("libx264", "mpeg4", "mpeg2video") else {"g": "12"}
    path = written(tmp_path / f"x.{ending}", moving(100), codec, pixels, options=options)
    expected = decoded(path).reshape(100, -1)
    (signal,) = open_recording(path).signals
    assert (signal.n, signal.rate) == (100, RATE)
    columns = range(len(signal.channels))
    for first in np.random.default_rng(0).permutation(97)[:40]:
        np.testing.assert_array_equal(signal.read(first, first + 3, columns), expected[first : first + 3])
    np.testing.assert_array_equal(in_pieces(signal), expected)


def test_reading_on_decodes_no_frame_twice(tmp_path, monkeypatch):
    path = written(tmp_path / "x.mp4", moving(100), "libx264", "yuv420p", options={"g": "50"})
    (signal,) = open_recording(path).signals
    sought, taken = [], []
    frames = type(signal.source.frames)
    seek, take = frames._seek, frames._take
    monkeypatch.setattr(frames, "_seek", lambda self, key: (sought.append(key), seek(self, key))[1])
    monkeypatch.setattr(frames, "_take", lambda self, i: (taken.append(i), take(self, i))[1])
    for first in range(0, 100, 10):  # blocks that overlap, as those with a margin do
        signal.read(max(0, first - 4), first + 10, [0])
    assert sought == [0]
    assert taken == list(range(100))


@pytest.mark.parametrize("scale", [1, 3, 4])
@pytest.mark.parametrize("roi", [None, (5, 40, 10, 63)])
@pytest.mark.parametrize("colour", [False, True])
def test_a_region_and_averages_of_blocks_are_what_loops_make_of_them(tmp_path, scale, roi, colour):
    image = np.random.default_rng(0).integers(0, 256, (4, 48, 64, 3), dtype=np.uint8)
    path = written(tmp_path / "x.mkv", image, "ffv1", "bgr0")
    frames = decoded(path, "rgb24" if colour else "gray").reshape(4, 48, 64, -1).astype(float)
    top, bottom, left, right = roi or (0, 48, 0, 64)
    expected = [
        [
            frames[k, i : i + scale, j : j + scale, c].mean()
            for i in range(top, bottom - scale + 1, scale)
            for j in range(left, right - scale + 1, scale)
            for c in range(frames.shape[3])
        ]
        for k in range(4)
    ]
    (signal,) = open_recording(path, scale=scale, roi=roi, colour=colour).signals
    np.testing.assert_allclose(all_of(signal), expected, rtol=1e-6)
    assert signal.names[:2] == (["0.0.r", "0.0.g"] if colour else ["0.0", "0.1"])
    assert len(set(signal.names)) == len(signal.names) == len(expected[0])


@pytest.mark.parametrize("kept", [0, 1 << 28])
def test_a_projection_is_one_matrix_whatever_the_cut_and_whether_it_is_kept(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(video, "_PROJECTION_BYTES", kept)
    monkeypatch.setattr(video, "_PIXELS", 1000)
    frames = moving()
    path = written(tmp_path / "x.mkv", frames)
    (signal,) = open_recording(path, projection=20, seed=3).signals
    blocks = [np.random.default_rng([3, i]).standard_normal((min(1000, 3072 - 1000 * i), 20), "f4") for i in range(4)]
    R = np.concatenate(blocks).astype(float) / np.sqrt(20)
    np.testing.assert_allclose(all_of(signal), frames.reshape(60, -1) @ R, rtol=1e-3, atol=0.05)
    np.testing.assert_allclose(in_pieces(sent(signal)), all_of(signal), rtol=1e-4, atol=0.01)
    assert signal.names[:2] == ["projection.0", "projection.1"]
    (other,) = open_recording(path, projection=20, seed=4).signals
    assert np.abs(all_of(other) - all_of(signal)).max() > 1


def test_a_projection_keeps_distances(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (20, 32, 32), dtype=np.uint8)
    Y = all_of(open_recording(written(tmp_path / "x.mkv", frames), projection=400).signals[0])
    X = frames.reshape(20, -1).astype(float)
    ratio = np.linalg.norm(Y[1:] - Y[:1], axis=1) / np.linalg.norm(X[1:] - X[:1], axis=1)
    np.testing.assert_allclose(ratio, 1, atol=0.15)


def test_frames_of_more_than_eight_bits_keep_them(tmp_path):
    images = np.random.default_rng(0).integers(0, 65536, (5, 16, 16), dtype=np.uint16)
    with av.open(str(tmp_path / "x.mkv"), "w") as file:
        stream = file.add_stream("ffv1", rate=RATE)
        stream.height, stream.width, stream.pix_fmt = 16, 16, "gray16le"
        for image in images:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="gray16le")))
        file.mux(stream.encode(None))
    np.testing.assert_array_equal(all_of(open_recording(tmp_path / "x.mkv").signals[0]), images.reshape(5, -1))


def test_frames_that_were_dropped_are_a_break(tmp_path):
    frames, times = moving(40), np.r_[np.arange(20), np.arange(30, 50)]
    first, second = open_recording(written(tmp_path / "x.mkv", frames, times=times)).signals
    assert (first.n, second.n, first.rate, second.start_s) == (20, 20, RATE, 0.6)
    np.testing.assert_array_equal(in_pieces(second), frames[20:].reshape(20, -1))


def test_uneven_frames_are_refused_unless_a_rate_is_given(tmp_path):
    times = np.cumsum(np.random.default_rng(0).integers(1, 9, 40))
    path = written(tmp_path / "x.mkv", moving(40), times=times)
    with pytest.raises(DataError, match="not evenly spaced"):
        open_recording(path)
    assert open_recording(path, rate=25).signals[0].rate == 25


@pytest.mark.parametrize("changes", [4, 25, 39])
def test_frames_that_change_their_size_are_refused_with_the_first_of_them(tmp_path, changes):
    path = tmp_path / "x.mkv"
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mjpeg", rate=RATE)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuvj420p"
        small = av.CodecContext.create("mjpeg", "w")
        small.height, small.width, small.pix_fmt, small.time_base = 24, 32, "yuvj420p", Fraction(1, RATE)
        for i, image in enumerate(moving(40)):
            part = image if i < changes else np.ascontiguousarray(image[:24, :32])
            frame = av.VideoFrame.from_ndarray(part, format="gray").reformat(format="yuvj420p")
            frame.pts, frame.time_base = i, Fraction(1, RATE)
            packets = stream.encode(frame) if i < changes else small.encode(frame)
            for packet in packets:
                packet.stream = stream
                file.mux(packet)
    with pytest.raises(DataError, match=f"frame {changes} is 32 x 24 pixels.* 64 x 48"):
        open_recording(path)


def test_a_video_that_is_cut_off_is_refused_or_kept_as_asked(tmp_path):
    frames = np.random.default_rng(0).integers(0, 256, (60, 48, 64), dtype=np.uint8)
    path = written(tmp_path / "x.mp4", frames, "mjpeg", "yuvj420p", movflags="faststart")
    expected = decoded(path).reshape(60, -1)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="container says 60 frames"):
        open_recording(path)
    recording = open_recording(path, truncated="keep")
    (signal,) = recording.signals
    assert 20 < signal.n < 40
    assert "truncated" in recording.notes[0]
    np.testing.assert_array_equal(in_pieces(signal), expected[: signal.n])


@pytest.mark.parametrize(
    ("ending", "codec", "pixels"),
    [("mkv", "libx264", "yuv420p"), ("webm", "libvpx-vp9", "yuv420p"), ("mkv", "ffv1", "gray")],
)
def test_a_video_without_a_count_of_frames_that_is_cut_off_is_refused_too(tmp_path, ending, codec, pixels):
    frames = np.random.default_rng(0).integers(0, 256, (60, 48, 64), dtype=np.uint8)
    path = written(tmp_path / f"x.{ending}", frames, codec, pixels)
    assert open_recording(path).signals[0].n == 60
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="before its container says"):
        open_recording(path)
    assert 20 < open_recording(path, truncated="keep").signals[0].n < 40


def test_what_is_no_video_is_refused(tmp_path):
    path = written(tmp_path / "x.mp4", moving(), "libx264", "yuv420p")
    (tmp_path / "cut.mp4").write_bytes(path.read_bytes()[:2000])  # its index was at the end
    (tmp_path / "text.mp4").write_text("hello")
    for name in ("cut.mp4", "text.mp4"):
        with pytest.raises(DataError, match=name):
            open_recording(tmp_path / name)


def test_the_moment_of_recording_is_that_of_the_container(tmp_path):
    with av.open(str(tmp_path / "x.mp4"), "w") as file:
        file.metadata["creation_time"] = "2024-05-31T22:30:00Z"
        stream = file.add_stream("mpeg4", rate=RATE)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        for image in moving(5):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="gray")))
        file.mux(stream.encode(None))
    assert open_recording(tmp_path / "x.mp4").start == datetime(2024, 5, 31, 22, 30, tzinfo=UTC)
    assert open_recording(tmp_path / "x.mp4", start="2024-01-01T00:00").start == datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"scale": 0}, "scale = 0"),
        ({"scale": 2.5}, "scale = 2.5"),
        ({"scale": 60}, "leaves no pixel"),
        ({"roi": (0, 100, 0, 10)}, "does not lie in frames of 48 rows and 64 columns"),
        ({"roi": (5, 5, 0, 10)}, "does not lie"),
        ({"roi": (5, 10)}, "four whole numbers"),
        ({"projection": 0}, "projection = 0"),
        ({"projekt": 10}, "did you mean 'projection'"),
    ],
)
def test_an_option_that_means_nothing_is_an_error(tmp_path, options, complaint):
    with pytest.raises(SettingsError, match=complaint):
        open_recording(written(tmp_path / "x.mkv", moving(3)), **options)


def test_frames_too_large_to_be_channels_must_be_made_small(tmp_path):
    path = written(tmp_path / "x.mkv", moving(3, 600, 800))
    with pytest.raises(SettingsError, match=r"600 x 800 pixels.*Give scale"):
        open_recording(path)
    assert len(open_recording(path, scale=2).signals[0].channels) == 300 * 400
    assert len(open_recording(path, projection=7).signals[0].channels) == 7


def test_the_mouse_is_read_from_two_sides():
    path = shared("mirror-mouse", "mirror_mouse.mp4")
    (side,) = open_recording(path, roi=(0, 168, 0, 396), scale=4).signals
    (below,) = open_recording(path, roi=(168, 406, 0, 396), scale=4).signals
    assert (side.n, side.rate, len(side.channels), len(below.channels)) == (994, 250, 42 * 99, 59 * 99)
    with av.open(path) as file:
        frames = {i: f.to_ndarray(format="gray") for i, f in enumerate(file.decode(video=0)) if i in (0, 249, 250, 993)}
    for i in (993, 250, 249, 0):
        expected = frames[i][:168].reshape(42, 4, 99, 4).mean(axis=(1, 3))
        np.testing.assert_allclose(side.read(i, i + 1, range(len(side.channels)))[0], expected.reshape(-1), rtol=1e-6)


@pytest.mark.parametrize("at", [48, 60, 2000, 200_000])
def test_a_video_with_damaged_frames_keeps_the_reader_no_longer_than_a_whole_one(tmp_path, at):
    """Where frames cannot be decoded, the key frame before them is looked for; there may be none."""
    content = Path(shared("mirror-mouse", "mirror_mouse.mp4")).read_bytes()
    path = tmp_path / "damaged.mp4"
    path.write_bytes(content[:at] + bytes(5000) + content[at + 5000 :])
    with within(10), pytest.raises(DataError, match=r"decoded|cannot be read as video"):
        all_of(open_recording(path, scale=16).signals[0])
