"""WFDB: a real record, records written by the wfdb package, and damaged ones."""

import pickle
import sys
import warnings
from datetime import date, datetime, time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats import open_recording
from dlcca.recordings.formats.checks import optional
from tests.support.recordings import shared

package = optional("wfdb", "wfdb", "WFDB")


def quietly(write, *args, **kwargs):
    """Write without the warnings of pandas about wfdb; those that come while reading must be seen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(*args, **kwargs)


def everything(signal):
    return signal.read(0, signal.n, range(len(signal.channels)))


@pytest.fixture
def written(tmp_path):
    """Ten seconds of three channels at 100 Hz, with a hole, and two annotators."""
    x = np.random.default_rng(0).normal(size=(1000, 3))
    x[400:420, 1] = np.nan
    quietly(
        package.wrsamp, "night", fs=100, units=["mV", "mmHg", "NU"], sig_name=["II", "ABP", "PLETH"], p_signal=x,
        fmt=["16"] * 3, write_dir=str(tmp_path), base_date=date(2024, 2, 29), base_time=time(23, 59, 58),
    )  # fmt: skip
    return str(tmp_path / "night.hea"), x


def annotate(folder, annotator, samples, symbols, notes):
    quietly(
        package.wrann,
        "night",
        annotator,
        np.array(samples),
        symbol=symbols,
        aux_note=notes,
        fs=100,
        write_dir=str(folder),
    )


def test_samples_names_units_and_the_start_come_back(written):
    path, x = written
    recording = open_recording(path)
    (signal,) = recording.signals
    assert [(c.name, c.unit, c.kind) for c in signal.channels] == [
        ("II", "mV", "ecg"), ("ABP", "mmHg", "bp"), ("PLETH", "NU", "ppg")
    ]  # fmt: skip
    assert (signal.rate, signal.n, recording.start) == (100, 1000, datetime(2024, 2, 29, 23, 59, 58))
    assert_allclose(everything(signal), x, atol=np.nanmax(np.ptp(x, axis=0)) / 30000 + 1e-3)
    assert_array_equal(np.isnan(everything(signal)), np.isnan(x))


@pytest.mark.parametrize(("first", "last", "columns"), [(0, 1000, [2, 0]), (37, 511, [1]), (5, 9, [0, 0]), (5, 5, [0])])
def test_any_piece_is_a_piece_of_the_whole(written, first, last, columns):
    (signal,) = open_recording(written[0]).signals
    assert_array_equal(signal.read(first, last, columns), everything(signal)[first:last][:, columns])


def test_channels_of_different_rates_are_different_signals(tmp_path):
    rng = np.random.default_rng(1)
    slow, fast = rng.normal(size=500), rng.normal(size=2000)
    quietly(
        package.wrsamp, "rates", fs=50, units=["mV", "mV"], sig_name=["RESP", "ECG"], e_p_signal=[slow, fast],
        samps_per_frame=[1, 4], fmt=["16", "16"], write_dir=str(tmp_path),
    )  # fmt: skip
    calm, quick = open_recording(str(tmp_path / "rates.hea")).signals
    assert (calm.rate, calm.n, calm.names, quick.rate, quick.n, quick.names) == (50, 500, ["RESP"], 200, 2000, ["ECG"])
    assert_allclose(everything(calm)[:, 0], slow, atol=1e-3)
    assert_allclose(everything(quick)[:, 0], fast, atol=1e-3)
    assert_allclose(quick.read(101, 323, [0])[:, 0], fast[101:323], atol=1e-3)  # inside frames at both ends


def test_format_8_is_read_from_its_start(tmp_path):
    levels = np.cumsum(np.random.default_rng(2).integers(-9, 10, size=(200, 1)), axis=0)
    steps = np.diff(levels[:, 0], prepend=0).astype("i1")
    (tmp_path / "steps.dat").write_bytes(steps.tobytes())
    (tmp_path / "steps.hea").write_text("steps 1 100 200\nsteps.dat 8 1/mV 8 0 0 0 0 ECG\n")
    (signal,) = open_recording(str(tmp_path / "steps.hea")).signals
    assert_array_equal(signal.read(120, 130, [0]), levels[120:130])


def test_segments_and_the_gap_between_them_make_one_signal(tmp_path):
    x = np.random.default_rng(3).normal(size=(500, 2))
    for name, columns in [("part1", 1), ("part2", 2)]:
        quietly(
            package.wrsamp, name, fs=100, units=["mV", "mmHg"][:columns], sig_name=["II", "ABP"][:columns],
            p_signal=x[:, :columns], fmt=["16", "16"][:columns], write_dir=str(tmp_path),
        )  # fmt: skip
    (tmp_path / "layout.hea").write_text("layout 2 100 0\n~ 0 200/mV 0 0 0 0 0 II\n~ 0 200/mmHg 0 0 0 0 0 ABP\n")
    (tmp_path / "stay.hea").write_text("stay/4 2 100 1200 12:30:00 01/02/2003\nlayout 0\npart1 500\n~ 200\npart2 500\n")
    recording = open_recording(str(tmp_path / "stay.hea"))
    (signal,) = recording.signals
    assert (signal.n, signal.names, recording.start) == (1200, ["II", "ABP"], datetime(2003, 2, 1, 12, 30))
    expected = np.full((1200, 2), np.nan)
    expected[:500, 0], expected[700:] = x[:, 0], x
    assert_allclose(everything(signal), expected, atol=1e-3)
    assert_allclose(signal.read(450, 750, [1]), expected[450:750, [1]], atol=1e-3)
    assert np.isnan(signal.read(550, 560, [0, 1])).all()
    (tmp_path / "part2.dat").write_bytes((tmp_path / "part2.dat").read_bytes()[:400])
    with pytest.raises(DataError, match=r"segment 'part2' .* holds 100 samples of each channel, and 500 are declared"):
        open_recording(str(tmp_path / "stay.hea"))
    (tmp_path / "part2.hea").unlink()
    with pytest.raises(DataError, match=r"part2\.hea"):
        open_recording(str(tmp_path / "stay.hea"))


def test_annotation_files_beside_the_record_are_read(written):
    folder = Path(written[0]).parent
    annotate(folder, "atr", [10, 50], ["N", "+"], ["", "(AFIB"])
    marks = open_recording(written[0]).annotations
    assert [(m.onset_s, m.duration_s, m.text) for m in marks] == [(0.1, 0, "N"), (0.5, 0, "+ (AFIB")]
    annotate(folder, "qrs", [11], ["N"], [""])
    assert [m.text for m in open_recording(written[0]).annotations] == ["atr: N", "qrs: N", "atr: + (AFIB"]
    assert [m.text for m in open_recording(written[0], annotators=["qrs"]).annotations] == ["N"]


@pytest.mark.parametrize("ending", [".hea", ".dat", ""])
def test_the_real_record_has_what_it_is_known_for(ending):
    record = shared("format-samples", "v102s.hea").removesuffix(".hea")
    (signal,) = open_recording(record + ending).signals
    assert signal.names == ["II", "V", "PLETH", "RESP"]
    assert (signal.rate, signal.duration_s) == (250, 300)
    assert [c.kind for c in signal.channels] == ["ecg", "ecg", "ppg", "resp"]
    assert [c.unit for c in signal.channels] == ["mV", "mV", "NU", "NU"]
    # The sums that the header keeps of all the samples, 16 bits of them.
    gain, sums = np.array([2281, 1856, 1250, 38880]), np.array([-9286, 2647, -11021, 12236])
    digital = np.round(everything(signal) * gain)
    digital = np.where(np.isnan(digital), -2048, digital).astype(int)  # as format 212 stores what is not there
    assert_array_equal((digital.sum(axis=0) - sums) % 65536, 0)


def test_a_signal_can_be_sent_to_another_process(written):
    (signal,) = open_recording(written[0]).signals
    assert_array_equal(everything(pickle.loads(pickle.dumps(signal))), everything(signal))


# Damage.


@pytest.mark.parametrize("n", [750, 1500])
def test_a_length_that_is_not_the_declared_one_is_refused(written, n):
    dat = Path(written[0]).with_suffix(".dat")
    dat.write_bytes((dat.read_bytes() * 2)[: n * 6])
    with pytest.raises(DataError, match=rf"night.hea' declares 1000 samples of each channel, and .* hold {n}"):
        open_recording(written[0])
    recording = open_recording(written[0], truncated="keep")
    assert recording.signals[0].n == min(n, 1000)
    assert everything(recording.signals[0]).shape == (min(n, 1000), 3)
    assert "were read" in recording.notes[0]


def test_a_missing_file_of_samples_or_header_is_refused(written):
    hea = Path(written[0])
    hea.with_suffix(".dat").rename(hea.with_name("moved.dat"))
    with pytest.raises(DataError, match=r"keeps its samples in 'night.dat', which is not beside it"):
        open_recording(written[0])
    with pytest.raises(DataError, match=r"keeps its description in 'moved.hea'"):
        open_recording(str(hea.with_name("moved.dat")))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("night 3 100 1000", "night 0 100 1000", "declares 0 channels"),
        ("night 3 100 1000", "night 3 100", "does not give the number of samples"),
        ("night 3 100 1000", "night three hundred", "cannot be read as WFDB"),
        ("night.dat 16 ", "night.dat 99 ", "format '99'"),
    ],
)
def test_a_header_that_does_not_hold_together_is_refused(written, old, new, complaint):
    hea = Path(written[0])
    first, rest = hea.read_text().split("\n", 1)
    text = f"{' '.join(first.split()[:4])}\n{rest}"
    assert old in text
    hea.write_text(text.replace(old, new))
    with pytest.raises(DataError, match=complaint) as caught:
        open_recording(written[0])
    assert "night" in str(caught.value)


def test_what_is_no_record_is_refused(tmp_path):
    (tmp_path / "empty.hea").touch()
    (tmp_path / "binary.hea").write_bytes(bytes(range(128, 256)))
    for name, complaint in [
        ("empty.hea", "0 bytes"),
        ("binary.hea", "WFDB"),
        ("none.hea", "no file"),
        ("", "directory"),
    ]:
        with pytest.raises(DataError, match=complaint):
            open_recording(tmp_path / name, format="wfdb")


def test_a_missing_package_is_named_with_the_extra_that_brings_it(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "wfdb", None)
    with pytest.raises(SettingsError, match=r"reading WFDB needs wfdb: pip install 'dlcca\[wfdb\]'"):
        open_recording(written[0])
