"""Every file of every kind of store is looked at by `dlcca verify`: what is changed or gone is found."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from dlcca import LocalCCA, demo
from dlcca.cli import app
from dlcca.errors import DlccaError, Untrusted
from dlcca.fitting import runner, transform, verification
from dlcca.pipelines.publish import RECORDING
from dlcca.storage import transformed
from dlcca.storage.formats import seal, write_array
from tests.faults.stores import files_of
from tests.faults.test_corruption import Damage, flipped, truncated
from tests.support import repeats

KINDS = ("run", "model", "transformed", "views", "published day", "demo")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store of every kind."""
    folder = tmp_path_factory.mktemp("stores")
    made = {name: folder / name.replace(" ", "-") / "store.zarr" for name in KINDS}
    demo.run(folder / "demos", lambda text: None)
    made["demo"] = folder / "demos" / "run.zarr"
    rng = np.random.default_rng(0)
    t = np.arange(200) / 10
    common = np.column_stack([np.sin(t), np.cos(1.3 * t)])
    X = {name: common @ rng.standard_normal((2, 3)) + 0.05 * rng.standard_normal((200, 3)) for name in ("a", "b")}
    for name, array in X.items():
        zarr.create_array(folder / f"{name}.zarr", data=array, chunks=(50, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # of so few rows
        model = LocalCCA(landmarks=20, window=8, random_state=0).fit(X)
    model.save(made["model"])
    addresses = {name: str(folder / f"{name}.zarr") for name in X}
    runner.run(*runner.prepared(str(made["run"]), addresses, model.settings_, 0))
    sources = transform.named_arrays(list(addresses.values()), ("a", "b"))
    transform.run(transform.prepared(str(made["transformed"]), str(made["model"]), sources))
    (folder / "night.csv").write_text("time,a,b\n" + "".join(f"{i},{i % 7},{i % 5}\n" for i in range(60)))
    result = CliRunner().invoke(app, ["ingest", str(folder / "night.csv"), "--out", str(made["views"])])
    assert result.exit_code == 0, result.output
    _published(made["published day"])
    return made


def _published(place):
    """With an array more than every store of coordinates has."""
    group = zarr.create_group(place, zarr_format=3)
    held = {name: np.zeros((4, 2) if name == "embedding" else 4) for name in (*transformed.ARRAYS, RECORDING)}
    manifest = {name: write_array(group, name, X) for name, X in held.items()}
    seal(group, transformed.FORM, {"manifest": manifest, "stages": []})


def is_found(store):
    try:
        return bool(verification.look(str(store)).damages)
    except DlccaError:
        return True


@pytest.mark.faults
@pytest.mark.parametrize("changes", repeats.first(1, [1, 3]))  # of each file, besides being gone
@pytest.mark.parametrize("kind", repeats.first(5, KINDS))  # the demonstration leaves a run
def test_every_file_that_is_changed_or_gone_is_found(stores, kind, changes):
    store, rng = stores[kind], np.random.default_rng(0)
    assert not is_found(store), verification.look(str(store)).damages
    missed = []
    for number, file in enumerate(files_of(store)):
        whole = file.read_bytes()
        changed = np.roll(np.array([flipped(whole, rng), truncated(whole, rng), b""], object), number)
        for content in (None, *changed[:changes]):
            with Damage(file, content):
                if not is_found(store):
                    missed.append((file.relative_to(store).as_posix(), content and len(content)))
    assert missed == []
    assert not is_found(store)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_status_and_verify_know_every_kind_of_store_in_a_new_process(stores, kind):
    """In one that has not imported what the others have."""
    for verb in ("status", "verify") if kind != "published day" else ("verify",):
        words = [sys.executable, "-m", "dlcca", verb, str(stores[kind])]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
        assert (done.returncode, done.stderr) == (0, ""), verb
        if verb == "verify":
            assert "complete and unchanged" in done.stdout
