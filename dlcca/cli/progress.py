"""How far the stages of a run are: as bars on a terminal, as lines in a log, and the times behind both."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

#: The time that is left is shown after this share of all work, and after so many seconds.
LEAST_SHARE, LEAST_S = 0.02, 2.0
#: Stages that the last line names.
NAMED = 3
#: Seconds between two lines about one stage.
LOG_EVERY_S = 60.0


def format_duration(seconds: float) -> str:
    """A time, for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


@dataclass
class StageProgress:
    """Blocks and times of one stage."""

    began: float
    found: int  # blocks that an earlier run finished
    done: int
    blocks: int
    updated: float
    logged: float = 0.0

    @property
    def share(self) -> float:
        """Of the blocks that this run has to do, how many are done, from 0 to 1."""
        return (self.done - self.found) / (self.blocks - self.found) if self.blocks > self.found else 0.0

    def line(self, name: str, now: float) -> str:
        """A line for a log: blocks, rate and the time that is left."""
        seconds, made = now - self.began, self.done - self.found
        if self.done >= self.blocks:
            return f"{name}: {made} of {self.blocks} blocks in {format_duration(seconds)}"
        line = f"{name}: {self.done} of {self.blocks} blocks"
        if not made:
            return f"{line}, none of them in the last {format_duration(seconds)}"
        rate = made / seconds
        each = f"{rate:.2g} a second" if rate >= 1 else f"{format_duration(1 / rate)} each"
        return f"{line}, {each}, about {format_duration((self.blocks - self.done) / rate)} left"


class RunProgress:
    """All stages together: how far they are, and when they will be done, by the seconds that the plan expects of each.

    Only the proportions of these seconds count: how fast this machine is follows from what was done so far.
    """

    def __init__(self, expected: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        self.expected, self.clock = dict(expected), clock
        self.stages: dict[str, StageProgress] = {}

    def update(self, name: str, done: int, blocks: int) -> None:
        """Blocks of a stage that are done; those of an earlier run are not counted."""
        now = self.clock()
        if name not in self.stages:
            self.stages[name] = StageProgress(now, done, done, blocks, now, logged=now)
            self.expected[name] = self.expected.get(name, 0.0) * (blocks - done) / max(blocks, 1)
        stage = self.stages[name]
        stage.done, stage.blocks, stage.updated = done, blocks, now

    def share(self) -> float:
        """Of all that this run has to do, how much is done, from 0 to 1."""
        whole = sum(self.expected.values())
        return self._done() / whole if whole > 0 else 0.0

    def left_s(self) -> float | None:
        """Seconds that are left if the rest is as fast as what was done; None where it is too early to say."""
        done, spent = self._done(), sum(self._took().values())
        if self.share() < LEAST_SHARE or spent < LEAST_S:
            return None
        return (sum(self.expected.values()) - done) * spent / done

    def sentence(self) -> str:
        """What was done, and which stages took longest; "" if nothing was."""
        took = self._took()
        if not took:
            return ""
        longest = sorted(took, key=took.__getitem__, reverse=True)[:NAMED]
        named = ", ".join(f"{name} {_format_short(took[name])}" for name in longest)
        some = f"{len(took)} stages" if len(took) > 1 else "1 stage"
        return f"{some} in {_format_short(sum(took.values()))}; longest: {named}"

    def _took(self) -> dict[str, float]:
        """Seconds of each stage that was not finished before."""
        return {name: stage.updated - stage.began for name, stage in self.stages.items() if stage.blocks > stage.found}

    def _done(self) -> float:
        return sum(self.expected[name] * stage.share for name, stage in self.stages.items())


def _format_short(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else format_duration(seconds)


class ProgressBars:
    """On a terminal, by rich: a bar for each stage that is under way and one for all; leaves one line behind."""

    def __init__(self, expected: Mapping[str, float] | None = None, block_s: float | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self.run, self.block_s = RunProgress(expected or {}), block_s
        self.console = Console(stderr=True)
        texts = [TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[count]:>11}")]
        texts += [TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[left]}")]
        self._shown = Progress(SpinnerColumn(), *texts, console=self.console, transient=True)
        self._tasks: dict[str, Any] = {}
        self._all = self._add("starting", None)

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._shown.stop()
        sentence = self.run.sentence()
        if sentence and kind is None:
            self.console.print(sentence, style="dim", highlight=False, markup=False, soft_wrap=True)

    def update(self, name: str, done: int, blocks: int) -> None:
        """Show how far a stage is; the bar of a finished one is removed."""
        self.run.update(name, done, blocks)
        if done < blocks:
            self._show(name, done, blocks)
        elif name in self._tasks:
            self._shown.remove_task(self._tasks.pop(name))
        if not any(self.run.expected.values()):
            self._shown.update(self._all, visible=False)
            return
        left, share = self.run.left_s(), min(self.run.share(), 1.0)
        text = "" if left is None else f"about {format_duration(left)} left"
        name, count = f"{'all stages':<13}", f"{share:.0%}"
        self._shown.update(self._all, completed=share, total=1.0, description=name, count=count, left=text)

    def _show(self, name: str, done: int, blocks: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._add(name, blocks)
        task = self._tasks[name]
        self._shown.update(task, completed=done, total=blocks, count=f"{done}/{blocks}")
        speed = next(shown.speed for shown in self._shown.tasks if shown.id == task)
        if speed and blocks > 1:
            rate = f"{speed:.2g} blocks/s" if speed >= 0.5 else f"{1 / speed:.3g} s each"
            rate = rate if self.block_s is None else f"{speed * self.block_s:,.0f} x real time"
            self._shown.update(task, rate=rate, left=f"{format_duration((blocks - done) / speed)} left")

    def _add(self, name: str, blocks: int | None) -> Any:
        return self._shown.add_task(f"{name:<13}", total=blocks, count="", rate="", left="")


class ProgressLog:
    """In a log: a line for each stage that is done, and one for each minute of it, from a thread of its own."""

    def __init__(self, write: Callable[[str], None], every_s: float = LOG_EVERY_S) -> None:
        self.write, self.every_s = write, every_s
        self.run = RunProgress({})
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._log_long_stages, name="dlcca-progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=5)

    def update(self, name: str, done: int, blocks: int) -> None:
        """Note how far a stage is; one that was finished before is left out."""
        with self._lock:
            before = self.run.stages.get(name)
            is_under_way = before is not None and before.done < before.blocks
            self.run.update(name, done, blocks)
            if is_under_way and done >= blocks:
                self._write_line(name)

    def _log_long_stages(self) -> None:
        while not self._ended.wait(min(1.0, self.every_s)):
            with self._lock:
                for name, stage in self.run.stages.items():
                    if stage.done < stage.blocks and time.monotonic() - stage.logged >= self.every_s:
                        self._write_line(name)

    def _write_line(self, name: str) -> None:
        stage = self.run.stages[name]
        stage.logged = time.monotonic()
        self.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {stage.line(name, stage.logged)}")
