"""Frames made small: a region of interest, averages of blocks of pixels, and a random projection."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import SettingsError

_KEPT_BYTES = 1 << 28  # a projection up to this size is kept; a larger one is made anew for each batch of frames
_PIXELS = 1 << 14  # rows of the projection made at once
_BATCH_BYTES = 1 << 26  # of frames that are projected together


@dataclass(frozen=True)
class Shrinking:
    """Which pixels of a frame (height, width) or (height, width, colours) are kept, and at what size."""

    height: int
    width: int
    colours: int  # 1 or 3
    roi: tuple[int, int, int, int] | None = None  # top, bottom, left, right; bottom and right not included
    scale: int = 1  # pixels along the side of a block that is averaged

    def __post_init__(self) -> None:
        top, bottom, left, right = self.bounds
        if not (0 <= top < bottom <= self.height and 0 <= left < right <= self.width):
            raise SettingsError(
                f"roi = {self.bounds} (top, bottom, left, right) does not lie in frames of {self.height} rows and "
                f"{self.width} columns."
            )
        if min(self.shape[:2]) == 0:
            there = f"{bottom - top} rows and {right - left} columns"
            raise SettingsError(f"scale = {self.scale} leaves no pixel of {there}: make it smaller.")

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        return (0, self.height, 0, self.width) if self.roi is None else self.roi

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and colours that are left; rows and columns that do not fill a block are cut off."""
        top, bottom, left, right = self.bounds
        return (bottom - top) // self.scale, (right - left) // self.scale, self.colours

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def of(self, frame: NDArray[np.integer]) -> NDArray[np.float32]:
        """The pixels that are left of a frame, row by row, (size,)."""
        rows, columns, colours = self.shape
        top, _, left, _ = self.bounds
        s = self.scale
        part = frame[top : top + rows * s, left : left + columns * s]
        if s == 1:
            return part.reshape(-1).astype(np.float32)
        sums = part.reshape(rows, s, columns * s * colours).sum(axis=1, dtype=np.uint32)
        sums = sums.reshape(rows, columns, s, colours).sum(axis=2, dtype=np.uint32)
        return sums.reshape(-1).astype(np.float32) / np.float32(s * s)

    def names(self) -> list[str]:
        """A name for each pixel that is left: its row and column, and its colour where there are three."""
        rows, columns, colours = self.shape
        letters = ["", ""] if colours == 1 else [".r", ".g", ".b"]
        return [f"{i}.{j}{letters[c]}" for i in range(rows) for j in range(columns) for c in range(colours)]


class Projection:
    r"""A random projection from D numbers to d: :math:`y = x R`, entries of R normal with variance 1/d.

    Distances are kept up to a factor of about :math:`1 \pm 1/\sqrt{2d}`. R is made in blocks of rows, each from the
    seed and its number, so that it need not be held: it is the same in every process and for every cut of the frames.
    """

    def __init__(self, D: int, d: int, seed: int) -> None:
        self.D, self.d, self.seed = D, d, seed
        self._kept: list[NDArray[np.float32]] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"D": self.D, "d": self.d, "seed": self.seed, "_kept": None}

    @property
    def batch(self) -> int:
        """Frames to project together."""
        return max(1, _BATCH_BYTES // (4 * self.D))

    def of(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """(k, D) to (k, d)."""
        Y = np.zeros((len(X), self.d), np.float32)
        for i, R in enumerate(self._blocks()):
            Y += X[:, i * _PIXELS : (i + 1) * _PIXELS] @ R
        return Y

    def _blocks(self) -> Iterable[NDArray[np.float32]]:
        if 4 * self.D * self.d > _KEPT_BYTES:
            return self._made()
        if self._kept is None:
            self._kept = list(self._made())
        return self._kept

    def _made(self) -> Iterable[NDArray[np.float32]]:
        for i, first in enumerate(range(0, self.D, _PIXELS)):
            rows = min(_PIXELS, self.D - first)
            rng = np.random.default_rng([self.seed, i])
            yield rng.standard_normal((rows, self.d), dtype=np.float32) / np.float32(np.sqrt(self.d))
