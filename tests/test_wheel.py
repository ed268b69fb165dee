"""The wheel holds all that the package needs where there is no source tree: pages, styles, scripts, cluster files."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: What is in these folders is for the tests and the documentation, or is made.
NOT_OURS = ("__pycache__", ".pyc")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel and the source archive."""
    pytest.importorskip("hatchling", reason="hatchling is not installed (pip install -e .[dev])")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return out


def files_below(folder: Path) -> set[str]:
    """Everything in a folder of the source tree, by its path there."""
    found = (path.relative_to(ROOT).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in found if not any(part in name for part in NOT_OURS)}


def test_a_wheel_has_every_file_of_the_package_and_the_ready_cluster_files(built):
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert files_below(ROOT / "dlcca") <= names
    assert {f"dlcca/{name}" for name in files_below(ROOT / "cluster")} <= names
    for needed in (
        "dlcca/report/template.html",
        "dlcca/report/style.css",
        "dlcca/report/script/map.js",
        "dlcca/pipelines/page.html",
        "dlcca/cluster/slurm.toml",
        "dlcca/cluster/local.toml",
        "dlcca/examples/nightly-edf.toml",
        "dlcca/py.typed",
    ):
        assert needed in names
    assert not [name for name in names if name.startswith(("tests/", "docs/")) or name.endswith(".pyc")]


def test_a_wheel_tells_of_itself(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        (metadata,) = [name for name in content.namelist() if name.endswith(".dist-info/METADATA")]
        text = content.read(metadata).decode()
        (commands,) = [name for name in content.namelist() if name.endswith("entry_points.txt")]
        assert "dlcca = dlcca.cli:main" in content.read(commands).decode()
    head, _, description = text.partition("\n\n")
    assert "License-Expression: BSD-3-Clause" in head
    assert "Description-Content-Type: text/markdown" in head
    assert description.startswith("# dlcca")


def test_a_wheel_can_be_built_from_the_source_archive(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md"} <= names
    assert files_below(ROOT / "dlcca") | files_below(ROOT / "cluster") | files_below(ROOT / "pipelines") <= names
    assert not [name for name in names if name.startswith((".venv", "demo-output", "bench-output"))]
