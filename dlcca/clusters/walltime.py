"""When a worker has to go, so that its job is over before the queue ends it."""

from __future__ import annotations

from dataclasses import dataclass

#: At the end of a job, for workers to hand over what they hold; at its start, for Python to come up.
GRACE_S = (60.0, 300.0)
STAGGER_S = 300.0


@dataclass(frozen=True)
class Lifetime:
    """Workers leave at seconds ``lifetime ± stagger``, each at a moment of its own, so that not all go at once."""

    lifetime_s: int
    stagger_s: int


def lifetime_of(walltime_min: float) -> Lifetime:
    """The latest worker leaves a grace before the walltime: a tenth of it, within a minute and five.

    With w the walltime, g the grace and s the stagger, workers leave in [w - g - 2 s, w - g].
    """
    walltime = 60 * walltime_min
    grace = min(max(walltime / 10, GRACE_S[0]), GRACE_S[1])
    stagger = min((walltime - grace) / 10, STAGGER_S)
    return Lifetime(int(walltime - grace - stagger), int(stagger))


def clock(walltime_min: float) -> str:
    """HH:MM:SS, as most queues want it."""
    seconds = round(60 * walltime_min)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def hours(walltime_min: float) -> str:
    """HH:MM, as LSF wants it."""
    minutes = int(walltime_min)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
