"""What a run is expected to take: by rates that were measured here, or by guesses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


def kept_rates(job: Any, file: Path | None = None) -> tuple[Any, str]:
    """Rates that were measured before, and where they come from, in words; None and a reason if there are none.

    ``file`` is where they were said to be: if they are not, that is an error.
    """
    from dlcca.errors import SettingsError
    from dlcca.fitting import rate_file

    place = file or rate_file.usual_place(job)
    if file is None and not place.exists():
        return None, "a guess: run with --calibrate to measure this machine"
    try:
        found = rate_file.read(place)
        rate_file.refuse_other(found, job, place)
    except SettingsError as error:
        if file is not None:
            raise
        return None, f"a guess: {error}"
    return found.rates, found.sentence()


@dataclass(frozen=True)
class Foreseen:
    """What a job will take, on however many workers."""

    job: Any
    rates: Any
    said: str  # where the rates come from

    def stage_seconds(self, workers: int = 1) -> dict[str, float]:
        """Seconds of each stage."""
        made = self._plan(workers)
        return {stage.name: made.seconds_of(stage) for stage in made.stages}

    def note(self, log: Any, workers: int) -> None:
        """Write it into the log of the run, so that the report can hold it against what it took."""
        made = self._plan(workers)
        stages = {
            stage.name: {"seconds": round(made.seconds_of(stage), 3), "memory": round(made.memory_of(stage))}
            for stage in made.stages
        }
        log.note("planned", seconds=round(made.seconds, 3), rates=self.said, workers=workers, stages=stages)

    def refuse_too_large(self, memory_bytes: float) -> None:
        """An error, with the setting to change, if a task needs more memory than a worker has."""
        from dlcca.fitting import planning

        planning.refuse_too_large(planning.plan(self.job, 1), memory_bytes)

    def _plan(self, workers: int) -> Any:
        from dlcca.fitting import planning

        return planning.plan(self.job, workers, self.rates)


def foreseen(job: Any) -> Foreseen:
    """What a job will take, by the rates that are kept, or by guesses."""
    rates, said = kept_rates(job)
    return Foreseen(job, rates, "a guess" if rates is None else said)


def workers_of(profile: Any, client: Any) -> int:
    """How many workers a run may count on: as many as were asked for, or as many as there are."""
    asked = getattr(profile, "workers", None) or getattr(profile, "max_workers", None)
    return int(asked or len(client.nthreads()) or 1)
