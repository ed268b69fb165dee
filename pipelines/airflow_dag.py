"""A night of a pipeline as a DAG of Airflow 3, which only calls the command line.

Put it where Airflow looks for DAGs, and set for its workers DLCCA_PIPELINE (the path of pipeline.toml) and, where the
work is for a cluster, DLCCA_CLUSTER (a cluster file). `dlcca` must be on their PATH.
"""

import os
import subprocess
from datetime import timedelta

import pendulum
from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

#: Storage or cluster failed: the same command again goes on from there. No other code is better for a second try.
AGAIN = 4


@dag(
    schedule="30 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,  # a night does all that is missing, so that nights that were left out need not be made up for
    max_active_runs=1,
    tags=["dlcca"],
)
def dlcca_night():
    """Embed what is new, publish it, check for drift, refit if due."""

    @task(retries=3, retry_delay=timedelta(minutes=10))
    def run() -> None:
        """One night. A recording that was refused (3) or is not to be trusted (5) fails the task at once."""
        command = ["dlcca", "pipeline", "run", os.environ["DLCCA_PIPELINE"]]
        if os.environ.get("DLCCA_CLUSTER"):
            command += ["--cluster", os.environ["DLCCA_CLUSTER"]]
        code = subprocess.run(command, check=False).returncode  # what it says goes to the log of the task
        if code == AGAIN:
            raise AirflowException("storage or cluster failed; the next try goes on")
        if code:
            raise AirflowFailException(f"dlcca pipeline run ended with exit code {code}; its reasons are above")

    run()


dlcca_night()
