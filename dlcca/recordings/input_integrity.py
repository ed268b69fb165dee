"""Whether the input of a store is still what its finished blocks were computed from.

A run reads its views many times, and may be resumed days later. When a block is read for the first time, its checksum
is stored with it. The signature of its chunks (size and time, or ETag) is stored beside the blocks. Where that has
changed since, finished blocks are read again and compared with their checksums: if they are equal, the chunks were only
copied or touched; one that differs is an error, because results of two inputs would be mixed.

A job that reads views, `Job` or `TransformJob`, has the stage that reads every block first and keeps its checksums
(``first_read``), the sources by the names of their views (``present``), and for each block its rows (``rows_read``).
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.engine.work import OnProgress, collect
from dlcca.errors import DamagedBlock, DataError
from dlcca.recordings.view_array import ViewArray
from dlcca.storage import lock
from dlcca.storage.blocks import Blocks
from dlcca.storage.files import files_at, is_remote, signatures
from dlcca.storage.inputs import block_signatures
from dlcca.storage.manifest import crc32c, digest_of_facts, open_record, sealed

FILE = "inputs.json"
#: In the facts of a block: the checksum of each view as it was read.
CHECKSUMS = "crc32c"
#: Stages that read the views first.
FIRST = ("scan", "transform", "drafts")


def checksums(views: Sequence[NDArray]) -> dict[str, list[int]]:
    """Facts of a block: the checksums of the views that it was computed from."""
    return {CHECKSUMS: [crc32c(X) for X in views]}


def confirm(job: Any, client: Any = None, on_progress: OnProgress | None = None) -> None:
    """Refuse an input of which a finished block has changed since it was read; the first time, record signatures."""
    stage, now = job.first_read, _signatures(job)
    before = recorded(stage)
    if before == now:
        return
    if before is not None:
        finished, n = set(range(stage.n_blocks)) - set(stage.missing()), stage.n_blocks
        again = [b for b in sorted(finished) if any(now[name][b] != before.get(name, [""] * n)[b] for name in now)]
        found = collect(_changed, job, len(again), client, on_progress, (again,), name=f"{stage.name}/inputs")
        for block, name in zip(again, found, strict=True):
            if name:
                raise changed(stage, name, *job.rows_read(block))
    record(stage, now)


def confirm_files(stage: Blocks, paths: Sequence[str], *, begin: bool) -> None:
    """Refuse recordings that have changed since the stage began to read them; record signatures if it begins now."""
    now, before = {path: _file_signature(path) for path in paths}, recorded(stage)
    if before is None:
        if begin:
            record(stage, now)
        return
    for path in paths:
        if now[path] != before.get(path, now[path]):
            raise DataError(
                f"{path} has changed since stage {stage.name!r} of {stage.address} began to read it; views of both "
                "would be mixed. Restore it as it was, or ingest again: into another store, or dlcca run --from ingest."
            )


def _file_signature(path: str) -> str:
    """What changes when a recording is written again: a file, or a folder or prefix of Zarr; "" for others."""
    if is_remote(path) or os.path.isdir(path):
        return digest_of_facts([f"{name} {about}" for name, about in sorted(signatures(path).items())])
    try:
        about = os.stat(path)
    except OSError:  # a recording that is not a file
        return ""
    return f"{about.st_size} {about.st_mtime_ns}"


def changed(stage: Blocks, view: str, first: int, last: int) -> DataError:
    """The error for a block of a view that is not what was read before."""
    remedy = "dlcca run --from scan" if stage.name == "scan" else "into another store"
    return DataError(
        f"view {view!r} has changed in rows {first} to {last - 1} since stage {stage.name!r} of {stage.address} read "
        f"it; results of both would be mixed. Restore it as it was, or begin again: {remedy}."
    )


def recorded(stage: Blocks) -> dict[str, Any] | None:
    """The recorded signatures of the input; None if there are none."""
    found, what = files_at(stage.address).get(f"{stage.folder}/{FILE}"), f"{FILE} of stage {stage.name!r}"
    return None if found is None else open_record(found, f"{what} in {stage.address}", stage.name)


def record(stage: Blocks, content: Mapping[str, Any]) -> None:
    lock.confirm(stage.address)
    files_at(stage.address).put(f"{stage.folder}/{FILE}", sealed(content))


def _signatures(job: Any) -> dict[str, list[str]]:
    """For each view, the signature of the chunks of every block."""
    rows = [job.rows_read(block) for block in range(job.first_read.n_blocks)]
    made = {}
    for name, source in job.present.items():
        array, bounds = source.open(), rows
        if isinstance(array, ViewArray):
            bounds, array = [array.windows(*some) for some in rows], array.array
        made[name] = block_signatures(array, signatures(source.place), bounds)
    return made


def _changed(job: Any, number: int, blocks: Sequence[int]) -> str:
    """The first view of a block that is not what was read before; "" if none has changed."""
    block = blocks[number]
    rows = slice(*job.rows_read(block))
    views = [np.asarray(source.read(rows), dtype=job.dtype) for source in job.present.values()]
    known, now = job.first_read.facts(block)[CHECKSUMS], checksums(views)[CHECKSUMS]
    return next((name for v, name in enumerate(job.present) if known[v] != now[v]), "")


def damages(stage: Blocks, *, whole: bool) -> list[str]:
    """What is wrong with the recorded signatures of a stage; if it is ``whole``, they must be there."""
    try:
        found = recorded(stage)
    except DamagedBlock as error:
        return [str(error)]
    if found is None and whole and stage.name in FIRST:
        return [f"{FILE} of stage {stage.name!r} in {stage.address} is missing. Run again."]
    return []
