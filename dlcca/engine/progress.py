"""How far the stages in a store are, and what their finished blocks cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlcca.storage.blocks import Blocks
from dlcca.storage.manifest import known_stage


@dataclass(frozen=True)
class Progress:
    """How far a stage is."""

    name: str
    done: int
    blocks: int
    seconds: float  # of all finished blocks, on the workers
    peak_bytes: int  # the largest memory of a worker


def stages_on_disk(store: str, names: Sequence[str]) -> list[Blocks]:
    """Those of some stages that have been begun; an error if the record of one is damaged."""
    known = {name: known_stage(store, name) for name in names}
    return [Blocks(store, name, k["fingerprint"], k["n_blocks"]) for name, k in known.items() if k is not None]


def progress_of(stages: Iterable[Blocks]) -> list[Progress]:
    """Finished blocks and cost of each stage."""
    found = []
    for stage in stages:
        cost, done = stage.cost(), stage.n_blocks - len(stage.missing())
        found.append(Progress(stage.name, done, stage.n_blocks, cost["seconds"], cost["peak_bytes"]))
    return found
