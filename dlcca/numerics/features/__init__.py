"""Features of windows of a recording, one kind in each file.

Each kind is a small class with four methods:

- ``draft(X)`` turns windows (w, s, c) of s samples of c channels into numbers (w, d), whatever the channels' scale. X
  may be a view in which windows overlap, and the draft of raw samples a view of X;
- ``finished(F, center, scale)`` turns these into the features of ``(X - center) / scale``. So the scale of the channels
  need not be known yet when the samples are read, and they are read once;
- ``columns(center, scale)`` says the same as `Columns`, where it is as simple as that: then drafts can be kept as they
  are, and finished whenever they are read. None where it is not;
- ``names(channels)`` says in words what each of the d features is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from numpy.typing import NDArray

from dlcca.numerics.features.columns import Columns


class Feature(Protocol):
    """What every kind of feature can do."""

    def draft(self, X: NDArray) -> NDArray: ...
    def finished(self, F: NDArray, center: NDArray, scale: NDArray) -> NDArray: ...
    def columns(self, center: NDArray, scale: NDArray) -> Columns | None: ...
    def names(self, channels: Sequence[str]) -> list[str]: ...
