"""The paper's movies: coupled pendulums (Section VII-B), and rotating icons (VII-C), one of them in every movie."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dlcca.simulate.truth import Seed, Truth, circle, random_projection, with_noise

#: The frame: 20 x 40 pixels as in the paper; the coupled pendulum on the left, the private one on the right.
HEIGHT, WIDTH = 20, 40
PIVOTS = (10.0, 30.0)
GRAVITY = 9.81

#: Which icons each of three movies shows; icon 1 is common. In scene 2 every pair of movies shares a further one.
SCENES: dict[int, list[tuple[int, ...]]] = {1: [(1, 0), (1, 2), (1, 3)], 2: [(1, 0, 2), (1, 2, 3), (1, 3, 0)]}
#: Degrees per frame of the four icons, in the paper.
SPEEDS = (4.0, 6.0, 10.0, 15.0)

Picture = Callable[[NDArray, NDArray], NDArray]


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


def icons(
    n: int = 300,
    *,
    scene: int = 1,
    speeds: Sequence[float] = SPEEDS,
    pictures: str = "drawn",
    size: int = 24,
    n_projections: int | None = 200,
    noise: float = 0.0,
    random_state: Seed = None,
) -> tuple[list[NDArray[np.float64]], Truth]:
    """Three movies of icons that rotate, each at a speed of its own.

    Parameters
    ----------
    n : frames
    scene : 1, each movie has the common icon and a private one; 2, every two movies share another icon as well
    speeds : degrees per frame of the four icons; the second is the common one
    pictures : "drawn" (mushroom and three others, always the same), or "random" (smooth random pictures)
    size : pixels along an icon's side
    n_projections : random directions on which the pixels are projected; None for the pixels
    noise : sensor noise as a share of the views' spread

    Returns
    -------
    views : three arrays (n, n_projections)
    truth : ``z`` (n, 2) cosine and sine of the common icon's angle, ``nuisance`` per view (n, 2 x its other icons),
        ``speeds`` (4,) degrees per frame, ``common`` = 1, ``shown`` per view the icons in it, ``movies``
    """
    if scene not in SCENES:
        raise ValueError(f"scene is 1 or 2, not {scene!r}")
    if pictures not in ("drawn", "random"):
        raise ValueError(f"pictures is 'drawn' or 'random', not {pictures!r}")
    rng = np.random.default_rng(random_state)
    start = rng.uniform(0, 2 * np.pi, 4)
    angles = start + np.outer(np.arange(n), np.deg2rad(speeds))
    drawn = DRAWN if pictures == "drawn" else [random_picture(rng) for _ in range(4)]
    rotating = [_rotate(picture, angles[:, i], size) for i, picture in enumerate(drawn)]
    movies = [np.concatenate([rotating[i] for i in shown], axis=2) for shown in SCENES[scene]]
    views = [random_projection(movie.reshape(n, -1), n_projections, rng) for movie in movies]
    circles = [circle(angles[:, i]) for i in range(4)]
    truth = Truth(
        z=circles[1],
        nuisance=[np.hstack([circles[i] for i in shown[1:]]) for shown in SCENES[scene]],
        speeds=np.asarray(speeds, dtype=float),
        common=1,
        shown=SCENES[scene],
        movies=movies,
    )
    return with_noise(views, noise, rng), truth


def _rotate(picture: Picture, angles: NDArray, size: int) -> NDArray:
    """A movie (n, size, size): the picture is a function of the plane, so that turning it blurs nothing."""
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    x, y = axis[None, :], -axis[:, None]
    c, s = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    return picture(c * x + s * y, c * y - s * x)


def random_picture(rng: np.random.Generator, bumps: int = 6) -> Picture:
    """A smooth picture: a few round bumps of random place, size and brightness within the unit disc."""
    radius, turn = 0.75 * np.sqrt(rng.uniform(0, 1, bumps)), rng.uniform(0, 2 * np.pi, bumps)
    places = np.column_stack([radius * np.cos(turn), radius * np.sin(turn)])
    widths, heights = rng.uniform(0.25, 0.5, bumps), rng.uniform(0.3, 1.0, bumps)

    def picture(x: NDArray, y: NDArray) -> NDArray:
        parts = [h * _blob(x, y, at, w) for h, at, w in zip(heights, places, widths, strict=True)]
        return np.sum(parts, axis=0)

    return picture


def _blob(x: NDArray, y: NDArray, at: Sequence[float] | NDArray, width: float) -> NDArray:
    return np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * width**2))


def _soft(inside: NDArray, edge: float = 0.12) -> NDArray:
    """1 well inside (positive), 0 well outside, with an edge some pixels wide."""
    return 1 / (1 + np.exp(-np.clip(inside / edge * 4, -40, 40)))


def _mushroom(x: NDArray, y: NDArray) -> NDArray:
    """Bright, large and very soft: in a short window its turning is the largest change of every movie."""
    edge, brim = 0.6, 0.1
    cap = _soft(0.7 - np.hypot(x, (y - brim) * 1.2), edge) * _soft(y - brim + 0.05, edge)
    stem = _soft(0.2 - np.abs(x), edge) * _soft(brim + 0.05 - y, edge) * _soft(y + 0.6, edge)
    return 2.0 * cap + 0.6 * stem


def _moon(x: NDArray, y: NDArray) -> NDArray:
    return 0.5 * _soft(0.6 - np.hypot(x, y)) * _soft(np.hypot(x - 0.35, y) - 0.5)


def _turtle(x: NDArray, y: NDArray) -> NDArray:
    shell = _soft(0.45 - np.hypot(x * 0.8, y))
    legs = np.sum([_blob(x, y, (a, b), 0.12) for a in (-0.4, 0.4) for b in (-0.45, 0.45)], axis=0)
    return 0.4 * shell + 0.4 * legs + 0.5 * _blob(x, y, (0.7, 0.0), 0.13)


def _flower(x: NDArray, y: NDArray) -> NDArray:
    petals = _soft(0.45 + 0.22 * np.cos(5 * np.arctan2(y, x)) - np.hypot(x, y))
    return 0.5 * petals + 0.4 * _blob(x, y, (0.0, -0.75), 0.12)


#: moon, mushroom (the common one), turtle, flower
DRAWN: list[Picture] = [_moon, _mushroom, _turtle, _flower]
