"""What a run will take, by arithmetic, before anything runs: tasks, bytes, operations, memory and time.

Each stage is counted: operations, bytes, tasks, and what a task holds. Counts become seconds by guessed speeds of one
worker; a `StageRate`, measured on few rows, corrects the guess for one stage on one machine:

    seconds of a task    = task_factor * what any task of the stage costs + factor * what its rows cost
    memory of a worker   = rest_bytes + extra_bytes + counted bytes of its task
    wall time of a stage = client_s + tasks * client_task_s + opening_s + rounds * seconds of a task

with ``rounds`` the number of tasks that the busiest worker does, one after another.
"""

from dlcca.engine.planning.corrections import BASE_BYTES, Rates, StageRate
from dlcca.engine.planning.limits import refuse_too_large
from dlcca.engine.planning.plan import Plan, plan
from dlcca.engine.planning.sizes import Sizes
from dlcca.engine.planning.stage import FILE_SELECTIONS, TASK_S, StagePlan, repeated

__all__ = [
    "BASE_BYTES",
    "FILE_SELECTIONS",
    "TASK_S",
    "Plan",
    "Rates",
    "Sizes",
    "StagePlan",
    "StageRate",
    "plan",
    "refuse_too_large",
    "repeated",
]
