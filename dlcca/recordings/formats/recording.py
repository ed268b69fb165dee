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


@dataclass(frozen=True)
class Digital:
    """Samples as a converter gave them, whole numbers of at most 16 bits: values are ``gain * number + bias``."""

    dtype: np.dtype  # of the numbers
    gain: NDArray[np.float64]  # of each channel, (c,)
    bias: NDArray[np.float64]

    def values(self, numbers: NDArray[np.integer]) -> NDArray[np.float32]:
        """The values (..., c) of numbers (..., c)."""
        X = np.multiply(numbers, self.gain.astype(np.float32), dtype=np.float32)
        X += self.bias.astype(np.float32)
        return np.asarray(X, np.float32)

    def of(self, columns: Sequence[int]) -> Digital:
        """That of some of the channels."""
        return Digital(self.dtype, self.gain[list(columns)], self.bias[list(columns)])

    def is_like(self, other: Digital | None) -> bool:
        """Whether the same numbers mean the same values."""
        return (
            other is not None
            and self.dtype == other.dtype
            and np.array_equal(self.gain, other.gain)
            and np.array_equal(self.bias, other.bias)
        )

    @property
    def is_exact(self) -> bool:
        """Whether single precision tells the values of any two numbers apart."""
        ends = np.iinfo(self.dtype)
        largest = np.maximum(abs(self.gain * ends.min + self.bias), abs(self.gain * ends.max + self.bias))
        return bool((abs(self.gain) > 2 * np.spacing(largest.astype(np.float32))).all())


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
    def digital(self) -> Digital | None:
        """What whole numbers the samples are, if it is such that the file holds and `read_digital` gives."""
        return None

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.integer]:
        """Samples as whole numbers, rows one after another in memory; only where `digital` says what they mean."""
        raise NotImplementedError

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
    sidecars: tuple[str, ...] = ()  # files beside the one at `path` that are read too
