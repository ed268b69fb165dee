"""Keeps the requested number of jobs: finds those that ended or were cancelled, and has them replaced.

Neither `scale` nor `adapt` of Dask does: both count a cancelled job as one that is still pending. So the queue itself
is queried every few seconds for our jobs, with one command and one parser for each kind of queue. SLURM is run in the
tests; the output of the others is parsed as their manuals show it.
"""

import getpass
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dlcca.clusters.dask_config import Say
from dlcca.clusters.profile import Queue
from dlcca.errors import ClusterError

#: Between two queries of the queue; more would be a burden on it.
EVERY_S = 10.0
#: While waiting for the first worker.
FIRST_EVERY_S = 2.0
#: A running job without workers for this long has lost its network, or hangs.
SILENT_S = 120.0
#: The first and the longest pause before a refused job is submitted again, while others run; each is twice the last.
ASK_AGAIN_S = (60.0, 600.0)
KEPT = "What was finished is kept: run the same command again to go on."
ALL_LOST = f"all workers are gone, and if_all_lost = 'stop'. {KEPT}"


class JobMonitor:
    """Monitors the jobs of a cluster in a thread, until the end of the block."""

    def __init__(self, cluster: Any, client: Any, profile: Queue, reader: "Reader", say: Say) -> None:
        self.cluster, self.client, self.profile, self.reader, self.say = cluster, client, profile, reader, say
        self.failure: str | None = None
        self.replaced = 0
        self._failures = 0  # jobs in a row that ended without a worker
        self._missed: set[str] = set()  # jobs that were not in the queue at the last query
        self._served: set[str] = set()  # jobs that have had a worker
        self._silent_since: dict[str, float] = {}
        self._alone_since: float | None = None  # since when there has been no worker at all
        self._ask_again_at: float | None = None  # when a refused job is submitted again
        self._pause_s = ASK_AGAIN_S[0]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dlcca-jobs", daemon=True)

    def __enter__(self) -> Self:
        if self.profile.is_adaptive:
            self.cluster.adapt(minimum=self.profile.fewest, maximum=self.profile.most)
        else:
            self.cluster.scale(jobs=self.profile.jobs(self.profile.fewest))
        start = time.monotonic()
        while self.profile.fewest and not self._over.wait(FIRST_EVERY_S):  # for the first worker
            if self._workers():
                self._note_served()  # it may be gone before the next query
                break
            self._query()
            if self.failure is None and time.monotonic() - start > 60 * self.profile.start_wait_min:
                self.failure = self._never_started()
            if self.failure is not None:
                raise ClusterError(self.failure)
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=QUEUE_TIMEOUT_S + 5)
        if self.failure is not None and error is not None:
            raise ClusterError(self.failure) from error

    def _never_started(self) -> str:
        return (
            f"no worker came within start_wait_min = {self.profile.start_wait_min:g} minutes. "
            f"{reasons(self.reader, self._numbers().values())} Nothing is lost: run again when the queue is "
            "shorter, request less (cores, memory_gib, walltime_min), or wait longer (start_wait_min)."
        )

    # The thread.

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            try:
                self._check_workers()  # first, so that nothing is replaced if the profile says to stop
                if self.failure is None:
                    self._query()
            except Exception as error:  # the monitor must go on; errors at the end of the run do not matter
                if not self._over.is_set():
                    self.say(f"the jobs could not be checked this time: {type(error).__name__}: {error}")
            if self.failure is not None:
                with suppress(Exception):  # the failure is reported in any case
                    self.client.close(timeout=5)  # callers that wait for results get an error at once
                return

    def _query(self) -> None:
        """Query the queue once: drop jobs that are gone, count them, and have them replaced."""
        known = states(self.reader)
        working = self._note_served()
        dead = self._refused()
        if known is not None:
            gone = {name for name, number in self._numbers().items() if number not in known}
            dead |= gone & self._missed  # twice in a row: a queue may list a new job late
            self._missed = gone - dead
            # Jobs that run, have had workers, and have had none for `SILENT_S`.
            now = time.monotonic()
            running = {name for name, n in self._numbers().items() if n in known and not known[n].waiting}
            quiet = (running & self._served) - working
            self._silent_since = {name: self._silent_since.get(name, now) for name in quiet}
            dead |= {name for name, since in self._silent_since.items() if now - since > SILENT_S}
        stops = self.profile.if_all_lost == "stop" and self.profile.fewest > 0
        all_lost = stops and bool(self._served) and dead >= {*self._jobs()}
        for name in dead:
            self._count(name)
        if all_lost and self.failure is None:  # what Dask knows may be older than the answer of the queue
            self.failure = ALL_LOST
        if dead and self.failure is None:
            self._replace(dead)

    def _refused(self) -> set[str]:
        """Refused jobs that are due to be submitted again; a failure, if the queue has no job of ours."""
        refusals = {name: job.refusal for name, job in self._jobs().items() if job.refusal is not None}
        if not refusals:
            return set()
        said = next(iter(refusals.values()))
        if not self._numbers() and not self._workers():
            self.failure = (
                f"the queue refuses the job: {said}. Change queue, account, cores, memory_gib or walltime_min in the "
                "cluster file."
            )
            return set()
        now = time.monotonic()
        if self._ask_again_at is None:
            self._ask_again_at = now + self._pause_s
            self.say(f"the queue refuses a further job: {said}. It is submitted again in {self._pause_s:.0f} s.")
        if now < self._ask_again_at:
            return set()
        self._ask_again_at, self._pause_s = None, min(2 * self._pause_s, ASK_AGAIN_S[1])
        return set(refusals)

    def _note_served(self) -> set[str]:
        """Jobs that have a worker now."""
        names = {str(worker["name"]) for worker in self._workers().values()}
        now = {name for name in self._jobs() if any(n == name or n.startswith(f"{name}-") for n in names)}
        if now - self._served:
            self._failures, self._pause_s = 0, ASK_AGAIN_S[0]
        self._served |= now
        return now

    def _count(self, name: str) -> None:
        """Count a job that is gone if it never had a worker; too many in a row are a failure."""
        number = self._numbers().get(name)
        if name in self._served or number is None:
            self._served.discard(name)
            return
        self._failures += 1
        if self._failures >= self.profile.max_failures:
            self.failure = (
                f"{self._failures} jobs in a row ended without a worker, the last one {number}; "
                f"{self._last_words(number)} Try setup and python of the cluster file by hand in a job of your own, "
                "and whether nodes can reach this machine (interface)."
            )

    def _last_words(self, number: str) -> str:
        """The end of the log of a job."""
        folder = Path(self.profile.shared).expanduser() / "logs"
        for file in sorted(folder.glob(f"*{number}*")):
            lines = [line.strip() for line in file.read_text(errors="replace").splitlines() if line.strip()]
            if lines:
                return f"its log {file} ends with: {' / '.join(lines[-3:])[-500:]}."
        return f"it left no log in {folder}."

    def _replace(self, dead: set[str]) -> None:
        numbers = [self._numbers()[name] for name in sorted(dead) if name in self._numbers()]
        self.cluster.sync(self.cluster.scale_down, dead)
        if numbers:
            self.replaced += len(numbers)
            jobs = f"job {numbers[0]} is" if len(numbers) == 1 else f"jobs {', '.join(numbers)} are"
            self.say(f"{jobs} gone; {len(numbers)} submitted instead, {self.replaced} in all so far.")
        if not self.profile.is_adaptive:  # an adaptive cluster replaces them by itself
            self.cluster.scale(jobs=self.profile.jobs(self.profile.fewest))

    def _check_workers(self) -> None:
        """Stop if there is no worker and the profile says so; an adaptive cluster may need none."""
        if self._workers() or not self._jobs():
            self._alone_since = None
            return
        now = time.monotonic()
        is_news = self._alone_since is None
        self._alone_since = self._alone_since or now
        waited = now - self._alone_since > 60 * self.profile.start_wait_min
        if not (self._served or self.replaced):
            self.failure = self._never_started() if waited else None
        elif self.profile.if_all_lost == "stop":
            # An adaptive cluster without a minimum has no worker for a moment when the last one is released.
            if self.profile.fewest or not is_news:
                self.failure = ALL_LOST
        elif waited:
            self.failure = (
                f"all workers are gone, and none came for {self.profile.start_wait_min:g} minutes (start_wait_min). "
                f"{reasons(self.reader, self._numbers().values())} {KEPT}"
            )

    # Jobs and workers by Dask.

    def _jobs(self) -> dict[str, Any]:
        return {str(name): job for name, job in dict(self.cluster.workers).items()}

    def _numbers(self) -> dict[str, str]:
        """Numbers of jobs by their names in Dask."""
        return {name: str(job.job_id) for name, job in self._jobs().items() if job.job_id is not None}

    def _workers(self) -> dict[str, Any]:
        return dict(self.cluster.scheduler_info.get("workers", {}))


