"""Progress on a terminal: a bar for the stage at hand, one for all stages, and at the end a line on where time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from dlcca.cli.units import duration

#: Of all work this share has to be done before anything is said about the rest.
LEAST_SHARE, LEAST_S = 0.02, 2.0
#: Stages that the last line names.
NAMED = 3


class Whole:
    """All stages together: how far they are, and when they will be done.

    ``expected`` are the seconds of each stage by the plan. Only their proportions count: how fast this machine is shows
    in what was done so far.
    """

    def __init__(self, expected: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self.expected, self.clock = dict(expected), clock
        self.shares: dict[str, float] = {}  # of each stage, done in this run
        self.took: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self._found: dict[str, int] = {}

    def tell(self, stage: str, done: int, blocks: int) -> None:
        """How far a stage is; what an earlier run did of it counts for nothing."""
        now = self.clock()
        if stage not in self._began:
            self._began[stage], self._found[stage] = now, done
            self.expected[stage] = self.expected.get(stage, 0.0) * (blocks - done) / max(blocks, 1)
        found = self._found[stage]
        if blocks > found:
            self.shares[stage] = (done - found) / (blocks - found)
            self.took[stage] = now - self._began[stage]

    def share(self) -> float:
        """Of all that this run has to do, how much is done, from 0 to 1."""
        whole = sum(self.expected.values())
        return self._done() / whole if whole > 0 else 0.0

    def left_s(self) -> float | None:
        """Seconds that are left, if what was done so far goes on; None where it is too early to say."""
        done, spent = self._done(), sum(self.took.values())
        if self.share() < LEAST_SHARE or spent < LEAST_S:
            return None
        return (sum(self.expected.values()) - done) * spent / done

    def sentence(self) -> str:
        """What was done, and which stages took longest; "" if nothing was."""
        if not self.took:
            return ""
        longest = sorted(self.took, key=self.took.__getitem__, reverse=True)[:NAMED]
        named = ", ".join(f"{stage} {_short(self.took[stage])}" for stage in longest)
        some = f"{len(self.took)} stages" if len(self.took) > 1 else "1 stage"
        return f"{some} in {_short(sum(self.took.values()))}; longest: {named}"

    def _done(self) -> float:
        return sum(self.expected.get(stage, 0.0) * share for stage, share in self.shares.items())


class Bars:
    """The display, by rich; a context manager that leaves one line behind."""

    def __init__(self, expected: Mapping[str, float] | None = None, block_s: float | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self.whole, self.block_s = Whole(expected or {}), block_s
        self.console = Console(stderr=True)
        texts = [TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[count]:>11}")]
        texts += [TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[left]}")]
        self._shown = Progress(SpinnerColumn(), *texts, console=self.console, transient=True)
        self._tasks: dict[str, Any] = {}
        self._all = self._add("starting", None)

    def __enter__(self) -> Bars:
        self._shown.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._shown.stop()
        sentence = self.whole.sentence()
        if sentence and kind is None:
            self.console.print(sentence, style="dim", highlight=False, markup=False, soft_wrap=True)

    def tell(self, stage: str, done: int, blocks: int) -> None:
        """How far a stage is: its bar is gone when it is done."""
        self.whole.tell(stage, done, blocks)
        if done >= blocks:
            if stage in self._tasks:
                self._shown.remove_task(self._tasks.pop(stage))
        else:
            self._show(stage, done, blocks)
        self._show_all()

    def _show(self, stage: str, done: int, blocks: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._add(stage, blocks)
        task = self._tasks[stage]
        self._shown.update(task, completed=done, total=blocks, count=f"{done}/{blocks}")
        known = next(shown for shown in self._shown.tasks if shown.id == task)
        if known.speed and blocks > 1:
            left = (blocks - done) / known.speed
            self._shown.update(task, rate=self._rate(known.speed), left=f"{duration(left)} left")

    def _rate(self, speed: float) -> str:
        if self.block_s is not None:
            return f"{speed * self.block_s:,.0f} x real time"
        return f"{speed:.2g} blocks/s" if speed >= 0.5 else f"{1 / speed:.3g} s each"

    def _show_all(self) -> None:
        if not any(self.whole.expected.values()):
            self._shown.update(self._all, visible=False)
            return
        left, share = self.whole.left_s(), min(self.whole.share(), 1.0)
        text = "" if left is None else f"about {duration(left)} left"
        changed: dict[str, Any] = {"description": _column("all stages"), "count": f"{share:.0%}", "left": text}
        self._shown.update(self._all, completed=share, total=1.0, **changed)

    def _add(self, stage: str, blocks: int | None) -> Any:
        return self._shown.add_task(_column(stage), total=blocks, count="", rate="", left="")


def _column(name: str) -> str:
    return f"{name:<13}"


def _short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)
