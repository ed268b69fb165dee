"""Section VII-B: two movies of coupled pendulums, each of which may show a private pendulum too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dlcca.simulate.truth import Seed, Truth, random_projection, with_noise

#: The frame: 20 x 40 pixels as in the paper; the coupled pendulum on the left, the private one on the right.
HEIGHT, WIDTH = 20, 40
PIVOTS = (10.0, 30.0)
GRAVITY = 9.81


def pendulums(
    n: int = 400,
    *,
    swing: float = 2.0,
    private: bool = False,
    length: float = 0.25,
    spring: float = 30.0,
    step_s: float = 0.0125,
    n_projections: int | None = 200,
    noise: float = 0.0,
    random_state: Seed = None,
) -> tuple[list[NDArray[np.float64]], Truth]:
    r"""Movies of two pendulums of equal length and mass that a spring couples, in the linear regime.

    :math:`u_{1,2}(t) = \frac\delta2 \cos\omega_1 t \pm \frac\delta2 \cos\omega_2 t` with
    :math:`\omega_1 = \sqrt{g/L}` and :math:`\omega_2 = \sqrt{g/L + 2k/m}`. With ``private`` each movie also shows a
    pendulum of its own, at :math:`\omega_3 = \omega_1/5` in the first and :math:`\omega_4 = 4\omega_1` in the second.

    Parameters
    ----------
    n : frames
    swing : largest displacement δ of the bobs, pixels
    private : show a private pendulum in each movie
    length, spring : L in metres, k/m in 1/s²
    step_s : seconds between frames
    n_projections : random directions on which the 800 pixels are projected; None for the pixels
    noise : sensor noise as a share of the views' spread

    Returns
    -------
    views : two arrays (n, n_projections)
    truth : ``z`` (n, 1) displacement of the first pendulum, ``displacement`` (n, 2), ``nuisance`` per view (n, 1),
        ``omega`` (4,) in radians per second, ``time`` (n,) seconds, ``movies`` (2, n, 20, 40)
    """
    rng = np.random.default_rng(random_state)
    time = np.arange(n) * step_s
    slow, fast = np.sqrt(GRAVITY / length), np.sqrt(GRAVITY / length + 2 * spring)
    omega = np.array([slow, fast, slow / 5, 4 * slow])
    swings = swing / 2 * np.cos(np.outer(time, omega[:2]))
    displacement = swings @ np.array([[1.0, 1.0], [1.0, -1.0]])
    alone = swing * np.cos(np.outer(time, omega[2:]))
    movies = np.stack([_bob(displacement[:, v], PIVOTS[0]) for v in range(2)])
    if private:
        movies += np.stack([_bob(alone[:, v], PIVOTS[1]) for v in range(2)])
    views = [random_projection(movie.reshape(n, -1), n_projections, rng) for movie in movies]
    truth = Truth(
        z=displacement[:, :1],
        displacement=displacement,
        nuisance=[alone[:, [v]] if private else None for v in range(2)],
        omega=omega,
        time=time,
        movies=movies,
    )
    return with_noise(views, noise, rng), truth


def _bob(u: NDArray, pivot: float, width: float = 3.0) -> NDArray:
    """A movie (n, 20, 40) of a rod and a bob, soft-edged, hanging from the top with the bob at ``pivot + u``."""
    row, column = np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
    depth = 15.0
    bob = np.exp(-((column - pivot - u[:, None, None]) ** 2 + (row - depth) ** 2) / (2 * width**2))
    lean = u[:, None, None] * row / depth
    rod = np.exp(-((column - pivot - lean) ** 2) / (2 * 0.6**2)) * (row < depth)
    return np.maximum(bob, 0.4 * rod)
