"""How far a store of views is, and whether what is finished of it is intact."""

from __future__ import annotations

import json

from dlcca.errors import DamagedBlock
from dlcca.stages.running import Progress
from dlcca.stores import views
from dlcca.stores.blocks import Stage
from dlcca.stores.files import files_at

#: In the order in which they are done.
ON_DISK = ("drafts", "clock", "pca", "views")


def begun(address: str) -> list[Stage]:
    """The stages of an ingestion that have been begun, as they are on disk; none if there is no store of views."""
    files = files_at(address)
    if files.get("stages/drafts/stage.json") is None:
        return []
    found = []
    for name in ON_DISK:
        content = files.get(f"stages/{name}/stage.json")
        if content is not None:
            known = json.loads(content)
            found.append(Stage(address, name, known["fingerprint"], known["n_blocks"]))
    return found


def progress(address: str) -> list[Progress]:
    """The stages that have been begun, each with its finished blocks."""
    made = []
    for stage in begun(address):
        cost, done = stage.cost(), stage.n_blocks - len(stage.missing())
        made.append(Progress(stage.name, done, stage.n_blocks, cost["seconds"], cost["peak_bytes"]))
    return made


def damages(address: str) -> list[str]:
    """What is wrong with the finished blocks of a store of views, a line each; every array is read."""
    finished = views.is_views(address)
    problems = []
    for stage in begun(address):
        missing = set(stage.missing())
        if finished and missing:
            problems.append(f"{len(missing)} blocks of stage {stage.name!r} in {address} are missing. Ingest again.")
        for block in (block for block in range(stage.n_blocks) if block not in missing):
            problems += _damages(stage, block, finished)
    return problems


def _damages(stage: Stage, block: int, finished: bool) -> list[str]:
    problems = []
    try:
        arrays = stage.parts(block)
    except DamagedBlock as error:
        return [str(error)]
    for array in arrays:
        if finished and array.startswith("draft_"):
            continue  # removed when the views had been made of them
        try:
            stage.read(array, block)
        except DamagedBlock as error:
            problems.append(str(error))
    return problems
