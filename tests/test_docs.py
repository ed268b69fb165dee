"""The code in the README and in the documentation runs, page by page, as it stands."""

import importlib.util
import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import fields
from unittest import mock

import pytest

from dlcca import Settings
from dlcca.fitting import calibration, pipeline
from dlcca.numerics import coordinates, fusion, metrics
from dlcca.recordings import formats
from dlcca.recordings.formats import registry
from tests.support import doc_pages
from tests.support.doc_pages import NOT_RUN, PAGES, ROOT
from tests.support.page_files import PREPARED

#: Pages whose code needs more than a folder; who runs it instead.
ELSEWHERE = {
    "docs/how-to/object-storage.md": "tests/storage/test_object_storage.py",
    "docs/how-to/scheduling.md": "tests/pipelines/test_cron.py",
    "docs/tutorials/recording.md": "tests/realdata/test_v102s.py",
    "docs/tutorials/slurm.md": "tests/clusters/test_slurm_tutorial.py",
}
#: What the code of a page needs that the tests of the package do not bring.
NEEDS = {
    "README.md": ["edfio"],
    "docs/how-to/new-recordings.md": ["edfio", "mne", "h5netcdf", "pyarrow"],
    "docs/how-to/pipelines.md": ["edfio"],
    "docs/how-to/recordings.md": ["edfio"],
    "docs/tutorials/sleep.md": ["edfio"],
    "docs/tutorials/video.md": ["av"],
}
#: Pages whose fits take more than a second or two.
SLOW = {
    *(f"docs/how-to/{name}.md" for name in ("add-a-metric", "clusters", "private-part", "size-a-cluster", "stability")),
    *(f"docs/how-to/{name}.md" for name in ("who-shares", "window")),
    *(f"docs/tutorials/{name}.md" for name in ("first-run", "pipeline", "sleep", "three-views", "video")),
}


def name_of(page):
    return str(page.relative_to(ROOT))


RUN_HERE = [page for page in PAGES if name_of(page) not in ELSEWHERE and any(doc_pages.blocks(page))]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder of its own; files that a page puts among the formats are read from there, and forgotten after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "dlcca" / "recordings" / "formats")])
    monkeypatch.setattr(registry, "READERS", dict(registry.READERS))
    monkeypatch.setattr(pipeline, "STAGES", pipeline.STAGES)
    monkeypatch.setattr(calibration, "ROWS", 100)  # so that a page that measures a machine does not take so long
    with ExitStack() as stack:  # what a page exports, or adds to a table, is forgotten
        stack.enter_context(mock.patch.dict(os.environ, XDG_CACHE_HOME=str(tmp_path / "cache")))
        for table in (metrics.METRICS, fusion.FUSIONS, coordinates.COORDINATES):
            stack.enter_context(mock.patch.dict(table))
        yield


def quick_or_slow(page):
    is_slow = name_of(page) in SLOW or name_of(page) in PREPARED
    return pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize("page", [quick_or_slow(page) for page in RUN_HERE])
def test_the_code_of_a_page_runs(page, elsewhere):
    for package in NEEDS.get(name_of(page), ()):
        pytest.importorskip(package)
    PREPARED.get(name_of(page), lambda: None)()
    doc_pages.do(page)


def test_pages_that_are_slow_are_there():
    assert set() == {*SLOW} - {name_of(page) for page in RUN_HERE}


def test_no_code_hides_in_a_block_without_a_language():
    assert {name_of(page): hidden for page in PAGES if (hidden := doc_pages.hidden_commands(page))} == {}


def test_what_is_not_run_stands_in_some_page():
    said = {
        line
        for page in PAGES
        for block in doc_pages.blocks(page)
        if block.language == "sh"
        for line, _ in doc_pages.commands(block)
    }
    assert set(NOT_RUN) - said == set()


@pytest.mark.parametrize("reason", NOT_RUN.values())
def test_who_runs_a_command_instead_is_there(reason):
    assert [name for name in re.findall(r"(?:tests|docs)/[\w/.]+", reason) if not (ROOT / name).exists()] == []


def test_the_tutorial_that_runs_on_slurm_has_the_command_of_other_pages():
    (command,) = [command for command, reason in NOT_RUN.items() if "docs/tutorials/slurm.md" in reason]
    shell = [block for block in doc_pages.blocks(ROOT / "docs/tutorials/slurm.md") if block.language == "sh"]
    assert command in [line for block in shell for line, _ in doc_pages.commands(block)]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_make_knows_every_target_of_a_page(page):
    targets = set(re.findall(r"^make (\w+)", (ROOT / page).read_text(), re.MULTILINE))
    assert targets
    told = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr


def test_the_command_line_knows_every_command_of_the_pages():
    for page in PAGES:
        for command in doc_pages.said_commands(page):
            doc_pages.check_known(command)
        for command in doc_pages.mentioned_commands(page):
            doc_pages.check_known(command, whole=False)


@pytest.mark.parametrize(
    "wrong", ["dlcca rum run.toml", "dlcca run run.toml --clutser x", "dlcca run", "dlcca run a b"]
)
def test_a_wrong_command_would_be_noticed(wrong):
    with pytest.raises(AssertionError):
        doc_pages.check_known(wrong.split())


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_pages_that_do_not_run_here_run_in_a_test_of_their_own(page, test):
    assert (ROOT / page).exists()
    assert page in (ROOT / test).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def test_the_map_of_the_code_is_that_of_the_tree():
    said = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:dlcca|docs|tests|pipelines|cluster)/[\w./]*)`", said))
    assert [path for path in named if not (ROOT / path).exists()] == []
    parts = [path for path in (ROOT / "dlcca").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    expected = {f"dlcca/{path.name}{'/' if path.is_dir() else ''}" for path in parts if not path.stem.startswith("__")}
    assert expected - named == set()


def test_every_setting_of_a_run_is_in_the_reference_with_a_sentence():
    settings_table = import_extension("settings_table")
    page = (ROOT / "docs/reference/settings.md").read_text()
    named = re.findall(r"^```{settings} (dlcca\.settings\.\w+\.\w+)", page, re.MULTILINE)
    assert len(named) > 5
    for name in named:
        module, _, kind = name.rpartition(".")
        rows = settings_table.rows_of(getattr(importlib.import_module(module), kind))
        assert [key for key, _, sentence in rows if not sentence] == [], name
    stages = {stage.name for stage in fields(Settings)}
    assert stages <= set(re.findall(r"^## `\[(\w+)\]`", page, re.MULTILINE))


def import_extension(name):
    """A module of docs/extensions, which is no package."""
    pytest.importorskip("sphinx", reason="sphinx is not installed (pip install -e .[docs])")
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "extensions" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