#: For a query of the queue.
QUEUE_TIMEOUT_S = 30


@dataclass(frozen=True)
class State:
    """The state of a job, as the queue reports it."""

    word: str
    reason: str = ""
    waiting: bool = False

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word


#: States by job number, without jobs that have ended.
States = dict[str, State]


@dataclass(frozen=True)
class Reader:
    """The command that lists the jobs of a user, and the parser of its output."""

    command: tuple[str, ...]
    read: Callable[[str], States]
    why: tuple[str, ...] = ()
    """A command that shows why one job is pending, where the list does not."""


def _columns(answer: str, separator: str | None) -> list[tuple[str, str, str]]:
    """Number, state and reason of each job, from lines of columns; "" where there is none."""
    lines = ((*line.strip().split(separator, 2), "", "", "")[:3] for line in answer.splitlines())
    nothing = ("None", "-", "undefined")
    return [(number, word, "" if reason in nothing else reason) for number, word, reason in lines if word]


def _states(jobs: Iterable[tuple[str, str, str]], over: str, waiting: str) -> States:
    """States by number, state and reason of each job, without those whose state means that they have ended."""
    alive = (job for job in jobs if job[1] not in over.split())
    return {number: State(word, reason, word in waiting.split()) for number, word, reason in alive}


def of_slurm(answer: str) -> States:
    """Lines of ``squeue -h -o "%i|%T|%r"``."""
    over = "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL OUT_OF_MEMORY"
    return _states(_columns(answer, "|"), over, waiting="PENDING")


