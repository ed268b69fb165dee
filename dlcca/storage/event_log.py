"""The events of a run, kept in its store: a line of JSON for each, with its time.

::

    run.zarr/log/events.jsonl      the events of all runs on this store; the last line is a checksum of those before it
    run.zarr/log/performance.html  Dask's own report of the last one, where it could be made

A thread replaces the file every few seconds while there are new events, so that slow storage does not delay the run. A
killed run loses the events of its last seconds.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Self

from dlcca.errors import DlccaError
from dlcca.storage.files import files_at
from dlcca.storage.lock import this_process
from dlcca.storage.manifest import ZARR_JSON, checksum, put_group

FOLDER = "log"
FILE = f"{FOLDER}/events.jsonl"
REPORT = f"{FOLDER}/performance.html"
#: Seconds between two writes, and between two events about the progress of a stage.
WRITE_S, PROGRESS_S = 5.0, 60.0
#: Beyond this number of lines, the oldest events about progress are removed.
MOST_LINES = 20_000


class Recorder:
    """Records events, from any thread."""

    def __init__(self, address: str, doing: str) -> None:
        self.address, self.began = address, time.monotonic()
        self.counts: Counter[str] = Counter()
        try:
            self._lines, damaged = [json.dumps(event) for event in read(address)], False
        except ValueError:
            self._lines, damaged = [], True
        self._had_lines = bool(self._lines)
        self._progress_at: dict[str, float] = {}  # when the progress of a stage was last recorded
        self._guard, self._over, self._news = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_repeatedly, name="dlcca-events", daemon=True)
        process = this_process()
        self.note("started", doing=doing, host=process.host, pid=process.pid)
        if damaged:
            self.note("warning", text="the events of earlier runs were damaged, and are left out")

    def note(self, event: str, **facts: Any) -> None:
        """Record an event at the present time."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
        with self._guard:
            self.counts[event] += 1
            self._lines.append(json.dumps(line, default=str))
        self._news.set()

    def far(self, stage: str, done: int, blocks: int) -> None:
        """The progress of a stage: recorded when it begins and ends, and once a minute between."""
        now = time.monotonic()
        if stage not in self._progress_at:
            if done >= blocks:
                return self.note("stage found finished", stage=stage, blocks=blocks)
            self._progress_at[stage] = now
            self.note("stage started", stage=stage, done=done, blocks=blocks)
        elif done < blocks and now - self._progress_at[stage] >= PROGRESS_S:
            self._progress_at[stage] = now
            self.note("blocks done", stage=stage, done=done, blocks=blocks)
        if done >= blocks:
            del self._progress_at[stage]
            self.note("stage finished", stage=stage, blocks=blocks)

    def warned(self, say: Callable[[str], None]) -> Callable[[str], None]:
        """A function that records a message as a warning, and passes it to ``say``."""

        def both(text: str) -> None:
            self.note("warning", text=text)
            say(text)

        return both

    def keep_report(self, content: bytes) -> None:
        """Store Dask's performance report beside the events."""
        files_at(self.address).put(REPORT, content)
        self.note("report kept", file=REPORT, checksum=checksum(content))

    @contextmanager
    def working(self) -> Iterator[Self]:
        """Write events while the block lasts, and at its end whether it finished or failed."""
        token = _CURRENT.set(self)
        self._thread.start()
        try:
            yield self
        except BaseException as error:
            self.note("failed", error=str(error) or type(error).__name__, kind=type(error).__name__)
            raise
        else:
            self.note("finished", seconds=round(time.monotonic() - self.began, 3), retries=self.counts["retry"])
        finally:
            _CURRENT.reset(token)
            self._over.set()
            self._news.set()
            self._thread.join(timeout=60)

    def _write_repeatedly(self) -> None:
        while True:
            self._news.wait()
            over = self._over.is_set()
            self._news.clear()
            with suppress(DlccaError, OSError):  # the storage fails: the stages get the error too
                self._write()
            if over:
                return
            self._over.wait(WRITE_S)

    def _write(self) -> None:
        with self._guard:
            if not self._had_lines and not self.counts["stage started"] and not self.counts["finished"]:
                return  # nothing was done yet: a run that is refused writes nothing
            if len(self._lines) > MOST_LINES:  # the oldest events about progress are removed, down to a half
                surplus = len(self._lines) - MOST_LINES // 2
                progress = (i for i, line in enumerate(self._lines) if '"event": "blocks done"' in line)
                removed = {*islice(progress, surplus)}
                self._lines = [line for i, line in enumerate(self._lines) if i not in removed][-MOST_LINES:]
            text = "".join(f"{line}\n" for line in self._lines).encode()
        if not self._had_lines:
            put_group(f"{self.address.rstrip('/')}/{FOLDER}", {})
            self._had_lines = True
        files_at(self.address).put(FILE, text + _seal(text))


def _seal(text: bytes) -> bytes:
    return json.dumps({"event": "sealed", "crc": checksum(text)}).encode() + b"\n"


def read(address: str) -> list[dict[str, Any]]:
    """All events of a run so far, without the checksum; a ValueError if the file has changed."""
    found = files_at(address).get(FILE)
    if found is None:
        return []
    end = found.rfind(b'{"event": "sealed"')
    text = found[: max(end, 0)]
    if end < 0 or found[end:] != _seal(text):
        raise ValueError("the checksum does not match")
    return [json.loads(line) for line in text.splitlines()]


def damages(address: str, *, expected: bool) -> dict[str, str]:
    """What is wrong with the log of a run: its events, and the performance report."""
    files, wrong = files_at(address), {}
    try:
        events = read(address)
        if expected and not events:
            wrong[FILE] = "missing"
    except ValueError:
        events, wrong = [], {FILE: "damaged"}
    if events and files.get(f"{FOLDER}/{ZARR_JSON}") is None:
        wrong[f"{FOLDER}/{ZARR_JSON}"] = "missing"
    reports = [event["checksum"] for event in events if event["event"] == "report kept"]
    content = files.get(REPORT) if reports else None
    if reports and (content is None or checksum(content) != reports[-1]):
        wrong[REPORT] = "missing" if content is None else "damaged"
    return {name: f"{name} of {address} is {what}. The result is not affected" for name, what in wrong.items()}


_CURRENT: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
#: The recorder of the caller, if there is one.
current = _CURRENT.get


def recording(address: str, doing: str) -> AbstractContextManager[Recorder]:
    """Record the events of the block in the run at an address; an inner block adds to the outer one."""
    outer = current()
    return Recorder(address, doing).working() if outer is None else nullcontext(outer)
