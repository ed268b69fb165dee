"""Section VII-A: the metric at the middle point against the average of the metrics at both ends."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dlcca import simulate
from dlcca.numerics.distances import end_distances, middle_distances
from dlcca.reproduce import figures
from dlcca.reproduce.measures import correlation
from dlcca.reproduce.results import Plate, Row, Section, at_least, at_most, reported

N = 400
TITLE = "VII-A. Comparison of local metrics"
TEXT = (
    f"{N} samples of z, uniform on a square, are seen through x = (z₁² − z₂, z₁ + √z₂). With exact local covariances, "
    "D (the metric at the middle point of a pair) and Q (the average of the metrics at its ends) estimate |zᵢ − zⱼ|², "
    "for all pairs."
)


def run(say: Callable[[str], None] = print) -> Section:
    """Compare the two estimates with the truth, and draw them."""
    (X,), truth = simulate.metric_square(N, random_state=0)
    factor_at = lambda x: exact_factors(truth.jacobian_at(x))  # noqa: E731
    D, Q = middle_distances(X, factor_at), end_distances(X, factor_at(X))
    pairs = np.triu_indices(N, 1)
    true = np.square(truth.z[pairs[0]] - truth.z[pairs[1]]).sum(axis=1)
    section = Section(TITLE, TEXT, rows(true, D[pairs], Q[pairs]), draw(truth.z, X, true, D[pairs], Q[pairs]))
    say(f"{TITLE}: corr {section.rows[0].got} (middle point), {section.rows[1].got} (both ends)")
    return section


def exact_factors(J: NDArray) -> NDArray:
    """F (p, 2, 2) with F Fᵀ = (J Jᵀ)⁻¹: the local covariance of x is J Jᵀ times that of z."""
    return np.swapaxes(np.linalg.inv(J), 1, 2)


def rows(true: NDArray, D: NDArray, Q: NDArray) -> list[Row]:
    error = lambda estimate: float(np.median(np.abs(estimate - true) / true))  # noqa: E731
    return [
        at_least("VII-A middle point D: corr with |zᵢ − zⱼ|²", correlation(D, true), 0.98),
        at_most("VII-A average of ends Q: corr with |zᵢ − zⱼ|²", correlation(Q, true), 0.90),
        reported("VII-A middle point D: median relative error", f"{error(D):.3f}"),
        reported("VII-A average of ends Q: median relative error", f"{error(Q):.3f}"),
    ]


def draw(z: NDArray, X: NDArray, true: NDArray, D: NDArray, Q: NDArray) -> list[Plate]:
    sets = "The hidden samples z and the observations x, both coloured by z₁."
    scatter = "Estimated against true squared distance, one dot for each pair; dashed: equality."
    estimates = {"(a) average of the ends, Q": Q, "(b) middle, D": D}
    return [
        Plate("square_sets.png", sets, figures.point_sets(z, X)),
        Plate("square_distances.png", scatter, figures.distance_scatter(true, estimates)),
    ]
