"""Sample times, as a file holds them, turned into one rate and the stretches between breaks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError, suggest
from dlcca.recordings.formats.recording import Sampling, Stretch

TIME_NAMES = ("time", "times", "t", "timestamp", "timestamps", "datetime", "date_time", "date", "clock")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": 86400.0}
_LONG = {"second": "s", "sec": "s", "millisecond": "ms", "msec": "ms", "microsecond": "us", "µs": "us"}
_LONG |= {"nanosecond": "ns", "minute": "min", "hour": "h", "hr": "h", "day": "d"}
UNIX_S = (1e9, 4e9)  # seconds since 1970 of the years 2001 to 2096

_WANDER = 1e-4  # of a stretch: how far sample times may leave an even clock; crystals keep to half of that
_CHECKPOINTS = 4096  # at most: the memory of a clock does not grow with the recording


def time_unit(text: object) -> str | None:
    """The unit of time that a name or an attribute means, as in `UNITS`; None if it is none."""
    word = str(text).strip().lower()
    for candidate in (word, _LONG.get(word), _LONG.get(word.removesuffix("s")), word.removesuffix("s")):
        if candidate in UNITS:
            return candidate
    return None


class TimeColumn:
    """Values of a time column into seconds: numbers in a unit, Unix time, time stamps or time differences.

    Time stamps and Unix time count from the first value, which becomes `start`; plain numbers are kept as they are.
    """

    def __init__(self, name: str, unit: str | None = None, start: datetime | None = None) -> None:
        if unit not in (None, *UNITS):
            raise SettingsError(f"time_unit = {unit!r} is not known; {suggest(unit, UNITS)}")
        self.name, self.start, self._unit = name, start, unit
        self.notes: list[str] = []
        self.zoned = False  # whether time stamps are in UTC, and not in local time
        self._zero: Any = None  # the value that others count from

    def seconds(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Seconds of each value, (k,), after the start of the recording where there is one."""
        missing, kind, scale = values != values, values.dtype.kind, 1e-9  # NaN and NaT are not equal to themselves
        if kind in "mM":
            values = values.astype(f"{kind}8[ns]").view(np.int64)
            if kind == "m":
                return np.where(missing, np.nan, values * scale)
            if self._zero is None and len(values) and not missing[0]:
                self._zero, self.start = values[0], _after_1970(int(values[0]) / 1e9, zoned=self.zoned)
        else:
            if self._zero is None and len(values) and self.start is None:
                first = float(values[0])
                for unit in [self._unit] if self._unit else ["s", "ms", "us", "ns"]:
                    if self._zero is None and UNIX_S[0] <= first * UNITS[unit] < UNIX_S[1]:
                        self._unit, self._zero = unit, values[0]
                        self.start = _after_1970(first * UNITS[unit], zoned=True)
                        self.notes.append(f"{self.name!r} begins at {first:.15g}: taken for Unix time in {unit}")
            scale = UNITS[self._unit or "s"]
            if self._zero is None:
                return values.astype(np.float64) * scale
        # Differences are taken before rounding: nanoseconds since 1970 do not fit into a float.
        return np.where(missing, np.nan, (values - (self._zero or 0)) * scale)

    def sampling(self, clock: "Clock", blocks: Iterable[NDArray[Any]]) -> Sampling:
        """Rate, breaks and start, from all values in portions."""
        found = clock.sampling(map(self.seconds, blocks))
        return replace(found, start=self.start, notes=(*self.notes, *found.notes))


def _after_1970(seconds: float, *, zoned: bool) -> datetime:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    return moment if zoned else moment.replace(tzinfo=None)


