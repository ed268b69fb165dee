"""What every reader returns: a recording, whose samples stay in the file until they are read."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dlcca.errors import DataError
from dlcca.recordings.formats.checks import refusing


@dataclass(frozen=True)
class Channel:
    """One channel of a signal."""

    name: str
    unit: str = ""
    kind: str = ""  # "eeg", "ecg", "resp", "acc", "video", ... where the file says so, in lower case


@dataclass(frozen=True)
class Annotation:
    """A marked interval of the recording."""

    onset_s: float  # after the start of the recording
    duration_s: float
    text: str


@dataclass(frozen=True)
class Digital:
    """Samples stored as integers of at most 16 bits: values are ``gain * number + bias``."""

    dtype: np.dtype  # of the numbers
    gain: NDArray[np.float64]  # of each channel, (c,)
    bias: NDArray[np.float64]

    def values(self, numbers: NDArray[np.integer]) -> NDArray[np.float32]:
        """The values (..., c) of numbers (..., c)."""
        X = np.multiply(numbers, self.gain.astype(np.float32), dtype=np.float32)
        X += self.bias.astype(np.float32)
        return np.asarray(X, np.float32)

    def of(self, columns: Sequence[int]) -> "Digital":
        """That of some of the channels."""
        return Digital(self.dtype, self.gain[list(columns)], self.bias[list(columns)])

    def is_like(self, other: "Digital") -> bool:
        """Whether the same integers have the same values."""
        same_scale = np.array_equal(self.gain, other.gain) and np.array_equal(self.bias, other.bias)
        return self.dtype == other.dtype and same_scale

    @property
    def is_exact(self) -> bool:
        """Whether any two numbers have different values in single precision."""
        ends = np.iinfo(self.dtype)
        largest = np.maximum(abs(self.gain * ends.min + self.bias), abs(self.gain * ends.max + self.bias))
        return bool((abs(self.gain) > 2 * np.spacing(largest.astype(np.float32))).all())


def values_of(X: NDArray, digital: Digital | None) -> NDArray[np.float32]:
    """The values of samples that are integers or values already."""
    return X if digital is None or X.dtype.kind == "f" else digital.values(X)


def int24(data: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Little-endian integers of three bytes, (..., 3) to (...)."""
    wide = np.zeros((*data.shape[:-1], 4), np.uint8)
    wide[..., 1:] = data
    return wide.view("<i4")[..., 0] >> 8  # the shift brings the sign along


class Samples(ABC):
    """Samples of some channels that can be read in any parts."""

    @abstractmethod
    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        """Samples first to last (not included) of some channels, (last - first, len(columns)), in their units."""

    def read_single(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float32]:
        """The same in single precision, C-contiguous; infinity for what is beyond its range."""
        with np.errstate(over="ignore"):
            return np.asarray(self.read(first, last, columns), dtype=np.float32, order="C")

    @property
    def digital(self) -> Digital | None:
        """The scale of the integers that `read_digital` returns, where the file holds such."""
        return None

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.integer]:
        """Samples as integers, C-contiguous; only where `digital` is not None."""
        raise NotImplementedError


class Signal(Samples):
    """Channels that were sampled together: one rate, one start.

    Sample i was taken ``start_s + i / rate * (1 + drift_ppm * 1e-6)`` seconds after the start of the recording.
    """

    channels: tuple[Channel, ...]
    rate: float  # samples per second, nominal
    n: int  # samples
    start_s: float = 0.0  # of sample 0, after the start of the recording
    drift_ppm: float = 0.0  # how much longer than nominal its seconds are, as declared in the file

    @property
    def names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    @property
    def duration_s(self) -> float:
        return self.n / self.rate * (1 + self.drift_ppm * 1e-6)


class ProcessLocal:
    """Objects pickled without the attributes that begin with "_"; a copy has those of the class, and a new lock."""

    _lock: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._lock = threading.RLock()
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}


class Source(Samples):
    """The samples (rows) and channels (columns) of a file, across all breaks: can be pickled, is never read empty."""

    path: str
    format: str


@dataclass
class SourceSignal(Signal):
    """Rows of a source from `first_row` on, without a break between them."""

    source: Source
    channels: tuple[Channel, ...]
    rate: float
    n: int
    first_row: int = 0
    start_s: float = 0.0
    drift_ppm: float = 0.0

    def read(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.floating]:
        return self._read(self.source.read, np.float32, first, last, columns)

    def read_single(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.float32]:
        return self._read(self.source.read_single, np.float32, first, last, columns)

    @property
    def digital(self) -> Digital | None:
        return self.source.digital

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.integer]:
        assert self.digital is not None
        return self._read(self.source.read_digital, self.digital.dtype, first, last, columns)

    def _read(self, rows: Callable, empty: DTypeLike, first: int, last: int, columns: Sequence[int]) -> NDArray:
        check_span(self, first, last)
        if first == last or not len(columns):
            return np.empty((last - first, len(columns)), empty)
        with refusing(self.source.path, self.source.format):
            return rows(self.first_row + first, self.first_row + last, [int(column) for column in columns])


@dataclass(frozen=True)
class Stretch:
    """Samples that follow each other without a break."""

    first: int  # row of its first sample
    n: int
    start_s: float


@dataclass(frozen=True)
class Sampling:
    """When the rows of a source were taken."""

    rate: float
    stretches: Sequence[Stretch]
    notes: tuple[str, ...] = ()
    start: datetime | None = None  # of the recording, where the times say it

    @classmethod
    def even(cls, rate: float, n: int, start_s: float = 0.0) -> "Sampling":
        """All n rows at one rate, without a break."""
        return cls(rate, (Stretch(0, n, start_s),))

    def signals(
        self, source: Source, channels: Iterable[Channel], start_s: float | None = None, drift_ppm: float | None = None
    ) -> tuple[SourceSignal, ...]:
        """One signal for each stretch of the rows of a source."""
        every, begin, drift = tuple(channels), start_s or 0.0, drift_ppm or 0.0
        return tuple(
            SourceSignal(source, every, self.rate, s.n, s.first, begin + s.start_s, drift) for s in self.stretches
        )


@dataclass(frozen=True)
class Recording:
    """One file: its signals, when it began, and what was marked in it."""

    path: str
    format: str
    signals: tuple[Signal, ...]
    start: datetime | None = None  # None where the file does not say
    annotations: tuple[Annotation, ...] = ()
    notes: tuple[str, ...] = ()  # what the reader ignored or corrected
    sidecars: tuple[str, ...] = ()  # files beside the one at `path` that are read too

    @property
    def channels(self) -> list[Channel]:
        return [channel for signal in self.signals for channel in signal.channels]

    @property
    def end_s(self) -> float:
        """Of its last sample, after its start."""
        return max((signal.start_s + signal.duration_s for signal in self.signals), default=0.0)


def check_span(signal: Signal, first: int, last: int) -> None:
    """Refuse samples that a signal does not have: a break, or another signal, may lie behind its end."""
    if not 0 <= first <= last <= signal.n:
        raise DataError(f"samples {first} to {last} were requested of a signal that has {signal.n}.")
