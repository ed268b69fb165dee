"""Bits that flip, files that are cut short, emptied or gone: found by `dlcca verify`, and never read unnoticed."""

import contextlib
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from dlcca import open_model
from dlcca.cli import app
from dlcca.errors import DlccaError
from dlcca.fitting import verification
from dlcca.report import overview, page
from dlcca.storage import cache, comparison, lock, manifest
from dlcca.storage import run as run_store
from tests.faults.stores import files_of, finished
from tests.support import repeats

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A finished run, which every test leaves as it was."""
    made = finished(tmp_path_factory.mktemp("finished"))
    assert verification.look(str(made.store)).damages == {}
    return made


def flipped(content, rng):
    bit = int(rng.integers(8 * len(content)))
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def truncated(content, rng):
    return content[: int(rng.integers(len(content)))]


def emptied(content, rng):
    return b""


DAMAGES = (flipped, truncated)


class Damage:
    """A file that is changed, or removed, while a block lasts."""

    def __init__(self, file, content):
        self.file, self.whole, self.content = file, file.read_bytes(), content

    def __enter__(self):
        if self.content is None:
            self.file.unlink()
        else:
            assert self.content != self.whole
            self.file.write_bytes(self.content)

    def __exit__(self, *_):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(self.whole)


@pytest.mark.parametrize("count", repeats.first(1, [100, 200]))
def test_random_flips_and_truncations_are_all_found(intact, count):
    rng = np.random.default_rng(5)
    files = files_of(intact.store)
    kinds = {"c", "stage.json", "done", "zarr.json", "lock", "log"}
    assert all(any(kind in file.parts for file in files) for kind in kinds)
    chosen = [*rng.permutation(len(files)), *rng.integers(len(files), size=count)][
        :count
    ]  # each once, if there are so many
    missed = []
    for number in chosen:
        file, how = files[number], DAMAGES[int(rng.integers(2))]
        with Damage(file, how(file.read_bytes(), rng)):
            if not verification.look(str(intact.store)).damages:
                missed.append((str(file), how.__name__))
    assert missed == []
    assert verification.look(str(intact.store)).damages == {}


def test_files_that_are_gone_or_empty_are_found(intact):
    rng = np.random.default_rng(6)
    files = [f for f in files_of(intact.store) if "lock" not in f.parts]  # a lock that is gone was given free
    for number in rng.choice(len(files), 10, replace=False):
        for content in (None, b""):
            with Damage(files[number], content):
                assert verification.look(str(intact.store)).damages, files[number]


def forget_what_this_process_knows():
    """As if the next thing were done by another process."""
    cache.clear()


def uses_of(made):
    """What people do with a run; each gives bytes that must always be the same."""
    store = str(made.store)

    def resumed():
        made.run()
        return run_store.read(store).embedding.tobytes()

    def of_model():
        model = open_model(store)
        rng = np.random.default_rng(0)
        new = [rng.standard_normal((5, points.shape[1])) for points in model.model_.points]
        return np.asarray(model.embedding_).tobytes() + model.model_.coordinates(new).tobytes()

    def report():
        run = run_store.read(store)
        compared = comparison.of_run(store, run.fingerprint)
        return f"{page.headline(overview.of_run(run))} {compared.table} {compared.coordinates[0].tobytes()}".encode()

    return {"result": lambda: run_store.read(store).embedding.tobytes(), "model": of_model, "report": report} | {
        "resumed": resumed  # last: it may mend what is damaged
    }


def test_whoever_meets_damage_gets_an_error_or_the_right_numbers(intact, tmp_path):
    rng = np.random.default_rng(7)
    made = type(intact)(tmp_path / "run.zarr", intact.recipes)
    shutil.copytree(intact.store, made.store)
    right = {name: use() for name, use in uses_of(made).items()}
    # One of each kind that somebody reads, and some at random.
    patterns = [
        "zarr.json",
        "embedding/c/*/0",
        "embedding/zarr.json",
        "quality/zarr.json",
        "model/zarr.json",
        "model/points_0/c/*/0",
        "stages/metric/stage.json",
        "stages/metric/factors_0/zarr.json",
        "stages/coordinates/done/00000.json",
        "compare/zarr.json",
        "recordings/zarr.json",
        "recordings/rows/c/0",
        "recordings/scaling/left/zarr.json",
        "recordings/views/left/zarr.json",
    ]
    names = [next(iter(sorted(intact.store.glob(pattern)))).relative_to(intact.store) for pattern in patterns]
    names += [file.relative_to(intact.store) for file in rng.choice(files_of(intact.store), 2, replace=False)]
    told = 0
    for i, name in enumerate(names):
        shutil.rmtree(made.store)
        shutil.copytree(intact.store, made.store)
        file = made.store / name
        damaged = (flipped, truncated, None)[i % 3]
        file.unlink() if damaged is None else file.write_bytes(damaged(file.read_bytes(), rng))
        for use, ask in uses_of(made).items():
            forget_what_this_process_knows()
            with contextlib.suppress(DlccaError):  # and no other error: these are written for people
                told += 1
                found = ask()
                told -= 1
                assert found == right[use], (name, use)
    assert told > len(names) / 2


def test_a_header_that_is_damaged_is_written_anew_by_the_next_run(intact, tmp_path):
    made = type(intact)(tmp_path / "run.zarr", intact.recipes)
    shutil.copytree(intact.store, made.store)
    for damage in (b"{", b"", None):
        header = made.store / "zarr.json"
        header.unlink() if damage is None else header.write_bytes(damage)
        assert dlcca("verify", made.store).exit_code == 3
        assert dlcca("status", made.store).exit_code == (0 if damage is None else 3)
        forget_what_this_process_knows()
        made.run()
        assert dlcca("verify", made.store).exit_code == 0
    expected = run_store.read(intact.store).embedding
    np.testing.assert_array_equal(run_store.read(made.store).embedding, expected)


def test_files_of_others_do_no_harm_and_are_named(intact):
    store = intact.store
    strangers = [store / "notes.txt", store / "stages/near/done/junk.txt", store / "stages/near/done/x.json"]
    left = [store / "stages/near/done/.00001.json.abc", store / "embedding/c/0/0.abc.partial"]
    for file in (*strangers, *left):
        file.write_bytes(b"\xff\x00 anything")
    try:
        told = dlcca("verify", store, "--json")
        assert told.exit_code == 0
        assert json.loads(told.stdout)["strangers"] == sorted(str(f.relative_to(store)) for f in strangers)
        assert dlcca("status", store).exit_code == 0
        intact.run()
    finally:
        for file in (*strangers, *left):
            file.unlink()


def test_a_lock_that_is_damaged_keeps_others_out_only_while_it_is_young(intact, monkeypatch):
    place = intact.store / lock.name_of(0)
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"{")
    told = dlcca("verify", intact.store)
    assert told.exit_code == 3
    assert "the lock stages/lock/00000.json" in told.stderr
    with pytest.raises(DlccaError, match=r"in use by somebody whose lock .*00000\.json cannot be read"):
        intact.run()
    monkeypatch.setattr(lock, "DEAD_S", -1.0)
    intact.run()
    assert not place.exists()


@pytest.mark.parametrize("content", [{"a": 1e-05}, {"a": "é"}, {"a": 0.1 + 0.2, "b": [None, True]}])
def test_a_sealed_file_is_the_one_that_was_written_byte_for_byte(content):
    whole = manifest.sealed(content)
    assert manifest.unsealed(whole) == content
    for at in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << at % 8
        with pytest.raises(ValueError):
            manifest.unsealed(bytes(changed))
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            manifest.unsealed(whole[:end])
    same = whole.replace(b"1e-05", b"1E-05").replace(b"\\u00e9", b"\\u00E9")
    if same != whole:
        assert json.loads(same) == json.loads(whole)
        with pytest.raises(ValueError):
            manifest.unsealed(same)


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
