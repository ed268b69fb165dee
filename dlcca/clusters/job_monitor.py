"""Keeps as many jobs as are wanted: sees those that ended or were cancelled, and has others take their place.

Neither `scale` nor `adapt` of Dask does: both count a job that was cancelled as one that is still coming. So the queue
itself is asked, every few seconds, which of our jobs it still has.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlcca.clusters import queues
from dlcca.clusters.messages import Say
from dlcca.clusters.profile import Queue
from dlcca.errors import ClusterError

#: Between two looks at the queue. Site admins do not like to be asked more often.
EVERY_S = 10.0
#: While the first worker is awaited.
FIRST_EVERY_S = 2.0
#: A job that runs and whose workers have all been gone for so long has lost its network, or hangs.
SILENT_S = 120.0
#: Before a queue that refused a job is asked again, while others run; doubled each time up to the second.
ASK_AGAIN_S = (60.0, 600.0)
KEPT = "What was finished is kept: run the same command again to go on."
ALL_LOST = f"all workers are gone, and if_all_lost = 'stop'. {KEPT}"


class Keeper:
    """Watches over the jobs of a cluster from a thread of its own, for as long as its block lasts."""

    def __init__(self, cluster: Any, client: Any, profile: Queue, reader: queues.Reader, say: Say) -> None:
        self.cluster, self.client, self.profile, self.reader, self.say = cluster, client, profile, reader, say
        self.failure: str | None = None
        self.replaced = 0
        self._failures = 0  # jobs in a row that ended without a worker
        self._missed: set[str] = set()  # jobs that were not in the queue at the last look
        self._served: set[str] = set()  # jobs that have given a worker
        self._silent_since: dict[str, float] = {}
        self._alone_since: float | None = None  # since when there has been no worker at all
        self._ask_again_at: float | None = None  # when a queue that refused a job is asked again
        self._patience = ASK_AGAIN_S[0]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dlcca-keeper", daemon=True)

    def __enter__(self) -> Keeper:
        if self.profile.is_adaptive:
            self.cluster.adapt(minimum=self.profile.fewest, maximum=self.profile.most)
        else:
            self.cluster.scale(jobs=self.profile.jobs(self.profile.fewest))
        if self.profile.fewest:
            self._await_first()
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=queues.PATIENCE_S + 5)
        if self.failure is not None and error is not None:
            raise ClusterError(self.failure) from error

    # The wait for the first worker, in the caller's thread.

    def _await_first(self) -> None:
        start = time.monotonic()
        while not self._over.wait(FIRST_EVERY_S):
            if self._workers():
                self._note_served()  # it may be gone again before the next look
                return
            self._look()
            if self.failure is not None:
                raise ClusterError(self.failure)
            if time.monotonic() - start > 60 * self.profile.start_wait_min:
                raise ClusterError(self._never_started())

    def _never_started(self) -> str:
        return (
            f"no worker came within start_wait_min = {self.profile.start_wait_min:g} minutes. "
            f"{queues.reasons(self.reader, self._numbers().values())} Nothing is lost: run again when the queue is "
            "shorter, ask for less (cores, memory_gib, walltime_min), or wait longer (start_wait_min)."
        )

    # The thread.

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            try:
                self._mind_loneliness()  # first: what is lost is then not replaced where the profile says to stop
                if self.failure is None:
                    self._look()
            except Exception as error:  # the run must not lose its keeper; at the end of it, errors are of no interest
                if not self._over.is_set():
                    self.say(f"the jobs could not be looked after this time: {type(error).__name__}: {error}")
            if self.failure is not None:
                with suppress(Exception):  # the failure is told in any case
                    self.client.close(timeout=5)  # whoever waits for results is told at once
                return

    def _look(self) -> None:
        """One look at the queue: drop what is gone, have it replaced, and count."""
        known = queues.states(self.reader)
        working = self._note_served()
        dead = self._refused()
        if known is not None:
            gone = {name for name, number in self._numbers().items() if number not in known}
            dead |= gone & self._missed  # twice in a row: a queue may be slow to list what it took
            self._missed = gone - dead
            dead |= self._silent(known, working)
        stops = self.profile.if_all_lost == "stop" and self.profile.fewest > 0
        all_lost = stops and bool(self._served) and dead >= {*self._jobs()}
        for name in dead:
            self._count(name)
        if all_lost and self.failure is None:  # what Dask knows of its workers may be older than what the queue says
            self.failure = ALL_LOST
        if dead and self.failure is None:
            self._replace(dead)

    def _refused(self) -> set[str]:
        """Jobs that the queue did not take, once it is time to ask again; the end, if it has none of ours at all."""
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
            self._ask_again_at = now + self._patience
            self.say(f"the queue refuses a further job: {said}. It is asked again in {self._patience:.0f} s.")
        if now < self._ask_again_at:
            return set()
        self._ask_again_at, self._patience = None, min(2 * self._patience, ASK_AGAIN_S[1])
        return set(refusals)

    def _note_served(self) -> set[str]:
        """Jobs that have a worker now."""
        names = {str(worker["name"]) for worker in self._workers().values()}
        now = {name for name in self._jobs() if any(n == name or n.startswith(f"{name}-") for n in names)}
        if now - self._served:
            self._failures, self._patience = 0, ASK_AGAIN_S[0]
        self._served |= now
        return now

    def _silent(self, known: queues.States, working: set[str]) -> set[str]:
        """Jobs that run by the queue, have had workers, and have had none for long."""
        now = time.monotonic()
        running = {name for name, n in self._numbers().items() if n in known and not known[n].waiting}
        quiet = (running & self._served) - working
        self._silent_since = {name: self._silent_since.get(name, now) for name in quiet}
        return {name for name, since in self._silent_since.items() if now - since > SILENT_S}

    def _count(self, name: str) -> None:
        """Of a job that is gone: whether it ever served, and whether that were too many that did not."""
        number = self._numbers().get(name)
        if name in self._served or number is None:
            self._served.discard(name)
            return
        self._failures += 1
        if self._failures >= self.profile.max_failures:
            self.failure = (
                f"{self._failures} jobs in a row ended before a worker came of them, the last one {number}; "
                f"{self._last_words(number)} Try setup and python of the cluster file by hand in a job of your own, "
                "and whether nodes can reach this machine (interface)."
            )

    def _last_words(self, number: str) -> str:
        """The end of what a job wrote, if it is to be found."""
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
            self.say(f"{_jobs(numbers)} gone; {len(numbers)} asked for instead, {self.replaced} in all so far.")
        if not self.profile.is_adaptive:  # an adaptive cluster sees by itself that it has too few
            self.cluster.scale(jobs=self.profile.jobs(self.profile.fewest))

    def _mind_loneliness(self) -> None:
        """What happens when there is no worker, as the profile says; an adaptive cluster may want none."""
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
            # A cluster that may have none has none for a moment while the last one is let go.
            if self.profile.fewest or not is_news:
                self.failure = ALL_LOST
        elif waited:
            self.failure = (
                f"all workers are gone, and none came for {self.profile.start_wait_min:g} minutes (start_wait_min). "
                f"{queues.reasons(self.reader, self._numbers().values())} {KEPT}"
            )

    # What Dask knows.

    def _jobs(self) -> dict[str, Any]:
        return {str(name): job for name, job in dict(self.cluster.workers).items()}

    def _numbers(self) -> dict[str, str]:
        """Numbers of the queue by names of Dask."""
        return {name: str(job.job_id) for name, job in self._jobs().items() if job.job_id is not None}

    def _workers(self) -> dict[str, Any]:
        return dict(self.cluster.scheduler_info.get("workers", {}))


def _jobs(numbers: list[str]) -> str:
    return f"job {numbers[0]} is" if len(numbers) == 1 else f"jobs {', '.join(numbers)} are"
