"""Opening by name: the right reader, only that one, and errors before anything is read."""

import builtins
import errno
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dlcca.errors import DataError, SettingsError, StorageError
from dlcca.recordings.formats import npy, open_recording, registry
from tests.support.recordings import shared


@pytest.mark.parametrize("name", registry.READERS)
def test_every_line_of_the_table_is_a_reader_that_can_be_imported(name):
    reader = importlib.import_module(f"dlcca.recordings.formats.{name}")
    assert callable(reader.open)
    assert isinstance(reader.FORMAT, str)
    assert all(ending.startswith(".") and ending == ending.lower() for ending in registry.READERS[name])


def test_every_reader_is_in_the_table():
    folder = Path(registry.__file__).parent
    readers = {path.stem for path in folder.glob("*.py") if "\nFORMAT = " in path.read_text(encoding="utf-8")}
    assert readers == set(registry.READERS)


def test_no_ending_belongs_to_two_readers():
    endings = [ending for endings in registry.READERS.values() for ending in endings]
    assert len(endings) == len(set(endings))


def test_only_the_reader_that_is_needed_is_imported(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    others = {"av", "h5py", "mne", "pandas", "pyarrow", "pynwb", "wfdb", "zarr", "dlcca.recordings.formats.edf"}
    code = (
        "import sys; from dlcca.recordings.formats import open_recording; "
        f"open_recording({str(tmp_path / 'x.npy')!r}, rate=1); print(*({others} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_an_ending_that_is_not_known_is_an_error_with_the_known_ones(tmp_path):
    with pytest.raises(SettingsError, match=r"'\.parket'.*Did you mean '\.parquet'\?.*\.edf"):
        open_recording(tmp_path / "x.parket")
    with pytest.raises(SettingsError, match="no ending"):
        open_recording(tmp_path / "x")


def test_a_record_of_wfdb_needs_no_ending():
    path = shared("format-samples", "v102s.hea")
    assert open_recording(path.removesuffix(".hea")).signals[0].names == open_recording(path).signals[0].names


def test_a_format_may_be_named_whatever_the_ending(tmp_path):
    (tmp_path / "x.txt").write_text("a,b\n1,2\n3,4\n")
    for format in ("csv", "CSV", "csv_table", ".csv"):
        assert open_recording(tmp_path / "x.txt", format=format, rate=1).signals[0].names == ["a", "b"]
    with pytest.raises(SettingsError, match="did you mean 'parquet'"):
        open_recording(tmp_path / "x.txt", format="parket")


def test_capital_letters_in_an_ending_do_not_matter(tmp_path):
    with builtins.open(tmp_path / "X.NPY", "wb") as file:
        np.save(file, np.zeros((5, 2)))
    assert open_recording(tmp_path / "X.NPY", rate=1).signals[0].n == 5


@pytest.mark.parametrize("ending", sorted(ending for endings in registry.READERS.values() for ending in endings))
def test_what_is_not_there_or_empty_or_a_folder_is_refused(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    with pytest.raises(DataError, match=f"x{ending}"):
        open_recording(path)
    path.touch()
    with pytest.raises(DataError, match=f"x{ending}"):
        open_recording(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=f"x{ending}"):
        open_recording(path)


@pytest.mark.parametrize("ending", sorted(ending for endings in registry.READERS.values() for ending in endings))
def test_a_file_of_something_else_is_refused_and_named(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    path.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(DataError, match="x"):
        open_recording(path)


def test_an_option_of_another_reader_is_an_error(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    with pytest.raises(SettingsError, match="'scale' is not an option of the NumPy reader"):
        open_recording(tmp_path / "x.npy", scale=2)


@pytest.mark.parametrize(
    ("ending", "package", "extra"),
    [(".csv", "pyarrow", "csv"), (".parquet", "pyarrow", "parquet"), (".h5", "h5py", "hdf5"), (".mp4", "av", "video")],
)
def test_a_package_that_is_missing_is_an_error_that_names_the_extra(tmp_path, monkeypatch, ending, package, extra):
    (tmp_path / f"x{ending}").write_text("a\n1\n")
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsError, match=rf"pip install 'dlcca\[{extra}\]'"):
        open_recording(tmp_path / f"x{ending}")


@pytest.mark.parametrize(
    ("name", "channels", "rate", "seconds"),
    [
        ("test.bdf", 73, 2048, 1),
        ("test.vhdr", 32, 1000, 7.9),
        ("brainvision_bin_raw.fif", 33, 1000, 7.9),
        ("test_subsecond.edf", 1, 128, 698),
        ("v102s.hea", 4, 250, 300),
    ],
)
def test_samples_of_the_formats_of_biosignals_open_by_name(name, channels, rate, seconds):
    (signal,) = open_recording(shared("format-samples", name)).signals
    assert (len(signal.channels), signal.rate) == (channels, rate)
    assert signal.duration_s == pytest.approx(seconds, abs=0.05)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package with a reader beside dlcca: a module and the folder of metadata that pip leaves."""

    def install(source, name="thermo", ending="thermo"):
        site = tmp_path / "site-packages"
        folder = site / f"{name}_files-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-files\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[dlcca.readers]\n{ending} = {name}_files\n")
        (site / f"{name}_files.py").write_text(source)
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, f"{name}_files", raising=False)
        (tmp_path / f"monday.{ending}").write_text("36.5 36.6 36.7")
        return tmp_path / f"monday.{ending}"

    return install


READER = """
import numpy as np
from dlcca.recordings.formats import Channel, Recording, Signal

class Degrees(Signal):
    def __init__(self, path, rate: float):
        self.channels, self.rate = (Channel("hand", "degC", "temperature"),), rate
        self.path, self.n = path, len(open_file(path))

    def read(self, first, last, columns):
        return open_file(self.path)[first:last][:, list(columns)]

def open_file(path):
    return np.loadtxt(path, ndmin=1)[:, None]

def open(path, *, rate: float = 10.0):
    return Recording(path, "thermo", (Degrees(path, rate),))
"""


@pytest.mark.parametrize("options", [{}, {"format": "thermo"}, {"format": ".THERMO", "rate": 5.0}])
def test_a_reader_of_another_package_is_found_by_its_entry_point(package, options):
    (signal,) = open_recording(package(READER), **options).signals
    assert (signal.names, signal.rate) == (["hand"], options.get("rate", 10.0))
    np.testing.assert_allclose(signal.read(0, 3, [0])[:, 0], [36.5, 36.6, 36.7])


def test_options_and_errors_of_a_reader_of_another_package_are_as_those_of_our_own(package):
    path = package(READER)
    with pytest.raises(SettingsError, match=r"'rat' is not an option of the thermo reader.*did you mean 'rate'"):
        open_recording(path, rat=5)
    with pytest.raises(SettingsError, match="rate = 'fast' is not a number"):
        open_recording(path, rate="fast")
    path.write_text("warm")
    with pytest.raises(DataError, match=r"monday\.thermo.* cannot be read as thermo \(ValueError"):
        open_recording(path)
    with pytest.raises(SettingsError, match=r"Did you mean '\.thermo'\?"):
        open_recording(path.with_suffix(".termo"))


@pytest.mark.parametrize(
    ("source", "found"),
    [("import no_such_module", "ModuleNotFoundError"), ("def open(", "SyntaxError"), ("x = 1", "AttributeError")],
)
def test_a_reader_that_cannot_be_imported_is_an_error_that_names_its_package(package, tmp_path, source, found):
    path = package(source)
    with pytest.raises(
        SettingsError, match=rf"\*\.thermo in the package thermo-files .*{found}.*uninstall thermo-files"
    ):
        open_recording(path)
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    assert open_recording(tmp_path / "x.npy", rate=1).signals[0].n == 5


def test_a_package_cannot_take_an_ending_of_a_built_in_reader(package, tmp_path):
    package("raise RuntimeError", ending="npy")
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    assert open_recording(tmp_path / "x.npy", rate=1).format == "NumPy"


def test_two_packages_with_one_ending_are_an_error_that_names_both(package):
    package(READER)
    with pytest.raises(SettingsError, match=r"thermo-files.*uninstall all but one") as caught:
        open_recording(package(READER, name="other"))
    assert "other-files" in str(caught.value)


def test_an_error_of_the_machine_is_none_of_the_file(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    signal = open_recording(tmp_path / "x.npy", rate=1).signals[0]

    def failing(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(npy, "_mapped", failing)
    with pytest.raises(StorageError, match=r"x\.npy' cannot be read: Input/output error\."):
        open_recording(tmp_path / "x.npy", rate=1)
    signal.source.opened.open_array = failing
    with pytest.raises(StorageError, match=r"x\.npy' cannot be read: Input/output error\."):
        signal.read(0, 5, [0])
