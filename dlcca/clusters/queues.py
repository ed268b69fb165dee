"""What a queue says of its jobs: one command and one reader of its output for each kind of queue.

SLURM is run in the tests. The others are read as their manuals print them.
"""

from __future__ import annotations

import getpass
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: A queue that has not answered by then is taken as one that cannot tell.
PATIENCE_S = 30


@dataclass(frozen=True)
class State:
    """How a job is, in the queue's own words."""

    word: str
    reason: str = ""
    waiting: bool = False

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word


#: Job numbers and how each is; a job that is over is not among them.
States = dict[str, State]


@dataclass(frozen=True)
class Reader:
    """How the jobs of a user are asked for, and how the answer is read."""

    command: tuple[str, ...]
    read: Callable[[str], States]
    why: tuple[str, ...] = ()
    """A command that says why one job waits, where the list does not."""


def of_slurm(answer: str) -> States:
    """Lines of ``squeue -h -o "%i|%T|%r"``."""
    found = {}
    for line in answer.splitlines():
        number, word, reason = (*line.strip().split("|", 2), "", "")[:3]
        if word and word not in ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"):
            found[number] = State(word, "" if reason == "None" else reason, word == "PENDING")
    return found


def of_pbs(answer: str) -> States:
    """The records of ``qstat -f``; a long value goes on after a tab."""
    found = {}
    for record in re.split(r"^Job Id:\s*", answer.replace("\n\t", ""), flags=re.MULTILINE)[1:]:
        number = record.split("\n", 1)[0].strip().split(".")[0]
        facts = dict(re.findall(r"^\s+(\w+) = (.*)$", record, flags=re.MULTILINE))
        word = facts.get("job_state", "?")
        if word not in ("F", "C", "X"):
            found[number] = State(word, facts.get("comment", "").strip(), word in ("Q", "H", "W", "T"))
    return found


def of_lsf(answer: str) -> States:
    """Lines of ``bjobs -noheader -o "jobid stat pend_reason delimiter='|'"``."""
    found = {}
    for line in answer.splitlines():
        number, word, reason = (*line.strip().split("|", 2), "", "")[:3]
        if number.isdigit() and word not in ("DONE", "EXIT", "ZOMBI"):
            found[number] = State(word, "" if reason == "-" else reason, word in ("PEND", "PSUSP", "WAIT"))
    return found


def of_sge(answer: str) -> States:
    """The table of ``qstat -u USER``; its fifth column is the state."""
    found = {}
    for line in answer.splitlines():
        columns = line.split()
        if len(columns) > 4 and columns[0].isdigit():
            found[columns[0]] = State(columns[4], waiting="q" in columns[4])
    return found


def of_oar(answer: str) -> States:
    """The document of ``oarstat -J``."""
    over = ("Terminated", "Error")
    jobs = json.loads(answer) if answer.strip() else {}
    return {
        number: State(job["state"], job.get("message") or "", job["state"] in ("Waiting", "Hold", "toLaunch"))
        for number, job in jobs.items()
        if job.get("state") not in over
    }


CONDOR = {"1": "Idle", "2": "Running", "5": "Held", "6": "Transferring", "7": "Suspended"}


def of_htcondor(answer: str) -> States:
    """Lines of ``condor_q -af:j JobStatus HoldReason``."""
    found = {}
    for line in answer.splitlines():
        number, word, reason = (*line.strip().split(None, 2), "", "")[:3]
        if word in CONDOR:
            found[number] = State(CONDOR[word], "" if reason == "undefined" else reason, word in ("1", "5"))
    return found


def reader_of(kind: str) -> Reader:
    """How the queue of a kind is asked about our jobs."""
    user = getpass.getuser()
    readers = {
        "slurm": Reader(("squeue", "-h", "-u", user, "-o", "%i|%T|%r"), of_slurm),
        "pbs": Reader(("qstat", "-f"), of_pbs),
        "lsf": Reader(("bjobs", "-noheader", "-o", "jobid stat pend_reason delimiter='|'"), of_lsf),
        "sge": Reader(("qstat", "-u", user), of_sge, why=("qstat", "-j")),
        "oar": Reader(("oarstat", "-u", user, "-J"), of_oar),
        "htcondor": Reader(("condor_q", user, "-af:j", "JobStatus", "HoldReason"), of_htcondor),
    }
    return readers[kind]


def states(reader: Reader) -> States | None:
    """How our jobs are now; None if the queue does not tell, from which nothing follows."""
    answer = _asked(reader.command)
    if answer is None:
        return None
    try:
        return reader.read(answer)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def reasons(reader: Reader, jobs: Iterable[str]) -> str:
    """Why jobs do not run, in the queue's own words, for a message."""
    known = states(reader)
    if known is None:
        return f"The queue does not answer ({reader.command[0]})."
    told = []
    for job in jobs:
        state = known.get(job)
        said = "no longer in the queue" if state is None else str(state)
        if state is not None and not state.reason and reader.why:
            said += _scheduling(_asked((*reader.why, job)) or "")
        told.append(f"job {job}: {said}")
    return "The queue says: " + ("; ".join(told) if told else "no job of this run") + "."


def _scheduling(answer: str) -> str:
    """What SGE says of a job that waits."""
    match = re.search(r"scheduling info:\s*(.*)", answer)
    return f" ({match.group(1).strip()})" if match else ""


def _asked(command: tuple[str, ...]) -> str | None:
    """What a command prints; None if it is not there, fails or takes too long."""
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    nothing = "No unfinished job found" in asked.stderr  # how LSF says that there is none; it is not an error
    return asked.stdout if asked.returncode == 0 or nothing else None
