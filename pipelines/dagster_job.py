"""A night of a pipeline as a job of Dagster with a schedule, which only calls the command line.

Start it with `dagster dev -f dagster_job.py`, with DLCCA_PIPELINE (the path of pipeline.toml) and, where the work is
for a cluster, DLCCA_CLUSTER (a cluster file) in the environment. `dlcca` must be on the PATH.
"""

import os
import subprocess

import dagster as dg

#: Storage or cluster failed: the same command again goes on from there. No other code is better for a second try.
AGAIN = 4


@dg.op
def night(context: dg.OpExecutionContext) -> None:
    """Embed what is new, publish it, check for drift, refit if due."""
    command = ["dlcca", "pipeline", "run", os.environ["DLCCA_PIPELINE"]]
    if os.environ.get("DLCCA_CLUSTER"):
        command += ["--cluster", os.environ["DLCCA_CLUSTER"]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    context.log.info(done.stdout)
    if done.returncode == AGAIN:
        raise dg.RetryRequested(max_retries=3, seconds_to_wait=600)
    if done.returncode:
        raise dg.Failure(f"exit code {done.returncode}: {done.stdout}", allow_retries=False)


@dg.job
def dlcca_night() -> None:
    night()


definitions = dg.Definitions(
    jobs=[dlcca_night],
    schedules=[dg.ScheduleDefinition(job=dlcca_night, cron_schedule="30 2 * * *", execution_timezone="UTC")],
)
