"""What every step is given: the settings, the catalog, the time, and workers where they are worth it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dlcca.pipelines import folders
from dlcca.pipelines import settings as settings_file
from dlcca.pipelines.catalog import Catalog, iso, refuse_other_state
from dlcca.pipelines.settings import PipelineSettings
from dlcca.storage import places

#: So few blocks are done before a cluster would have started.
FEW_BLOCKS = 8

Say = Callable[[str], None]


def _silent(text: str) -> None:
    """Nobody listens."""


class Workers:
    """A Dask client, started when the first work comes that is worth one, and ended with the block."""

    def __init__(self, cluster: str | None, workers: int | None, memory_gib: float | None, say: Say = _silent) -> None:
        self._where = cluster, workers, memory_gib
        self._say, self._stack = say, ExitStack()
        self._client: Any = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def client(self, blocks: int) -> Any:
        """A client for so many blocks; None where this process does as well."""
        cluster, workers, memory_gib = self._where
        if self._client is None and (cluster is not None or (workers != 1 and blocks > FEW_BLOCKS)):
            from dlcca.clusters import client_for

            self._client = self._stack.enter_context(client_for(cluster, workers, memory_gib, self._say))
        return self._client


@dataclass
class Pipeline:
    """One flow, at work."""

    settings: PipelineSettings
    catalog: Catalog
    workers: Workers
    run: int | None = None  # its number in the catalog
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    say: Say = _silent

    @property
    def now(self) -> datetime:
        return self.clock()

    @property
    def state(self) -> Path:
        return self.settings.state

    def note(
        self, kind: str, text: str, *, recording: int | None = None, path: str | None = None, day: str | None = None
    ) -> None:
        """A line of the history."""
        line = {"run": self.run, "at": iso(self.now), "kind": kind, "text": text}
        self.catalog.insert("history", {**line, "recording": recording, "path": path, "day": day})
        self.say(text)

    def recording(self, number: int) -> dict[str, Any]:
        """A recording by its number."""
        found = self.catalog.one("SELECT * FROM recordings WHERE id = ?", [number])
        assert found is not None, number
        return folders.row_located(self.settings, found)

    def current_model(self) -> dict[str, Any] | None:
        """The model in use; None before the first fit. Its measures are no longer text."""
        found = self.catalog.one("SELECT * FROM models WHERE status = 'current'")
        if found is None:
            return None
        return {**folders.row_located(self.settings, found), "measures": json.loads(found["measures"] or "{}")}

    @property
    def generation(self) -> int:
        """How often everything was begun anew, counted from 1: as of the model in use; if there is none, once more."""
        current = self.current_model()
        if current is not None:
            return int(current["generation"])
        query = "SELECT max(generation) FROM models WHERE status != 'fitting' AND reason IS NULL"  # NULL: was in use
        return int(self.catalog.value(query) or 0) + 1

    def later(self, folder: str, path: Path | str) -> None:
        """Somebody may still be reading what was replaced in a folder: it is removed by the retention, not now."""
        name = folders.recorded(folders.of(self.settings)[folder], path)
        self.catalog.do("INSERT OR IGNORE INTO replaced VALUES (?, ?, ?)", [folder, name, iso(self.now)])

    def remove(self, *paths: Path | str) -> None:
        """Remove files and folders of this pipeline, and never any others."""
        folders.remove(self.settings, *paths)

    def since(self, moment: str) -> timedelta:
        """How long ago; never less than 0, for clocks are set back."""
        return max(timedelta(0), self.now - datetime.fromisoformat(moment))


def refuse_occupied(asked: PipelineSettings) -> None:
    """An error if a folder that the pipeline writes to belongs to something else."""
    refuse_other_state(asked.state)
    places.refuse_folder(asked.models, setting="[model] path")
    for key, said in (("zarr", asked.outputs.zarr), ("parquet", asked.outputs.parquet)):
        if said:
            places.refuse_folder(asked.place(said), setting=f"[outputs] {key}")


@contextmanager
def opened(
    path: str | Path, cluster: str | None = None, say: Say = _silent, clock: Callable[[], datetime] | None = None
) -> Iterator[Pipeline]:
    """The flow that a pipeline file describes."""
    asked = settings_file.read(path)
    refuse_occupied(asked)
    near = asked.cluster
    with (
        Catalog(asked.state / "catalog.sqlite") as catalog,
        Workers(cluster, near.workers, near.memory_gib, say) as workers,
    ):
        made = Pipeline(asked, catalog, workers, say=say)
        if clock is not None:
            made.clock = clock
        yield made
