"""What the benchmarks share: a row of the table, seconds by the clock and of the processor, and peak memory."""

from __future__ import annotations

import json
import operator
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

GIB = 2**30
_COMPARED = {"<=": operator.le, ">=": operator.ge, "<": operator.lt}


@dataclass(frozen=True)
class Row:
    """One claim: what was measured, against what, and whether their ratio is what it must be."""

    claim: str
    what: str
    measured: float
    against: float | None
    unit: str
    ratio: float | None
    needed: str  # such as "<= 10"; empty for a figure that is only told
    holds: bool | None


def share(claim: str, what: str, measured: float, against: float | None, needed: str = "", unit: str = "s") -> Row:
    """A row whose ratio is the measured over what it is held against."""
    ratio = None if against is None else measured / against
    return Row(claim, what, measured, against, unit, ratio, needed, _holds(ratio, needed))


def times_faster(claim: str, what: str, ours: float, theirs: float, needed: str = "", unit: str = "CPU s") -> Row:
    """A row whose ratio says how many times less ours takes than theirs."""
    return Row(claim, what, ours, theirs, unit, theirs / ours, needed, _holds(theirs / ours, needed))


def left_out(claim: str, why: str) -> Row:
    """A claim that could not be measured here, and why."""
    return Row(claim, f"left out: {why}", float("nan"), None, "", None, "", None)


def _holds(ratio: float | None, needed: str) -> bool | None:
    if ratio is None or not needed:
        return None
    sign, bound = needed.split()
    return bool(_COMPARED[sign](ratio, float(bound)))


@dataclass(frozen=True)
class Took:
    """Seconds of a call by the clock, and those that its process spent in all threads."""

    wall: float
    cpu: float


def timed(function: Callable[..., object], *arguments: object, repeats: int = 1, **options: object) -> Took:
    """The best of some calls: what disturbs a call only ever makes it longer."""
    took = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        function(*arguments, **options)
        took.append(Took(time.perf_counter() - wall, time.process_time() - cpu))
    return Took(min(t.wall for t in took), min(t.cpu for t in took))


def single_threaded() -> dict[str, str]:
    """The environment of a process whose arithmetic is to use one thread."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, "1")}


class PeakMemory:
    """The largest resident memory (bytes) of this process and all below it, and of the latter alone, while it is open.

    Pages that processes share are counted in each: an upper bound.
    """

    def __init__(self) -> None:
        self.peak = self.children = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.1):
            below = sum(_resident(process) for process in me.children(recursive=True))
            self.children = max(self.children, below)
            self.peak = max(self.peak, below + _resident(me))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it has ended meanwhile
        return 0


def table(rows: Sequence[Row]) -> str:
    """The rows for people: one line each, columns aligned."""
    head = ("claim", "what", "measured", "against", "ratio", "needed", "holds")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[c]) for line in lines) for c in range(len(head))]
    rule = ["-" * width for width in widths]
    flush = [str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.ljust, str.ljust]
    texts = (
        "  ".join(put(cell, width) for put, cell, width in zip(flush, line, widths, strict=True))
        for line in (head, rule, *lines[1:])
    )
    return "\n".join(text.rstrip() for text in texts)


def _cells(row: Row) -> tuple[str, ...]:
    holds = {None: "", True: "yes", False: "NO"}[row.holds]
    measured, against = ("" if x is None or x != x else f"{_short(x)} {row.unit}" for x in (row.measured, row.against))
    ratio = "" if row.ratio is None else _short(row.ratio)
    return row.claim, row.what, measured.strip(), against.strip(), ratio, row.needed, holds


def _short(x: float) -> str:
    """Three digits, and no exponent."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def write_json(path: Path, rows: Iterable[Row], *, quick: bool) -> None:
    """The same table for machines, with the machine it was measured on."""
    here = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "python": platform.python_version(),
    }
    content = {"quick": quick, "here": here, "rows": [_finite(asdict(row)) for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _finite(row: dict[str, object]) -> dict[str, object]:
    return {key: None if value != value else value for key, value in row.items()}
