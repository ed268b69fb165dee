"""Samples of a block, read once from a file for all views that want some of its channels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, DlccaError
from dlcca.recordings.formats.recording import Digital, Signal
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.timeline import File, Opener, Piece

#: File, number of the signal, and whether as whole numbers.
Key = tuple[File, int, bool]
#: Finds something of samples (n, c), and of what they are if they are whole numbers; channels are the last axis.
Finds = Callable[[NDArray, Digital | None], tuple[NDArray, ...]]


@dataclass(frozen=True)
class Asked:
    """Samples of a piece: from ``low`` up to ``high``, as whole numbers or as values."""

    piece: Piece
    low: int
    high: int
    as_numbers: bool

    @property
    def key(self) -> Key:
        return self.piece.file, self.piece.signal, self.as_numbers

    def signal(self, opener: Opener) -> Signal:
        return self.piece.file.open(opener).signals[self.piece.signal]


class Reads:
    """What is read for one block; readers that unpack all channels at once need not do it for every view."""

    def __init__(self, job: IngestJob) -> None:
        self.job = job
        self.columns: dict[tuple[Key, Hashable], list[int]] = {}  # None: those of all wishes
        self.held: dict[Key, tuple[int, int, NDArray]] = {}
        self.found: dict[tuple[Any, ...], tuple[NDArray, ...]] = {}

    def expect(self, piece: Piece, as_numbers: bool, wish: Hashable) -> None:
        """Say that a piece will be asked for, so that its channels are read with those of others.

        A ``wish`` is what will be found of them, together with that of others of the same wish.
        """
        for kind in (None, wish):
            known = self.columns.setdefault(((piece.file, piece.signal, as_numbers), kind), [])
            known += [column for column in piece.columns if column not in known]

    def samples(self, asked: Asked) -> NDArray:
        """Samples (high - low, c): float32, or whole numbers as they are in the file."""
        return self._all(asked)[:, _places(asked.piece.columns, self.columns[asked.key, None])]

    def together(self, what: Hashable, finds: Finds, asked: Asked, wish: Hashable = None) -> list[NDArray]:
        """What is found of samples; found once for all channels that are held, or for all of one wish.

        Many channels that lie side by side take little longer than few.
        """
        columns = self.columns[asked.key, wish]
        place = (what, asked.key, asked.low, asked.high, wish)
        if place not in self.found:
            digital = asked.signal(self.job.opener).digital if asked.as_numbers else None
            X = self._all(asked)[:, _places(columns, self.columns[asked.key, None])]
            self.found[place] = finds(X, None if digital is None else digital.of(columns))
        at = _places(asked.piece.columns, columns)
        return [part[..., at] for part in self.found[place]]

    def _all(self, asked: Asked) -> NDArray:
        """The samples of all channels that are expected."""
        first, last, X = self.held.get(asked.key, (0, 0, np.empty((0, 0), np.float32)))
        if not first <= asked.low < asked.high <= last:
            first, last, X = asked.low, asked.high, self._read(asked, self.columns[asked.key, None])
            self.held[asked.key] = first, last, X
        return X[asked.low - first : asked.high - first]

    def _read(self, asked: Asked, columns: list[int]) -> NDArray:
        signal, low, high = asked.signal(self.job.opener), asked.low, asked.high
        try:
            X = (signal.read_digital if asked.as_numbers else signal.read_single)(low, high, columns)
        except (DlccaError, OSError):
            raise
        except Exception as error:
            path = asked.piece.file.path
            raise DataError(f"{path} cannot be read in samples {low} to {high - 1}: {error}") from error
        if X.shape != (high - low, len(columns)):
            raise DataError(
                f"{asked.piece.file.path} gave {X.shape} for samples {low} to {high - 1} of {len(columns)} channels; "
                "is it shorter than its header says?"
            )
        return X


def _places(some: Sequence[int], columns: list[int]) -> slice | list[int]:
    """Where some columns are among others; a slice of neighbours is not copied."""
    places = {column: place for place, column in enumerate(columns)}
    at = [places[column] for column in some]
    begin, end = at[0], at[-1] + 1
    return slice(begin, end) if at == list(range(begin, end)) else at
