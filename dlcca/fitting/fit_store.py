"""Where a fit to lazy arrays keeps its files: a temporary folder, or a store that the user gave.

::

    STORE
    ├── fit.json    what is fitted here: options, seed and views; leftovers of another fit are refused by it
    ├── views       copies of those views that workers cannot read where they are
    └── run.zarr    the stages and the result, as `dlcca run` leaves them
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.clusters.check import access_problems
from dlcca.engine.stage import plain
from dlcca.errors import ClusterError, DlccaError, SettingsError, StaleStage
from dlcca.fitting.job import Source
from dlcca.settings.fit import Settings
from dlcca.storage import lock
from dlcca.storage.blocks import storing
from dlcca.storage.files import files_at, is_remote, zarr_store

FILE = "fit.json"
#: Of a chunk of a copy.
CHUNK_BYTES = 8 << 20


@dataclass(frozen=True)
class FitStore:
    """A place for one fit, which this process and all workers read and write."""

    address: str
    kept: bool  # given by the user; else temporary, and removed with the fitted model

    @property
    def run(self) -> str:
        return f"{self.address}/run.zarr"

    def remove_if_temporary(self) -> None:
        if not self.kept:
            shutil.rmtree(self.address, ignore_errors=True)

    def held(self) -> AbstractContextManager[Any]:
        """Locks a store of the user against other fits."""
        return lock.held(self.run, "a fit") if self.kept else nullcontext()

    def refuse_unreachable(self, client: Any) -> None:
        """End here if a worker does not see what is written here, or the other way round."""
        client.submit(os.getpid, pure=False).result()  # an adaptive cluster has workers from the first task on
        if problems := access_problems(client, self.address):
            remedy = "Choose another store:" if self.kept else "Give LocalCCA(store=...)"
            needed = "a folder on a file system that this machine and all workers share, or object storage (s3://...)"
            raise ClusterError(f"{problems[0]}. {remedy} {needed}.")

    def claim(self, settings: Settings, seed: int | None, views: Mapping[str, Any]) -> int:
        """Record what is fitted here, and return the seed; refuse a place that holds something else.

        Without a seed, the one of the fit that is there already is used, so that it is resumed.
        """
        fresh = int(np.random.default_rng().integers(np.iinfo(np.int64).max)) if seed is None else seed
        if not self.kept:
            return fresh
        files = files_at(self.address)
        wanted = json.loads(json.dumps({"options": settings.options(), "seed": fresh, "views": views}, default=plain))
        if (content := files.get(FILE)) is not None:
            known = json.loads(content)
            wanted["seed"] = known["seed"] if seed is None else seed
            there, now = ({**about["options"], "random_state": about["seed"]} for about in (known, wanted))
            differ = [name for name in now if there.get(name) != now[name]]
            changed = [f"{name}={there.get(name)!r} there, {now[name]!r} now" for name in differ]
            changed += ["other views"] * (known["views"] != wanted["views"])
            if changed:
                holds = f"store={self.address} holds another fit ({'; '.join(changed)})"
                raise StaleStage(f"{holds}. Give another store, or remove this one.")
            return int(wanted["seed"])
        if found := files.names(""):
            raise SettingsError(
                f"store={self.address} holds something that is not a fit of LocalCCA ({', '.join(found[:3])}); "
                "give the address of a new or empty folder."
            )
        files.put(FILE, json.dumps(wanted, indent=1).encode())
        return fresh

    def copy(self, view: str, number: int, array: Any, client: Any) -> Source:
        """A Dask array as a Zarr array in this place, written by the workers of ``client`` or by this process."""
        import zarr

        address = f"{self.address}/views/{number}.zarr"
        rows = max(1, CHUNK_BYTES // (array.dtype.itemsize * array.shape[1]))
        chunks = (min(rows, array.shape[0]) or 1, array.shape[1])
        with storing(f"the copy of view {view!r} in {address}"):
            zarr.create_array(zarr_store(address), shape=array.shape, chunks=chunks, dtype=array.dtype, overwrite=True)
        blocks = array.rechunk(chunks)
        written = blocks.map_blocks(_write, address, dtype=bool, chunks=((1,) * blocks.numblocks[0], (1,)))
        if client is None:
            written.all().compute(scheduler="threads")
        else:
            client.compute(written.all(), retries=2).result()
        return Source(view, address)


def _write(block: NDArray, address: str, block_info: Any = None) -> NDArray[np.bool_]:
    """Write the rows of one chunk, also if they are all zeros: a chunk that is not there is known to be missing."""
    import zarr

    if block_info is not None:  # else Dask infers the type
        first, last = block_info[0]["array-location"][0]
        with storing(f"rows {first} to {last - 1} of {address}"):
            array = zarr.open_array(zarr_store(address), mode="r+").with_config({"write_empty_chunks": True})
            array[first:last] = np.asarray(block)
    return np.ones((1, 1), bool)


def fit_store(store: str | Path | None) -> FitStore:
    """The place for a fit: a new temporary folder, or the one at this address."""
    if store is None:
        return FitStore(tempfile.mkdtemp(prefix="dlcca-"), kept=False)
    address = str(store).removeprefix("file://").rstrip("/")
    return FitStore(address if is_remote(address) else str(Path(address).absolute()), kept=True)


def unreadable(client: Any, source: Source) -> str | None:
    """Why a worker cannot read a view where it is; None if all can."""
    array = source.open()
    answers = client.run(_problem, source, (array.shape, str(array.dtype)), on_error="return")
    return next((f"the worker at {address}: {said}" for address, said in answers.items() if said is not None), None)


def _problem(source: Source, expected: tuple[tuple[int, ...], str]) -> str | None:
    """On a worker: open the view; what went wrong."""
    try:
        array = source.open()
    except (DlccaError, OSError) as error:
        return str(error)
    found = (tuple(array.shape), str(array.dtype))
    return None if found == expected else f"{source.address} is another array there, {found} and not {expected}"
