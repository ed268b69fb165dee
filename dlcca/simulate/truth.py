"""What a simulator knows and the method must find."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Seed = int | np.random.Generator | None


class Truth(dict[str, Any]):
    """A dictionary whose entries are attributes too: ``truth["z"]`` is ``truth.z``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this truth holds {', '.join(self)}, not {name!r}") from None


def with_noise(views: Sequence[NDArray], noise: float, rng: np.random.Generator) -> list[NDArray]:
    """White sensor noise on every channel, of ``noise`` times the root mean variance of the view's channels."""
    if noise == 0:
        return list(views)
    return [X + noise * np.sqrt(X.var(axis=0).mean()) * rng.standard_normal(X.shape) for X in views]


def circle(angle: NDArray) -> NDArray[np.float64]:
    """Cosine and sine (n, 2) of angles (n,)."""
    return np.column_stack([np.cos(angle), np.sin(angle)])


def random_projection(X: NDArray, d: int | None, rng: np.random.Generator) -> NDArray:
    """X (n, p) on d random directions with orthonormal rows; X itself for None."""
    if d is None or d >= X.shape[1]:
        return X
    Q, _ = np.linalg.qr(rng.standard_normal((X.shape[1], d)))
    return X @ Q
