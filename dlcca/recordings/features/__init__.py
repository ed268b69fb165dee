"""Features of windows of a recording, one kind in each file.

Each kind is a small class with these methods:

- ``draft(X, gain)`` turns windows (w, s, c) of s samples of c channels into numbers (w, d), whatever their scale.
  X may be a view in which windows overlap, and the draft of raw samples a view of X. X may be the whole numbers that a
  converter gave: then ``gain`` (c,) is the value of one, and the draft that of the values but for raw samples, which
  stay whole numbers. What is added to all values of a channel does not matter to the others;
- ``finished(F, center, scale)`` turns these into the features of ``(X - center) / scale``. So the scale of the channels
  need not be known yet when the samples are read, and they are read once;
- ``columns(center, scale)`` says the same as `Columns`, where it is as simple as that: then drafts can be kept as they
  are, and finished whenever they are read. None where it is not;
- ``width(channels)`` says how many they are, and ``names(channels)`` in words what each of the d features is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from numpy.typing import NDArray

from dlcca.recordings.features.columns import Columns


class Feature(Protocol):
    """What every kind of feature can do."""

    def draft(self, X: NDArray, gain: NDArray | None = None) -> NDArray: ...
    def finished(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray: ...
    def columns(self, center: NDArray, scale: NDArray) -> Columns | None: ...
    def width(self, channels: int) -> int: ...
    def names(self, channels: Sequence[str]) -> list[str]: ...
