"""A SLURM for the tests that need one, started once; a folder with two small movies and a run.toml."""

import pytest
import zarr
from typer.testing import CliRunner

from dlcca import simulate
from dlcca.cli import app
from tests.clusters.slurm import missing_programs, private_slurm

RUN = """
[store]
path = "run.zarr"
seed = 1

[views.left]
source = "left.zarr"

[views.right]
source = "right.zarr"

[landmarks]
count = 120

[cluster]
workers = 2
"""

PROFILE = """
kind = "slurm"
queue = "debug"
workers = 2
cores = 1
memory_gib = 1
walltime_min = 30
interface = "lo"
shared = "{shared}"
start_wait_min = 3
directives = ["--exclusive"]
setup = ["echo $SLURMD_NODENAME >> {shared}/nodes"]
"""


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A SLURM of two nodes with two cores each."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: apt-get install slurm-wlm munge")
    with private_slurm(tmp_path_factory.mktemp("slurm") / "state") as up:
        yield up


@pytest.fixture
def submitting(slurm, monkeypatch):
    """The SLURM, with this process as one that submits to it; nothing is left in the queue."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))
    yield slurm
    slurm.cancel(*slurm.jobs())


@pytest.fixture
def pendulums(tmp_path):
    """left.zarr and right.zarr: two movies of coupled pendulums, in blocks of 100 frames; run.toml and slurm.toml."""
    write_movies(tmp_path)
    (tmp_path / "slurm.toml").write_text(PROFILE.format(shared=tmp_path / "shared"))
    return tmp_path


@pytest.fixture(scope="session")
def local_embedding(tmp_path_factory):
    """What `dlcca run` finds in the movies with workers on this machine."""
    folder = tmp_path_factory.mktemp("local")
    write_movies(folder)
    done = CliRunner().invoke(app, ["run", str(folder / "run.toml"), "--quiet"])
    assert done.exit_code in (0, 5), done.output
    return zarr.open_group(str(folder / "run.zarr"), mode="r")["embedding"][:]


def write_movies(folder):
    views, _truth = simulate.pendulums(600, random_state=0)
    for name, X in zip(("left", "right"), views, strict=True):
        zarr.create_array(str(folder / f"{name}.zarr"), data=X, chunks=(100, X.shape[1]))
    (folder / "run.toml").write_text(RUN)
