"""Progress for a log that no one looks at while it is written: a line for each stage, and one for each minute of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dlcca.cli.units import duration

EVERY_S = 60.0


@dataclass
class _Stage:
    """A stage that is under way."""

    began: float
    found: int  # blocks that were finished before
    done: int
    blocks: int
    told: float

    def line(self, name: str, now: float) -> str:
        seconds, made = now - self.began, self.done - self.found
        if self.done >= self.blocks:
            return f"{name}: {made} of {self.blocks} blocks in {duration(seconds)}"
        line = f"{name}: {self.done} of {self.blocks} blocks"
        if not made:
            return f"{line}, none of them in the last {duration(seconds)}"
        rate = made / seconds
        each = f"{rate:.2g} a second" if rate >= 1 else f"{duration(1 / rate)} each"
        return f"{line}, {each}, about {duration((self.blocks - self.done) / rate)} left"


class Minutes:
    """To be told of progress; says it a line at a time, from a thread of its own where a block takes long."""

    def __init__(self, say: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self.say, self.every_s = say, every_s
        self._stages: dict[str, _Stage] = {}
        self._guard, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="dlcca-progress", daemon=True)

    def __enter__(self) -> Minutes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=5)

    def tell(self, stage: str, done: int, blocks: int) -> None:
        """How far a stage is; one that was finished before is passed over."""
        now = time.monotonic()
        with self._guard:
            known = self._stages.get(stage)
            if known is None:
                if done < blocks:
                    self._stages[stage] = _Stage(now, done, done, blocks, now)
                return
            known.done, known.blocks = done, blocks
            if done >= blocks:
                self._say(stage, now)
                del self._stages[stage]

    def _watch(self) -> None:
        while not self._over.wait(min(1.0, self.every_s)):
            now = time.monotonic()
            with self._guard:
                for stage, known in self._stages.items():
                    if now - known.told >= self.every_s:
                        self._say(stage, now)

    def _say(self, stage: str, now: float) -> None:
        known = self._stages[stage]
        known.told = now
        self.say(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {known.line(stage, now)}")
