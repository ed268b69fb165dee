"""Samples of a block, read once from a file for all views that want some of its channels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, DlccaError
from dlcca.numerics import runs
from dlcca.stages.ingest_job import IngestJob
from dlcca.stages.timeline import File, Piece

Key = tuple[File, int]


class Reads:
    """What is read for one block; readers that unpack all channels at once need not do it for every view."""

    def __init__(self, job: IngestJob) -> None:
        self.job = job
        self.columns: dict[Key, list[int]] = {}
        self.held: dict[Key, tuple[int, int, NDArray]] = {}
        self.found: dict[tuple[Key, int, int], tuple[NDArray, NDArray]] = {}

    def expect(self, piece: Piece) -> None:
        """Say that a piece will be asked for, so that its channels are read with those of others."""
        known = self.columns.setdefault((piece.file, piece.signal), [])
        known += [column for column in piece.columns if column not in known]

    def samples(self, piece: Piece, low: int, high: int) -> NDArray:
        """Samples (high - low, c) of a piece, float32."""
        key = piece.file, piece.signal
        columns = self.columns.get(key, list(piece.columns))
        first, last, X = self.held.get(key, (0, 0, np.empty((0, 0), np.float32)))
        if not first <= low < high <= last:
            first, last, X = low, high, self._read(piece, low, high, columns)
            self.held[key] = first, last, X
        at = [columns.index(column) for column in piece.columns]
        begin, end = at[0], at[-1] + 1
        # Neighbours are not copied: what goes over them all goes over what lies between them too.
        return X[low - first : high - first, slice(begin, end) if at == list(range(begin, end)) else at]

    def extremes(self, piece: Piece, low: int, high: int) -> tuple[NDArray, NDArray]:
        """The largest and the smallest values of these samples, (c,) each: found for all channels that are held."""
        key = piece.file, piece.signal
        self.samples(piece, low, high)
        first, _, X = self.held[key]
        if (key, low, high) not in self.found:
            self.found[key, low, high] = runs.extremes(X[low - first : high - first])
        columns = self.columns.get(key, list(piece.columns))
        at = [columns.index(column) for column in piece.columns]
        top, bottom = self.found[key, low, high]
        return top[at], bottom[at]

    def _read(self, piece: Piece, low: int, high: int, columns: list[int]) -> NDArray:
        signal = piece.file.open(self.job.opener).signals[piece.signal]
        try:
            X = signal.read_single(low, high, columns)
        except (DlccaError, OSError):
            raise
        except Exception as error:
            raise DataError(f"{piece.file.path} cannot be read in samples {low} to {high - 1}: {error}") from error
        if X.shape != (high - low, len(columns)):
            raise DataError(
                f"{piece.file.path} gave {X.shape} for samples {low} to {high - 1} of {len(columns)} channels; is it "
                "shorter than its header says?"
            )
        return X