class Clock:
    """Times of all rows, fed in order and in any portions; `sampling` gives the rate and the breaks.

    A step longer than 1.5 usual ones is a break; time that goes back, stands still or is not evenly spaced is refused.
    """

    def __init__(
        self, what: str, rate: float | None = None, nominal: Sequence[float] = (), *, row: str = "row", base: int = 1
    ) -> None:
        self.what, self.rate = what, rate
        self.nominal = nominal  # rates that the file names, which are taken if they fit
        self.row, self.base = row, base  # how rows are called and numbered in errors
        self.n = 0
        self._step = None if rate is None else 1 / rate
        self._last = np.nan
        self._jitter = 0.0
        self._starts: list[tuple[int, float]] = []  # (row, time) of the first sample of each stretch
        self._ends: list[tuple[int, float]] = []
        self._stride, self._rows, self._times = 1, np.zeros(0, np.int64), np.zeros(0)  # every so many are kept

    def feed(self, times: NDArray[np.float64]) -> None:
        """The times of the next rows in seconds, (k,)."""
        if not len(times):
            return
        self._refuse(~np.isfinite(times), np.append(np.nan, times), self.n, "has no time")
        if self.n == 0:
            self._starts.append((0, float(times[0])))
        known = times if self.n == 0 else np.append(self._last, times)
        first = self.n + len(times) - (len(known) - 1)  # the row that the first difference leads to
        steps = np.diff(known)
        self._refuse(steps < 0, known, first, "goes backwards")
        self._refuse(steps == 0, known, first, "stands still")
        if len(steps):
            self._step = _usual(steps) if self._step is None else self._step
            self._refuse(steps < 0.499 * self._step, known, first, "is not evenly spaced")
            jumps = steps > 1.5 * self._step
            for i in np.flatnonzero(jumps).tolist():
                self._ends.append((first + i - 1, float(known[i])))
                self._starts.append((first + i, float(known[i + 1])))
            self._jitter = max(self._jitter, np.abs(steps[~jumps] - self._step).max(initial=0.0))
        self._keep_some(times)
        self._last = float(times[-1])
        self.n += len(times)

    def sampling(self, blocks: Iterable[NDArray[np.float64]] = ()) -> Sampling:
        """One rate for all stretches, or a refusal if no even clock fits the times: those fed, and more in portions."""
        for times in blocks:
            self.feed(times)
        ends = [*self._ends, (self.n - 1, self._last)]
        stretches = [(a, t, b, u) for (a, t), (b, u) in zip(self._starts, ends, strict=True)]
        if len(stretches) > max(3, self.n // 20):
            row, time = self._starts[1]
            raise DataError(
                f"{self.what} is not evenly spaced: it jumps {len(stretches) - 1} times in {self.n} rows, first before "
                f"{self.row} {row + self.base} (to {time:.9g} s, where steps are {self._step:.6g} s). "
                "Resample it evenly, or give rate and time_column=false if the times do not matter."
            )
        rate = self._even_rate(stretches)
        notes = self._check_wander(stretches, rate)
        if len(stretches) > 1:
            notes.append(f"breaks in {self.what}, which are kept: {len(stretches) - 1}")
        return Sampling(rate, tuple(Stretch(a, b - a + 1, t) for a, t, b, _ in stretches), tuple(notes))

    def _keep_some(self, times: NDArray[np.float64]) -> None:
        """Keep every `_stride`-th time for `_check_wander`."""
        self._rows = np.append(self._rows, np.arange(self.n, self.n + len(times)))
        self._times = np.append(self._times, times)
        while (kept := self._rows % self._stride == 0).sum() > _CHECKPOINTS:
            self._stride *= 2
        self._rows, self._times = self._rows[kept], self._times[kept]

    def _even_rate(self, stretches: list[tuple[int, float, int, float]]) -> float:
        steps = sum(b - a for a, _, b, _ in stretches)
        duration = sum(u - t for _, t, _, u in stretches)
        if not steps:
            if self.rate is None:
                raise SettingsError(f"{self.what} has {self.n} rows, too few to measure a rate: give rate, in Hz.")
            return self.rate
        measured = steps / duration
        if self.rate is not None:
            if abs(self.rate / measured - 1) > 0.01:
                raise SettingsError(
                    f"rate is {self.rate:g} Hz, but {self.what} has {measured:.6g} samples per second: leave rate "
                    "away, or give time_column=false if the times do not matter."
                )
            return self.rate
        # Times are rounded when they are written: a round rate that fits as well is the one that was meant.
        largest = max(abs(t) + abs(u) for _, t, _, u in stretches)
        slack = self._jitter * len(stretches) + 8 * np.finfo(float).eps * largest
        round_ones = [*(round(measured, digits) for digits in range(4)), 1 / max(1, round(1 / measured))]
        for candidate in [*self.nominal, *round_ones]:
            if candidate > 0 and abs(steps / candidate - duration) <= slack:
                return float(candidate)
        return measured

    def _check_wander(self, stretches: list[tuple[int, float, int, float]], rate: float) -> list[str]:
        """How far the kept times leave an even clock, in words where it is more than half a sample."""
        rows, times = self._rows, self._times
        which = np.searchsorted([a for a, *_ in stretches], rows, side="right") - 1
        firsts, starts, _, ends = (np.array(column) for column in zip(*stretches, strict=True))
        expected = starts[which] + (rows - firsts[which]) / rate
        off = np.abs(times - expected)
        allowed = np.maximum(0.5 / rate, _WANDER * (ends - starts)[which])
        if (off > allowed * (1 + 1e-9)).any():
            worst = int(np.argmax(off - allowed))
            raise DataError(
                f"{self.what} is not evenly spaced: {self.row} {rows[worst] + self.base} is at {times[worst]:.9g} s, "
                f"where {rate:.6g} Hz would have it at {expected[worst]:.9g} s. Resample it evenly, or give rate and "
                "time_column=false if the times do not matter."
            )
        worst = int(np.argmax(off))
        if off[worst] <= 0.501 / rate:
            return []
        return [f"{self.what} wanders: read as even at {rate:.9g} Hz, samples are up to {off[worst]:.3g} s off"]

    def _refuse(self, bad: NDArray[np.bool_], known: NDArray[np.float64], first: int, what: str) -> None:
        """Refuse the first bad row of rows `first` on; `known` has their times after that of the row before them."""
        if not bad.any():
            return
        i = int(np.argmax(bad))
        before, time = known[i : i + 2]
        went = f"{time:.9g} s after {before:.9g} s" if np.isfinite(time) else "missing"
        usual = "" if self._step is None else f", where steps are {self._step:.6g} s"
        raise DataError(
            f"{self.what} {what} at {self.row} {first + i + self.base}: {went}{usual}. Correct or resample the times, "
            "or give rate and time_column=false if they do not matter."
        )


def _usual(steps: NDArray[np.float64]) -> float:
    """The step between samples without a break: the mean of those that are near the median one."""
    # A mean, because written times are rounded: at 700 Hz, steps in whole milliseconds are 1 and 2.
    step = float(np.median(steps))
    for _ in range(2):
        step = float(steps[(steps > 0.25 * step) & (steps <= 2 * step)].mean())
    return step
