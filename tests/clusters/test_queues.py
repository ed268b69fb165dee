"""What queues print about jobs, as their manuals show it, and what is read from it."""

import sys

import pytest

from dlcca.clusters import job_monitor as queues
from dlcca.clusters.job_monitor import Reader, State

SLURM = "12|RUNNING|None\n13|PENDING|Resources\n14|PENDING|(ReqNodeNotAvail, UnavailableNodes:n1)\n15|COMPLETING|None\n"
PBS = """Job Id: 21.pbs-server
    Job_Name = dlcca-worker
    job_state = R
    comment = Job run at Mon Nov 16 at 06:00
Job Id: 22.pbs-server
    Job_Name = dlcca-worker
    job_state = Q
    comment = Not Running: Insufficient amount of resource: ncpus (R: 64 A: 8 T
\t: 128)
    Variable_List = PBS_O_HOME=/home/me,
\tjob_state = F
Job Id: 23.pbs-server
    job_state = F
"""
LSF = "31|RUN|-\n32|PEND|New job is waiting for scheduling;\n33|EXIT|-\n"
SGE = """job-ID  prior   name       user         state submit/start at     queue           slots ja-task-ID
-----------------------------------------------------------------------------------------------------------
     41 0.55500 dlcca-work me           r     11/16/2026 06:00:00 all.q@node1         4
     42 0.00000 dlcca-work me           qw    11/16/2026 06:00:01                     4
     43 0.00000 dlcca-work me           Eqw   11/16/2026 06:00:01                     4
"""
OAR = """{"51": {"state": "Running", "message": "R=4,W=1:0:0"}, "52": {"state": "Waiting", "message": "no free core"},
"53": {"state": "Terminated", "message": ""}}"""
CONDOR = "61.0 2 undefined\n62.0 1 undefined\n63.0 5 Error from slot1: cannot execute\n64.0 4 undefined\n"


@pytest.mark.parametrize(
    ("read", "answer", "running", "waiting"),
    [
        (
            queues.of_slurm,
            SLURM,
            {"12", "15"},
            {"13": "Resources", "14": "(ReqNodeNotAvail, UnavailableNodes:n1)"},
        ),
        (
            queues.of_pbs,
            PBS,
            {"21"},
            {"22": "Not Running: Insufficient amount of resource: ncpus (R: 64 A: 8 T: 128)"},
        ),
        (queues.of_lsf, LSF, {"31"}, {"32": "New job is waiting for scheduling;"}),
        (queues.of_sge, SGE, {"41"}, {"42": "", "43": ""}),
        (queues.of_oar, OAR, {"51"}, {"52": "no free core"}),
        (queues.of_htcondor, CONDOR, {"61.0"}, {"62.0": "", "63.0": "Error from slot1: cannot execute"}),
    ],
    ids=["slurm", "pbs", "lsf", "sge", "oar", "htcondor"],
)
def test_jobs_that_run_wait_or_are_over_are_told_apart(read, answer, running, waiting):
    states = read(answer)
    assert {job for job, state in states.items() if not state.waiting} == running
    assert {job: state.reason for job, state in states.items() if state.waiting} == waiting


@pytest.mark.parametrize("kind", ["slurm", "pbs", "lsf", "sge", "oar", "htcondor"])
def test_an_empty_queue_has_no_jobs(kind):
    assert queues.reader_of(kind).read("") == {}


def printing(text, code=0):
    return (sys.executable, "-c", f"import sys; print({text!r}, end=''); sys.exit({code})")


def test_a_queue_that_fails_or_is_not_there_tells_nothing():
    assert queues.states(Reader(printing("12|RUNNING|None", code=1), queues.of_slurm)) is None
    assert queues.states(Reader(("no-such-command-here",), queues.of_slurm)) is None
    assert queues.states(Reader(printing("{"), queues.of_oar)) is None


def test_reasons_are_told_in_the_words_of_the_queue():
    reader = Reader(printing("12|PENDING|Resources"), queues.of_slurm)
    assert queues.reasons(reader, ["12", "99"]) == (
        "The queue says: job 12: PENDING (Resources); job 99: no longer in the queue."
    )
    assert queues.reasons(Reader(("no-such-command-here",), queues.of_slurm), ["1"]) == (
        "The queue does not answer (no-such-command-here)."
    )


def test_sge_is_asked_once_more_why_a_job_waits():
    why = printing("==========\nscheduling info:            queue instance all.q is full\n")
    reader = Reader(printing(SGE), queues.of_sge, why=why)
    assert "job 42: qw (queue instance all.q is full)" in queues.reasons(reader, ["42"])
    assert str(State("qw")) == "qw"
