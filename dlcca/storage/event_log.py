"""What happened in a run, kept with it: a line of JSON for each event, with its time.

::

    run.zarr/log/events.jsonl      the events of all runs on this store; the last line is a checksum of those before it
    run.zarr/log/performance.html  Dask's own report of the last one, where it could be made

The file is replaced as a whole, every few seconds while something happens, by a thread of its own: storage that is slow
to answer must not keep anyone waiting who has something to tell. What a kill takes with it are the last seconds.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from dlcca.errors import DlccaError
from dlcca.storage import groups
from dlcca.storage.checksummed_json import checksum
from dlcca.storage.files import files_at
from dlcca.storage.processes import this_process

FOLDER = "log"
FILE = f"{FOLDER}/events.jsonl"
REPORT = f"{FOLDER}/performance.html"
#: Seconds between two writes, and between two lines that say how far a stage is.
WRITE_S, TELL_S = 5.0, 60.0
#: Of more lines, the oldest that say how far a stage was are left out.
MOST_LINES = 20_000


class Recorder:
    """Takes events and keeps them; from any thread."""

    def __init__(self, address: str, doing: str) -> None:
        self.address, self.began = address, time.monotonic()
        self.counts: Counter[str] = Counter()
        self._lines, damaged = _lines_so_far(address)
        self._had_lines = bool(self._lines)
        self._told: dict[str, float] = {}  # when it was last said how far a stage is
        self._guard, self._over, self._news = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_now_and_then, name="dlcca-events", daemon=True)
        process = this_process()
        self.note("started", doing=doing, host=process.host, pid=process.pid)
        if damaged:
            self.note("warning", text="the events of earlier runs were damaged, and are left out")

    def note(self, event: str, **facts: Any) -> None:
        """Something that happened now."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts}
        with self._guard:
            self.counts[event] += 1
            self._lines.append(json.dumps(line, default=str))
        self._news.set()

    def far(self, stage: str, done: int, blocks: int) -> None:
        """How far a stage is: noted when it begins and ends, and once a minute between."""
        now = time.monotonic()
        if stage not in self._told:
            if done >= blocks:
                return self.note("stage found finished", stage=stage, blocks=blocks)
            self._told[stage] = now
            self.note("stage started", stage=stage, done=done, blocks=blocks)
        elif done < blocks and now - self._told[stage] >= TELL_S:
            self._told[stage] = now
            self.note("blocks done", stage=stage, done=done, blocks=blocks)
        if done >= blocks:
            del self._told[stage]
            self.note("stage finished", stage=stage, blocks=blocks)

    def warned(self, say: Callable[[str], None]) -> Callable[[str], None]:
        """A function that notes a sentence as a warning, and says it."""

        def both(text: str) -> None:
            self.note("warning", text=text)
            say(text)

        return both

    def keep_report(self, content: bytes) -> None:
        """Keep Dask's report beside the events."""
        files_at(self.address).put(REPORT, content)
        self.note("report kept", file=REPORT, sha256=hashlib.sha256(content).hexdigest())

    @contextmanager
    def working(self) -> Iterator[None]:
        """Write now and then while the block lasts, and at its end what has become of it."""
        self._thread.start()
        try:
            yield
        except BaseException as error:
            self.note("failed", error=str(error) or type(error).__name__, kind=type(error).__name__)
            raise
        else:
            self.note("finished", seconds=round(time.monotonic() - self.began, 3), retries=self.counts["retry"])
        finally:
            self._over.set()
            self._news.set()
            self._thread.join(timeout=60)

    def _write_now_and_then(self) -> None:
        while True:
            self._news.wait()
            over = self._over.is_set()
            self._news.clear()
            with suppress(DlccaError, OSError):  # the storage does not serve: those who work will hear of it
                self._write()
            if over:
                return
            self._over.wait(WRITE_S)

    def _write(self) -> None:
        with self._guard:
            if not self._had_lines and not self.counts["stage started"] and not self.counts["finished"]:
                return  # nothing was done yet: whoever is refused leaves nothing behind
            if len(self._lines) > MOST_LINES:
                self._lines = _shortened(self._lines)
            text = "".join(f"{line}\n" for line in self._lines).encode()
        if not self._had_lines:
            groups.put(f"{self.address.rstrip('/')}/{FOLDER}", {})
            self._had_lines = True
        files_at(self.address).put(FILE, text + _seal(text))


def _shortened(lines: list[str]) -> list[str]:
    """Lines without the oldest of those that say how far a stage was, down to half as many as there may be."""
    surplus, kept = len(lines) - MOST_LINES // 2, []
    for line in lines:
        if surplus > 0 and '"event": "blocks done"' in line:
            surplus -= 1
        else:
            kept.append(line)
    return kept[-MOST_LINES:]


def _seal(text: bytes) -> bytes:
    return json.dumps({"event": "sealed", "crc": checksum(text)}).encode() + b"\n"


def read(address: str) -> list[dict[str, Any]]:
    """All events of a run so far, without the seal; a ValueError if they are not what was written."""
    found = files_at(address).get(FILE)
    if found is None:
        return []
    end = found.rfind(b'{"event": "sealed"')
    text = found[: max(end, 0)]
    if end < 0 or found[end:] != _seal(text):
        raise ValueError("the checksum does not fit")
    return [json.loads(line) for line in text.splitlines()]


def damages(address: str, *, expected: bool) -> dict[str, str]:
    """What is wrong with the log of a run: its events, and the report that they tell of."""
    files, problems = files_at(address), {}
    try:
        told = read(address)
    except ValueError:
        return {FILE: f"{FILE} of {address} is damaged. The result is not touched"}
    if expected and not told:
        problems[FILE] = f"{FILE} of {address} is missing. The result is not touched"
    if told and files.get(f"{FOLDER}/{groups.FILE}") is None:
        problems[FOLDER] = f"{FOLDER}/{groups.FILE} of {address} is missing. The result is not touched"
    reports = [event["sha256"] for event in told if event["event"] == "report kept"]
    if reports:
        content = files.get(REPORT)
        if content is None or hashlib.sha256(content).hexdigest() != reports[-1]:
            what = "missing" if content is None else "damaged"
            problems[REPORT] = f"{REPORT} of {address} is {what}. The result is not touched"
    return problems


def _lines_so_far(address: str) -> tuple[list[str], bool]:
    """The lines of earlier runs, and whether they had to be left out."""
    try:
        return [json.dumps(event) for event in read(address)], False
    except ValueError:
        return [], True


#: That of whoever calls.
_CURRENT: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording(address: str, doing: str) -> Iterator[Recorder]:
    """Keep the events of the block with the run at an address; one within another adds to that."""
    outer = _CURRENT.get()
    if outer is not None:
        yield outer
        return
    recorder = Recorder(address, doing)
    token = _CURRENT.set(recorder)
    try:
        with recorder.working():
            yield recorder
    finally:
        _CURRENT.reset(token)


def current() -> Recorder | None:
    """The recorder of whoever calls, if there is one."""
    return _CURRENT.get()
