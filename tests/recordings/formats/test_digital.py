"""Whole numbers as a converter gave them: with gain and bias they are the values that readers give."""

import pickle
import wave

import edfio
import numpy as np
import pytest
import zarr

from dlcca.recordings.formats import edf, open_recording
from dlcca.recordings.formats.recording import Digital

NUMBERS = np.random.default_rng(0).integers(-3000, 3000, (512, 3)).astype(np.int16)
COLUMNS = [2, 0]


def edf_file(path, ranges=((-3276.8, 3276.7), (500.0, -1500.0), (0.0, 1.0))):
    signals = [
        edfio.EdfSignal.from_digital(np.ascontiguousarray(x), 128, physical_range=span, digital_range=(-32768, 32767))
        for x, span in zip(NUMBERS.T, ranges, strict=True)
    ]
    edfio.Edf(signals, data_record_duration=1).write(path)
    return path


def zarr_file(path, dtype, **attributes):
    array = zarr.create_array(
        str(path), shape=NUMBERS.shape, chunks=(100, 3), dtype=dtype, attributes={"rate": 128.0, **attributes}
    )
    array[...] = NUMBERS.astype(dtype)
    return path


def npy_file(path, dtype):
    np.save(path, NUMBERS.astype(dtype))
    return path


def wav_file(path, width):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(3)
        file.setsampwidth(width)
        file.setframerate(128)
        file.writeframes((NUMBERS // 256 + 128).astype(np.uint8).tobytes() if width == 1 else NUMBERS.tobytes())
    return path


FILES = {
    "EDF": lambda folder: (edf_file(folder / "a.edf"), {}),
    "Zarr int16": lambda folder: (zarr_file(folder / "a.zarr", "int16"), {}),
    "Zarr uint8": lambda folder: (zarr_file(folder / "b.zarr", "uint8"), {}),
    "Zarr int16 with a scale": lambda folder: (zarr_file(folder / "c.zarr", "int16", scale_factor=0.25), {}),
    "NPY, the other end first": lambda folder: (npy_file(folder / "a.npy", ">i2"), {"rate": 128.0}),
    "WAV of 8 bits": lambda folder: (wav_file(folder / "a.wav", 1), {}),
    "WAV of 16 bits": lambda folder: (wav_file(folder / "b.wav", 2), {}),
    "WAV as stored": lambda folder: (wav_file(folder / "c.wav", 2), {"integers": True}),
}


@pytest.mark.parametrize("kind", FILES)
def test_numbers_with_gain_and_bias_are_the_values_to_the_bit(kind, tmp_path):
    path, options = FILES[kind](tmp_path)
    (signal,) = open_recording(path, **options).signals
    digital = signal.digital
    numbers = signal.read_digital(37, 401, COLUMNS)
    assert (numbers.dtype, numbers.shape) == (digital.dtype, (364, 2))
    assert numbers.dtype.isnative
    assert numbers.flags.c_contiguous
    assert digital.is_exact
    np.testing.assert_array_equal(digital.of(COLUMNS).values(numbers), signal.read_single(37, 401, COLUMNS))
    again = pickle.loads(pickle.dumps(signal))
    np.testing.assert_array_equal(again.read_digital(37, 401, COLUMNS), numbers)


def test_numbers_of_long_records_are_the_same(tmp_path, monkeypatch):
    (signal,) = open_recording(edf_file(tmp_path / "a.edf")).signals
    expected = signal.read_digital(5, 500, [0, 2])
    monkeypatch.setattr(edf, "_SLAB", 1)
    np.testing.assert_array_equal(signal.read_digital(5, 500, [0, 2]), expected)
    np.testing.assert_array_equal(expected, NUMBERS[5:500][:, [0, 2]])


def test_numbers_that_are_no_values_or_too_wide_are_not_digital(tmp_path):
    kinds = [zarr_file(tmp_path / "a.zarr", "int16", _FillValue=-1), zarr_file(tmp_path / "b.zarr", "int32")]
    kinds += [zarr_file(tmp_path / "c.zarr", "float32")]
    bdf = edfio.Bdf([edfio.BdfSignal(NUMBERS[:, 0].astype(float), 128)])
    bdf.write(tmp_path / "a.bdf")
    for path in [*kinds, tmp_path / "a.bdf"]:
        assert open_recording(path).signals[0].digital is None


def test_a_bias_that_swallows_the_steps_is_not_exact():
    one = np.ones(1)
    assert Digital(np.dtype(np.int16), one, 0 * one).is_exact
    assert not Digital(np.dtype(np.int16), one, 1e9 * one).is_exact
