"""Runs of equal values that go on from one block to the next, from what each block notes of its two ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LongRun:
    """Equal samples of a channel around the border of blocks, as far as those matter that no block sees alone."""

    piece: int
    channel: int
    first: int  # sample of the piece
    last: int  # one after
    value: float


class JoinedRuns:
    """Runs of at least ``least`` samples across the borders of blocks, which come in their order.

    Each block says how many equal samples it begins and ends with, up to ``most``: a run that is longer on one side is
    seen there.
    """

    def __init__(self, least: int, most: int, judged: NDArray[np.bool_]) -> None:
        self.least, self.most, self.judged = least, most, judged
        self.found: list[LongRun] = []
        self._piece, self._end = -1, -1  # up to where the block before reached
        self._value: NDArray = np.full(len(judged), np.nan)
        self._length: NDArray = np.zeros(len(judged), np.int64)

    def add(self, piece: int, own: list[int], values: NDArray, lengths: NDArray) -> None:
        """A block's own samples of a piece: from, to; the first and last values (2, c), and how long they stay."""
        first, last = own
        goes_on = (values[0] == self._value) & (piece == self._piece and first == self._end)
        before = np.where(goes_on, self._length, 0)
        both = before + lengths[0]
        for c in np.flatnonzero(goes_on & self.judged & (both >= self.least) & (self.least > 0)):
            ends = first - int(before[c]), first + int(lengths[0, c])
            self.found.append(LongRun(piece, int(c), *ends, float(values[0, c])))
        through = goes_on & (lengths[1] == last - first)  # all of the block is one run
        self._piece, self._end, self._value = piece, last, values[1]
        self._length = np.where(through, np.minimum(both, self.most), lengths[1])
