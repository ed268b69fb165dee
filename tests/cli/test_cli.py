"""The command line: every verb explains itself, and its exit code says how it went."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import __version__, reproduce
from dlcca import demo as demonstration
from dlcca.cli import app
from dlcca.demo import Demo
from dlcca.errors import DataError, SettingsError, StorageError
from dlcca.storage import run as run_store
from tests.support.runs import made_up

VERBS = ("demo", "reproduce", "plan", "ingest", "tune", "run", "transform", "refit", "export", "report", "compare")
VERBS += ("status", "verify", "schema")
NOT_YET: tuple[str, ...] = ()
#: Verbs with verbs of their own.
GROUPS = {
    "pipeline": ("run", "backfill", "status", "history", "rollback", "retain", "examples", "page", "install", "serve"),
    "cluster": ("profiles", "check"),
}
EVERY_VERB = [*VERBS, *(f"{group} {verb}" for group, verbs in GROUPS.items() for verb in verbs)]


def call(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="dlcca")


@pytest.fixture
def store(tmp_path) -> Path:
    path = tmp_path / "run.zarr"
    run_store.write(path, made_up())
    return path


@pytest.fixture
def damaged(store) -> Path:
    (store / "time" / "c" / "0").unlink()
    return store


@pytest.fixture
def quick_demo(monkeypatch):
    """A demo that has no work to do; what it finds can be changed."""

    def prepare(**changed):
        def run(out, say):
            say("working")
            return Demo(
                out / "run.zarr", out / "report.html", made_up(**changed), "400 samples.", {"a": 0.99, "b": 0.1}
            )

        monkeypatch.setattr(demonstration, "run", run)

    return prepare


@dataclass
class Row:
    figure: str
    expected: str
    got: str
    met: bool | None


@pytest.fixture
def quick_reproduce(monkeypatch):
    def prepare(*met):
        rows = [Row(f"figure {i}, |corr| [x]", "≥ 0.9", "0.95", m) for i, m in enumerate(met)]
        monkeypatch.setattr(reproduce, "run", lambda out, say: rows)

    return prepare


# Help.


def test_help_lists_the_verbs_that_exist_and_no_others():
    listed = [line.split()[0] for line in call("--help").stdout.partition("Commands:")[2].strip().splitlines()]
    assert listed == [*VERBS, *GROUPS]
    assert not set(listed) & set(NOT_YET)


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_every_verb_has_help_with_an_example_and_the_common_options(verb):
    result = call(*verb.split(), "--help")
    assert result.exit_code == 0
    assert f"Example: dlcca {verb}" in result.stdout
    assert all(option in result.stdout for option in ("--json", "--quiet", "--debug", "--help"))
    assert call(*verb.split(), "-h").stdout == result.stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([*v.split(), "--help"] for v in [*EVERY_VERB, *GROUPS])]
)
def test_help_comes_at_once_because_nothing_heavy_is_imported(arguments):
    code = (
        f"import sys; sys.argv[1:] = {arguments!r}\n"
        "from dlcca.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'dask', 'matplotlib', 'numpy', 'pydantic', 'rich', 'scipy', 'sklearn', 'zarr'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.strip() == "[]"


def test_the_version_is_told():
    assert call("--version").stdout == f"dlcca {__version__}\n"


def test_python_dash_m_is_the_same_program():
    run = subprocess.run([sys.executable, "-m", "dlcca", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout == f"dlcca {__version__}\n"


# Bad usage: 2.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dmeo"], "'demo'"),
        (["demo", "--ouut", "x"], "--out"),
        (["report"], "STORE"),
        (["run"], "run.toml"),
        (["compare"], "run.toml"),
        (["copmare"], "'compare'"),
        ([], "Commands:"),
    ],
)
def test_bad_usage_is_told_with_a_suggestion(arguments, words):
    result = call(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


# Stores.


def test_status_says_what_is_in_a_run(store):
    result = call("status", store)
    assert result.exit_code == 0
    assert "left (5 channels), right (7 channels)" in result.stdout
    assert made_up().fingerprint in result.stdout


def test_status_tells_of_warnings(tmp_path):
    run_store.write(tmp_path / "run.zarr", made_up(warnings=["it is in pieces."]))
    assert "it is in pieces." in call("status", tmp_path / "run.zarr").stdout


def test_verify_passes_an_intact_run(store):
    result = call("verify", store)
    assert result.exit_code == 0
    assert "complete and unchanged" in result.stdout


def test_verify_names_what_is_damaged(damaged):
    result = call("verify", damaged)
    assert result.exit_code == 3
    assert "'time'" in result.stderr
    assert "DAMAGED  time" in result.stdout
    assert "'embedding'" not in result.stderr


def test_verify_has_the_names_in_its_document_too(damaged):
    document = json.loads(call("verify", damaged, "--json").stdout)
    assert document["intact"] is False
    assert document["exit_code"] == 3
    assert [name for name, damage in document["entries"].items() if damage] == ["time"]


def test_report_is_named_like_its_store_unless_told_otherwise(store, tmp_path):
    assert call("report", store).exit_code == 0
    assert "These two views share one variable" in (tmp_path / "run.html").read_text(encoding="utf-8")
    assert call("report", store, "--out", tmp_path / "new" / "page.html").exit_code == 0
    assert (tmp_path / "new" / "page.html").exists()


def test_report_of_a_damaged_run_is_refused(damaged, tmp_path):
    assert call("report", damaged).exit_code == 3
    assert not (tmp_path / "run.html").exists()


def test_report_does_not_replace_a_foreign_file(store, tmp_path):
    (tmp_path / "run.html").write_text("mine")
    result = call("report", store)
    assert result.exit_code == 4
    assert (tmp_path / "run.html").read_text() == "mine"


@pytest.mark.parametrize("verb", ["report", "status", "verify"])
def test_a_store_that_is_not_there_is_refused(verb, tmp_path):
    result = call(verb, tmp_path / "nothing.zarr")
    assert result.exit_code == 3
    assert "there is no run at" in result.stderr


# What every verb promises.


@pytest.mark.parametrize("verb", ["report", "status", "verify"])
def test_json_is_one_document_and_nothing_else(verb, store):
    result = call(verb, store, "--json")
    assert json.loads(result.stdout)["exit_code"] == 0
    assert result.stderr == ""


@pytest.mark.parametrize("verb", ["report", "status", "verify"])
def test_quiet_is_silent(verb, store):
    result = call(verb, store, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_quiet_still_tells_of_errors(tmp_path):
    assert "there is no run" in call("status", tmp_path / "nothing", "--quiet").stderr


def test_an_error_is_a_document_too(tmp_path):
    document = json.loads(call("status", tmp_path / "nothing", "--json").stdout)
    assert document["kind"] == "StoreFileError"
    assert document["exit_code"] == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("wrong"), 2),
        (DataError("wrong"), 3),
        (StorageError("wrong"), 4),
        (PermissionError(13, "wrong"), 4),
        (ZeroDivisionError("wrong"), 1),
    ],
)
def test_an_error_is_one_message_with_the_code_of_its_kind(error, code, monkeypatch):
    def fail(path):
        raise error

    monkeypatch.setattr(run_store, "describe", fail)
    result = call("status", "x")
    assert result.exit_code == code
    assert "wrong" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Traceback" in call("status", "x", "--debug").stderr
    assert call("status", "x", "--debug").exit_code == code


def test_what_is_stopped_by_hand_says_so_without_a_traceback(monkeypatch):
    def stop(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_store, "describe", stop)
    result = call("status", "x")
    assert result.exit_code == 130
    assert result.stderr == "dlcca: stopped. What was finished is kept: the same command goes on from there.\n"


# Reproduce.


def test_reproduce_prints_its_table(quick_reproduce, tmp_path):
    quick_reproduce(True, None)
    result = call("reproduce", "--out", tmp_path)
    assert result.exit_code == 0
    assert "figure 1, |corr| [x]" in result.stdout


def test_a_figure_that_is_not_met_is_named(quick_reproduce, tmp_path):
    quick_reproduce(True, False)
    result = call("reproduce", "--out", tmp_path, "--quiet")
    assert result.exit_code == 5
    assert result.stdout == ""
    assert "figure 1, |corr| [x]: expected ≥ 0.9, got 0.95" in result.stderr


def test_reproduce_gives_its_rows_to_machines(quick_reproduce, tmp_path):
    quick_reproduce(True, False, None)
    document = json.loads(call("reproduce", "--out", tmp_path, "--json").stdout)
    assert [row["met"] for row in document["rows"]] == [True, False, None]
    assert document["exit_code"] == 5


# Demo.


def test_demo_says_what_was_found_and_what_to_do_next(quick_demo, tmp_path):
    quick_demo()
    result = call("demo", "--out", tmp_path)
    assert result.exit_code == 0
    assert "|correlation| 0.99" in result.stdout
    assert len(result.stdout.partition("Next:\n")[2].splitlines()) == 3
    assert result.stderr == ""


@pytest.mark.parametrize("flag", [[], ["--quiet"], ["--json"]])
def test_a_demo_not_to_be_trusted_ends_with_5_and_the_reason(quick_demo, tmp_path, flag):
    quick_demo(warnings=["nothing common found."])
    result = call("demo", "--out", tmp_path, *flag)
    assert result.exit_code == 5
    assert "nothing common found." in result.stderr


@pytest.mark.parametrize("out", ["file", "file/deeper"])
def test_demo_in_a_place_that_cannot_be_written_fails_before_it_works(tmp_path, out, monkeypatch):
    monkeypatch.setattr(demonstration, "LocalCCA", lambda **options: pytest.fail("too late"))
    (tmp_path / "file").write_text("")
    result = call("demo", "--out", tmp_path / out)
    assert result.exit_code == 4
    assert "cannot be made" in result.stderr


@pytest.mark.parametrize("name", ["run.zarr", "report.html"])
def test_demo_does_not_replace_what_is_not_its_own(tmp_path, name, monkeypatch):
    monkeypatch.setattr(demonstration, "LocalCCA", lambda **options: pytest.fail("too late"))
    (tmp_path / name).write_text("mine")
    assert call("demo", "--out", tmp_path).exit_code == 4
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.slow
def test_demo_finds_the_pendulum_and_can_be_run_again(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    first = call("demo", "--out", tmp_path, "--json")
    assert first.exit_code == 0
    document = json.loads(first.stdout)
    common, *private = document["correlations"].values()
    assert common > 0.95
    assert max(private) < 0.3
    again = call("demo", "--out", tmp_path, "--quiet")
    assert (again.exit_code, again.output) == (0, "")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["mine.txt", "report.html", "run.zarr"]
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert run_store.read(tmp_path / "run.zarr").fingerprint == document["fingerprint"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What the two cameras see" in page
    assert "https://" not in page
    assert len(page) < 6e6


@pytest.mark.parametrize(
    "arguments",
    [
        *("--help", "plan --help", "plan run.toml", "plan run.toml --json", "cluster profiles"),
        *("status run.zarr", "status run.zarr --json", "status nowhere.zarr --json"),
    ],
)
def test_a_reader_that_is_gone_ends_a_verb_without_a_word(arguments, tmp_path, store):
    zarr.create_array(str(tmp_path / "x.zarr"), data=np.random.default_rng(0).standard_normal((300, 2)))
    views = "[views.a]\nsource = 'x.zarr'\n[views.b]\nsource = 'x.zarr'\n"
    (tmp_path / "run.toml").write_text(f"[store]\npath = 'y.zarr'\n{views}")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "dlcca", *arguments.split()]
    done = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_reader_that_takes_one_line_gets_it():
    command = f"{sys.executable} -m dlcca cluster profiles | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