def of_pbs(answer: str) -> States:
    """The records of ``qstat -f``; a long value goes on after a tab."""
    jobs = []
    for record in re.split(r"^Job Id:\s*", answer.replace("\n\t", ""), flags=re.MULTILINE)[1:]:
        number = record.split("\n", 1)[0].strip().split(".")[0]
        facts = dict(re.findall(r"^\s+(\w+) = (.*)$", record, flags=re.MULTILINE))
        jobs.append((number, facts.get("job_state", "?"), facts.get("comment", "").strip()))
    return _states(jobs, over="F C X", waiting="Q H W T")


def of_lsf(answer: str) -> States:
    """Lines of ``bjobs -noheader -o "jobid stat pend_reason delimiter='|'"``."""
    jobs = (job for job in _columns(answer, "|") if job[0].isdigit())
    return _states(jobs, over="DONE EXIT ZOMBI", waiting="PEND PSUSP WAIT")


def of_sge(answer: str) -> States:
    """The table of ``qstat -u USER``; its fifth column is the state."""
    rows = [columns for line in answer.splitlines() if len(columns := line.split()) > 4]
    return {number: State(word, waiting="q" in word) for number, _, _, _, word, *_ in rows if number.isdigit()}


def of_oar(answer: str) -> States:
    """The document of ``oarstat -J``."""
    found = json.loads(answer) if answer.strip() else {}
    jobs = ((number, job["state"], job.get("message") or "") for number, job in found.items())
    return _states(jobs, over="Terminated Error", waiting="Waiting Hold toLaunch")


CONDOR = {"1": "Idle", "2": "Running", "5": "Held", "6": "Transferring", "7": "Suspended"}


def of_htcondor(answer: str) -> States:
    """Lines of ``condor_q -af:j JobStatus HoldReason``."""
    jobs = _columns(answer, None)
    return {number: State(CONDOR[word], reason, word in ("1", "5")) for number, word, reason in jobs if word in CONDOR}


def reader_of(kind: str) -> Reader:
    """The reader for a kind of queue."""
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
    """The states of our jobs; None if the queue does not answer, which is not an error."""
    answer = _output(reader.command)
    if answer is None:
        return None
    try:
        return reader.read(answer)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def reasons(reader: Reader, jobs: Iterable[str]) -> str:
    """Why jobs do not run, as the queue reports it, for a message."""
    known = states(reader)
    if known is None:
        return f"The queue does not answer ({reader.command[0]})."
    lines = []
    for job in jobs:
        state = known.get(job)
        said = "no longer in the queue" if state is None else str(state)
        if state is not None and not state.reason and reader.why:
            why = re.search(r"scheduling info:\s*(.*)", _output((*reader.why, job)) or "")
            said += f" ({why[1].strip()})" if why else ""
        lines.append(f"job {job}: {said}")
    return "The queue says: " + ("; ".join(lines) if lines else "no job of this run") + "."


def _output(command: tuple[str, ...]) -> str | None:
    """The output of a command; None if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUEUE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    nothing = "No unfinished job found" in done.stderr  # the message of LSF for an empty list; it is not an error
    return done.stdout if done.returncode == 0 or nothing else None
