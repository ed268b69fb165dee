"""Problems without movies: each view is a function of the common z and of a nuisance of its own."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.simulate.truth import Seed, Truth, circle, with_noise

Views = list[NDArray[np.float64]]


def metric_square(n: int = 400, *, random_state: Seed = None) -> tuple[Views, Truth]:
    r"""Section VII-A: one view :math:`x = (z_1^2 - z_2,\; z_1 + \sqrt{z_2})` of z uniform on the square [0, 2]².

    ``truth.jacobian_at(x)`` gives the exact Jacobians (p, 2, 2) of the observation function at points (p, 2) of the
    observed space, from which exact local covariances follow.
    """
    z = np.random.default_rng(random_state).uniform(0, 2, (n, 2))
    X = np.column_stack([z[:, 0] ** 2 - z[:, 1], z[:, 0] + np.sqrt(z[:, 1])])
    return [X], Truth(z=z, nuisance=[None], jacobian_at=_square_jacobian)


def _square_jacobian(x: NDArray) -> NDArray:
    """Jacobians at points (p, 2) of the observed space, where the hidden z is found by inverting the function."""
    # With t = √z₂: z₁ = x₂ - t and (x₂ - t)² - t² = x₁, so t = (x₂² - x₁) / (2 x₂), in closed form.
    t = np.maximum((x[:, 1] ** 2 - x[:, 0]) / (2 * x[:, 1]), 1e-6)
    z1 = x[:, 1] - t
    one = np.ones_like(t)
    return np.stack([np.stack([2 * z1, -one], axis=1), np.stack([one, 1 / (2 * t)], axis=1)], axis=1)


def torus(
    n: int = 5000, *, common: str = "small", noise: float = 0.0, random_state: Seed = None
) -> tuple[Views, Truth]:
    """Two tori in three dimensions. They share one angle; the other angle of each is its own.

    Parameters
    ----------
    common : the circle on which the shared angle runs, "small" (the nuisance moves a sample much farther) or "big"
    noise : sensor noise as a share of the views' spread

    The truth's ``z`` and ``nuisance`` are (n, 2): cosine and sine of the angle. ``truth.angle`` is the angle itself.
    """
    if common not in ("small", "big"):
        raise ValueError(f"common is 'small' or 'big', not {common!r}")
    rng = np.random.default_rng(random_state)
    angle, *private = rng.uniform(0, 2 * np.pi, (3, n))
    views = [_torus(angle, e) if common == "small" else _torus(e, angle) for e in private]
    truth = Truth(z=circle(angle), nuisance=[circle(e) for e in private], angle=angle)
    return with_noise(views, noise, rng), truth


def _torus(small: NDArray, big: NDArray, radius: float = 1.0, distance: float = 2.5) -> NDArray:
    ring = distance + radius * np.cos(small)
    return np.column_stack([ring * np.cos(big), ring * np.sin(big), radius * np.sin(small)])


def spiral(n: int = 5000, *, noise: float = 0.0, random_state: Seed = None) -> tuple[Views, Truth]:
    """A flat sheet and a rolled one: z runs along both, and across each runs a nuisance of its own."""
    rng = np.random.default_rng(random_state)
    z, e1, e2 = rng.uniform(0, 1, (3, n))
    turn = 3 * np.pi * (0.5 + z)
    sheet = np.column_stack([z + 0.1 * np.sin(4 * np.pi * e1), e1, 0.2 * np.cos(2 * np.pi * e1)])
    roll = np.column_stack([turn * np.cos(turn), turn * np.sin(turn), 15 * e2]) / 15
    return with_noise([sheet, roll], noise, rng), _scalar_truth(z, e1, e2)


def swiss_roll(n: int = 5000, *, noise: float = 0.0, random_state: Seed = None) -> tuple[Views, Truth]:
    """Two rolled sheets of different winding that share the variable along the roll."""
    rng = np.random.default_rng(random_state)
    z, e1, e2 = rng.uniform(0, 1, (3, n))
    views = []
    for e, first, turns in ((e1, 1.5, 3.0), (e2, 2.0, 2.5)):
        t = np.pi * (first + turns * z)
        views.append(np.column_stack([t * np.cos(t), 10 * e, t * np.sin(t)]) / 10)
    return with_noise(views, noise, rng), _scalar_truth(z, e1, e2)


def linear(
    n: int = 5000,
    *,
    n_views: int = 2,
    n_common: int = 1,
    n_private: int = 1,
    n_channels: int = 4,
    noise: float = 0.0,
    random_state: Seed = None,
) -> tuple[Views, Truth]:
    """The linear case of Section IV-A: every view mixes the same z with its own nuisance by a random matrix."""
    if n_channels < n_common + n_private:
        raise ValueError(f"{n_common} common and {n_private} private variables need as many channels, not {n_channels}")
    rng = np.random.default_rng(random_state)
    z = rng.uniform(-1, 1, (n, n_common))
    private = [rng.uniform(-1, 1, (n, n_private)) for _ in range(n_views)]
    views = [_mixed(np.hstack([z, e]), n_channels, rng) for e in private]
    return with_noise(views, noise, rng), Truth(z=z, nuisance=private)


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
) -> tuple[Views, Truth]:
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
        return circle(np.pi * u) if circles else u[:, None]

    variables = [variable() for _ in shared]
    private = [np.hstack([np.empty((n, 0)), *(variable() for _ in range(n_private))]) for _ in range(n_views)]
    views = []
    for v, own in enumerate(private):
        held = np.hstack([*(z for z, views_of in zip(variables, shared, strict=True) if v in views_of), own])
        views.append(_mixed(held, held.shape[1] + 1, rng))
    in_all = [z for z, views_of in zip(variables, shared, strict=True) if len(set(views_of)) == n_views]
    truth = Truth(z=np.hstack([np.empty((n, 0)), *in_all]), nuisance=private, variables=variables, shared=list(shared))
    return with_noise(views, noise, rng), truth


def _mixed(variables: NDArray, channels: int, rng: np.random.Generator) -> NDArray:
    """By orthonormal columns, mildly stretched: a mixing that no seed makes nearly singular."""
    J, _ = np.linalg.qr(rng.standard_normal((channels, variables.shape[1])))
    return variables @ (J * rng.uniform(0.7, 1.4, J.shape[1])).T


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


def independent(
    n: int = 5000, *, n_views: int = 2, n_channels: int = 3, smoothness: float = 0.0, random_state: Seed = None
) -> tuple[Views, Truth]:
    """Views that share nothing: white noise, or smooth in time when ``smoothness`` (0 to 1) is above zero."""
    from scipy.signal import lfilter

    rng = np.random.default_rng(random_state)
    white = [rng.standard_normal((n, n_channels)) for _ in range(n_views)]
    views = [lfilter([np.sqrt(1 - smoothness**2)], [1, -smoothness], X, axis=0) for X in white]
    return views, Truth(z=np.empty((n, 0)), nuisance=list(views))


def _scalar_truth(z: NDArray, *private: NDArray) -> Truth:
    return Truth(z=z[:, None], nuisance=[e[:, None] for e in private])
