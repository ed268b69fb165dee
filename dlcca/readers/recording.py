"""What every reader gives: a recording whose samples stay in the file until they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Channel:
    """One channel of a signal."""

    name: str
    unit: str = ""
    kind: str = ""  # "eeg", "ecg", "resp", "acc", "video", ... where the file says so, in lower case


@dataclass(frozen=True)
class Annotation:
    """A stretch of the recording that somebody or something has marked."""

    onset_s: float  # after the start of the recording
    duration_s: float
    text: str


class Signal(ABC):
    """Channels that were sampled together: one rate, one start.

    Sample i was taken ``start_s + i / rate * (1 + drift_ppm * 1e-6)`` seconds after the start of the recording.
    """

    channels: tuple[Channel, ...]
    rate: float  # samples per second, nominal
    n: int  # samples
    start_s: float = 0.0  # of sample 0, after the start of the recording
    drift_ppm: float = 0.0  # how much longer than nominal its seconds are, as declared in the file

    @abstractmethod
    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        """Samples first to last (not included) of some channels, (last - first, len(columns)), in their units."""

    def read_single(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float32]:
        """The same in single precision, rows one after another in memory; infinity for what is beyond it."""
        with np.errstate(over="ignore"):
            return np.asarray(self.read(first, last, columns), dtype=np.float32, order="C")

    @property
    def names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    @property
    def duration_s(self) -> float:
        return self.n / self.rate * (1 + self.drift_ppm * 1e-6)


@dataclass(frozen=True)
class Recording:
    """One file: its signals, when it began, and what was marked in it."""

    path: str
    format: str
    signals: tuple[Signal, ...]
    start: datetime | None = None  # None where the file does not say
    annotations: tuple[Annotation, ...] = ()
    notes: tuple[str, ...] = field(default=())  # what the reader had to overlook or mend, for people
