"""Times of a recording as text and as ticks: clock times where the start is known, else seconds or samples."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

#: Steps between ticks on an axis of seconds, below a day.
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAY_S = 86_400
#: The times of a shorter recording are in seconds.
SHORT_S = 600.0


@dataclass(frozen=True)
class TimeAxis:
    """The range and the format of the times of a result; ``first`` and ``last`` are in ``unit``."""

    unit: str  # "s" or "sample"
    first: float
    last: float
    start: str | None = None  # ISO: when time is 0

    @property
    def span(self) -> float:
        return self.last - self.first

    @property
    def zero(self) -> datetime | None:
        """When time is 0 by the clock of the recording, without its time zone."""
        if self.start is None or self.unit != "s":
            return None
        try:
            return datetime.fromisoformat(self.start).replace(tzinfo=None)
        except ValueError:
            return None

    @property
    def zero_ms(self) -> float | None:
        """The same for scripts: milliseconds since 1970, with the clock of the recording taken as UTC."""
        return None if self.zero is None else self.zero.replace(tzinfo=UTC).timestamp() * 1000

    @property
    def form(self) -> str:
        """Format of a time: "clock" is the time of day, "date" has the day too; or "h:min", "s" or "sample"."""
        if self.unit != "s":
            return "sample"
        if self.zero is not None:
            return "clock" if self.span < _DAY_S else "date"
        return "s" if self.span < SHORT_S else "h:min"

    @property
    def label(self) -> str:
        return {
            "sample": "sample",
            "s": "time [s]",
            "h:min": "time since the start [h:min]",
            "clock": "time of day",
            "date": "date and time",
        }[self.form]

    def text(self, time: float) -> str:
        """A time, with a precision that suits the span."""
        form = self.form
        if form == "sample":
            return f"{time:,.0f}".replace(",", "\u202f")
        if form == "s":
            return f"{time:.2f} s" if self.span < 60 else f"{time:.1f} s"
        return self._clock(time, seconds=self.span < (4 * 3600 if form == "h:min" else 3600))

    def between(self, low: float, high: float) -> str:
        """An interval, as a part of a sentence."""
        if self.form == "sample":
            return f"between samples {self.text(low)} and {self.text(high)}"
        after = " after the start" if self.form == "h:min" else ""
        return f"between {self.text(low)} and {self.text(high)}{after}"

    def duration(self) -> str:
        if self.unit != "s":
            return ""
        if self.span < SHORT_S:
            return f"{self.span:.4g} s"
        hours = self.span / 3600
        if hours < 1:
            return f"{self.span / 60:.0f} min"
        return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"

    def apply(self, ax: Any, most: int = 8) -> None:
        """Label the x axis of a plot, with at most so many ticks, at round times."""
        ax.set_xlabel(self.label)
        if self.form in ("s", "sample"):
            return
        offset = 0.0 if self.zero is None else (self.zero - datetime(1970, 1, 1)).total_seconds()
        least = self.span / most
        days = 2 ** max(0, math.ceil(math.log2(least / _DAY_S))) if least > 0 else 1
        step = float(next((step for step in _STEPS_S if step >= least), days * _DAY_S))
        count = int(self.span // step) + 2
        begin = -(-(self.first + offset) // step) * step - offset
        ticks = [t for t in (begin + i * step for i in range(count)) if t <= self.last]
        if self.zero is not None and step >= _DAY_S:
            ax.set_xticks(ticks, [f"{self.zero + timedelta(seconds=t):%d %b}" for t in ticks])
        else:
            ax.set_xticks(ticks, [self._clock(t, seconds=step < 60, between="\n") for t in ticks])

    def _clock(self, time: float, *, seconds: bool, between: str = " ") -> str:
        """A time by the clock, with the day if the span is long; hours since the start if the clock is not known."""
        if self.zero is None:
            sign, whole = "−" if time < 0 else "", round(abs(time))
            text = f"{sign}{whole // 3600}:{whole % 3600 // 60:02d}"
            return f"{text}:{whole % 60:02d}" if seconds else text
        pattern = "%H:%M:%S" if seconds else "%H:%M"
        day = "" if self.form == "clock" else f"%d %b{between}"
        return (self.zero + timedelta(seconds=time)).strftime(f"{day}{pattern}")
