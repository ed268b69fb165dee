"""Three and more views of which some variables are in all, and some in a few only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.simulate.truth import Seed, Truth, with_noise


def overlapping(
    n: int = 5000,
    *,
    shared: Sequence[Sequence[int]] = ((0, 1, 2), (0, 1)),
    n_views: int = 3,
    n_private: int = 1,
    circles: bool = False,
    smoothness: float = 0.0,
    noise: float = 0.0,
    random_state: Seed = None,
) -> tuple[list[NDArray[np.float64]], Truth]:
    """Views that mix, each by a random matrix, the variables that they share with some others and their own.

    Parameters
    ----------
    n : samples
    shared : a variable for each entry, which names the views that hold it, counted from 0
    n_views, n_private : views, and variables that each has for itself
    circles : every variable is an angle, seen as its cosine and sine; else a number, seen as it is
    smoothness : how much a sample is like the one before it, 0 to 1
    noise : sensor noise as a share of the views' spread

    Returns
    -------
    views : arrays (n, d_v), with one channel more than they have variables (or cosines and sines)
    truth : ``variables`` a list with an array (n, 1), or (n, 2) of circles, for each entry of ``shared``; ``z`` those
        that all views hold, side by side; ``nuisance`` per view its own
    """
    for views_of in shared:
        if not set(views_of) <= set(range(n_views)):
            raise ValueError(f"shared names the views {tuple(views_of)}; there are 0 to {n_views - 1}")
    rng = np.random.default_rng(random_state)

    def variable() -> NDArray:
        u = _uniform(n, smoothness, rng)
        return np.column_stack([np.cos(np.pi * u), np.sin(np.pi * u)]) if circles else u[:, None]

    variables = [variable() for _ in shared]
    private = [np.hstack([np.empty((n, 0)), *(variable() for _ in range(n_private))]) for _ in range(n_views)]
    views = []
    for v, own in enumerate(private):
        held = np.hstack([*(z for z, views_of in zip(variables, shared, strict=True) if v in views_of), own])
        J, _ = np.linalg.qr(rng.standard_normal((held.shape[1] + 1, held.shape[1])))
        views.append(held @ (J * rng.uniform(0.7, 1.4, J.shape[1])).T)
    in_all = [z for z, views_of in zip(variables, shared, strict=True) if len(set(views_of)) == n_views]
    truth = Truth(z=np.hstack([np.empty((n, 0)), *in_all]), nuisance=private, variables=variables, shared=list(shared))
    return with_noise(views, noise, rng), truth


def _uniform(n: int, smoothness: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Numbers between -1 and 1, all equally likely: independent, or smooth in time."""
    if smoothness == 0:
        return rng.uniform(-1, 1, n)
    from scipy.signal import lfilter
    from scipy.special import ndtr

    steps = rng.standard_normal(n)
    start = [smoothness * rng.standard_normal()]
    normal, _ = lfilter([np.sqrt(1 - smoothness**2)], [1, -smoothness], steps, zi=np.array(start))
    return np.asarray(2 * ndtr(normal) - 1, np.float64)
