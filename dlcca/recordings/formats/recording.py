"""What every reader returns, a recording whose samples stay in the file until they are read, and what readers share."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, DlccaError, SettingsError, suggest


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

    def of(self, columns: Sequence[int]) -> Digital:
        """That of some of the channels."""
        return Digital(self.dtype, self.gain[list(columns)], self.bias[list(columns)])

    def is_like(self, other: Digital | None) -> bool:
        """Whether the same integers have the same values."""
        return (
            other is not None
            and self.dtype == other.dtype
            and np.array_equal(self.gain, other.gain)
            and np.array_equal(self.bias, other.bias)
        )

    @property
    def is_exact(self) -> bool:
        """Whether any two numbers have different values in single precision."""
        ends = np.iinfo(self.dtype)
        largest = np.maximum(abs(self.gain * ends.min + self.bias), abs(self.gain * ends.max + self.bias))
        return bool((abs(self.gain) > 2 * np.spacing(largest.astype(np.float32))).all())


def values_of(X: NDArray, digital: Digital | None) -> NDArray[np.float32]:
    """The values of samples that are integers or values already."""
    return X if digital is None or X.dtype.kind == "f" else digital.values(X)


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

    @property
    def names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    @property
    def duration_s(self) -> float:
        return self.n / self.rate * (1 + self.drift_ppm * 1e-6)


class ProcessLocal:
    """Objects that are pickled without the attributes that begin with "_"; `_reset` creates these again."""

    def _reset(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()


class Source(ABC):
    """Rows of numbers in a file, one for each sample and one column for each channel; it can be pickled."""

    path: str
    format: str

    @abstractmethod
    def rows(self, first: int, last: int, columns: list[int]) -> NDArray[np.floating]:
        """Rows first to last (not included) of some columns, (last - first, len(columns))."""

    @property
    def digital(self) -> Digital | None:
        """The scale of the integers that `numbers` returns; None if it returns none."""
        return None

    def numbers(self, first: int, last: int, columns: list[int]) -> NDArray[np.integer]:
        """The same as stored, C-contiguous; only where `digital` is not None."""
        raise NotImplementedError


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
        return self._read(self.source.rows, np.dtype(np.float32), first, last, columns)

    @property
    def digital(self) -> Digital | None:
        return self.source.digital

    def read_digital(self, first: int, last: int, columns: Sequence[int]) -> NDArray[np.integer]:
        assert self.digital is not None
        return self._read(self.source.numbers, self.digital.dtype, first, last, columns)

    def _read(self, rows: Callable, empty: np.dtype, first: int, last: int, columns: Sequence[int]) -> NDArray:
        check_span(self, first, last)
        if first == last or not len(columns):
            return np.empty((last - first, len(columns)), empty)
        with refusing(self.source.path, self.source.format):
            return rows(self.first_row + first, self.first_row + last, [int(column) for column in columns])


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


def check_file(path: str, format: str) -> int:
    """Size in bytes of a file that exists and holds something; anything else is refused."""
    if os.path.isdir(path):
        raise DataError(f"{path!r} is a directory, and {format} is one file: name the file in it.")
    if not os.path.exists(path):
        raise DataError(f"there is no file {path!r}: check the name, or the directory that it is relative to.")
    size = os.path.getsize(path)
    if size == 0:
        raise DataError(f"{path!r} is empty (0 bytes), and {format} begins with a header: copy or export it again.")
    return size


def check_sidecar(path: str, named_by: str, holds: str) -> int:
    """Size in bytes of a file that another one names and cannot do without."""
    if not os.path.isfile(path):
        raise DataError(
            f"{named_by!r} keeps its {holds} in {os.path.basename(path)!r}, which is not beside it: "
            "put both files into one directory, under the names they were written with."
        )
    return os.path.getsize(path)


def optional(package: str, extra: str, format: str) -> Any:
    """The imported package, or an error that names the extra which brings it."""
    if sys.modules.get(package) is not None:
        return sys.modules[package]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package about its own dependencies
            return importlib.import_module(package)
    except ImportError as error:
        top = package.split(".")[0]
        raise SettingsError(f"reading {format} needs {top}: pip install 'dlcca[{extra}]' ({error}).") from error


@contextmanager
def refusing(path: str, format: str) -> Iterator[None]:
    """Turn whatever a library raises about a file into a `DataError` that names the file."""
    try:
        yield
    except DlccaError:
        raise
    except Exception as error:  # libraries of formats raise all kinds: struct.error, KeyError, AssertionError, ...
        found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError(
            f"{path!r} cannot be read as {format} ({found}): check that it is one and complete, or export it again."
        ) from error


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    """Refuse an unknown value of an option."""
    if value not in known:
        raise SettingsError(f"{name} = {value!r} is not known; {suggest(value, known)}")


def check_span(signal: Signal, first: int, last: int) -> None:
    """Refuse samples that a signal does not have: a break, or another signal, may lie behind its end."""
    if not 0 <= first <= last <= signal.n:
        raise DataError(f"samples {first} to {last} were requested of a signal that has {signal.n}.")
