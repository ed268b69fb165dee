"""Fusions: how the views come together in one diffusion step, and the eigenproblem of this step.

`FUSIONS` has the fusions that can be named in settings. Each is a class that says which views it reads, whether it has
one kernel or one for each view, and how the eigenproblem is solved through the landmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import SettingsError
from dlcca.numerics.eigensolvers import (
    GRAM_STEPS,
    MOST_STEPS,
    SMALL,
    gram,
    largest_eigenpairs,
    largest_of_all,
    largest_pairs,
    leading_pairs,
    square_root,
)
from dlcca.numerics.kernels import Kernel, balanced, inverse_root, row_scaled


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues with the trivial 1 first, and what a row needs to find its coordinates (see `coordinates.extend`)."""

    eigenvalues: NDArray[np.float64]  # (q + 1,), falling
    weights: NDArray[np.float64]  # (m,) of the landmarks, positive
    values: NDArray[np.float64]  # (m, q) coordinates of the landmarks


def landmark_spectrum(W: Kernel, q: int, *, solver: str = "gram") -> Spectrum:
    r"""Diffusion coordinates from a kernel between n samples and m landmarks (Algorithm 2, step 4).

    :math:`M = \Omega^{-1/2} W W^T \Omega^{-1/2}` is n x n (W has a row for each sample, the transpose of the
    paper's), but with :math:`A = \Omega^{-1/2} W` its spectrum is that of the m x m matrix :math:`A^T A`: with
    eigenpairs (u, λ) of the latter, :math:`\psi = A u / \sqrt\lambda`. The coordinates are :math:`\psi_l / \psi_0`.

    Parameters
    ----------
    W : (n, m) dense or sparse
    q : coordinates wanted, at most m - 1
    solver : "gram" forms :math:`A^T A`; "lanczos" only multiplies by A

    Returns
    -------
    Spectrum; its eigenvalue 0 is 1 to rounding, which is a check of all that came before
    """
    # Not W.sum: of a sparse float32 matrix it adds in float32, whatever dtype it is given.
    s = W.T @ np.ones(W.shape[0])
    omega = W @ s
    lam, u = leading_pairs(row_scaled(W, inverse_root(omega)), q + 1, solver=solver)
    # ψ_l(j)/ψ_0(j) = Σ_i W_ji u_li/√λ_l / Σ_i W_ji u_0i, and u_0 = s/√(Σ Ω): an average with weights W_ji s_i.
    over_s = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
    values = u[:, 1:] * over_s[:, None] * np.sqrt(omega.sum()) * inverse_root(np.maximum(lam[1:], 0))
    return Spectrum(lam, s, values)


def balanced_spectrum(W: Kernel, q: int, *, solver: str = "gram") -> Spectrum:
    """The same of the balanced kernel, whose coordinates do not depend on how densely landmarks lie.

    Parameters as in `landmark_spectrum`; a row of W may carry a factor of its own.
    """
    A, C = balanced(W)
    plain = landmark_spectrum(A, q, solver=solver)
    return Spectrum(plain.eigenvalues, plain.weights * inverse_root(C), plain.values)


#: A product along a path of views: ((u, v, w), V) -> :math:`A_w^T A_v\, A_v^T A_u\, V`, from (m_u, b) to (m_w, b).
Walk = Callable[[Sequence[int], NDArray], NDArray]


@dataclass(frozen=True)
class AlternatingSpectrum:
    """Singular values with the trivial 1 first, and each view's own reading of the common coordinates."""

    eigenvalues: NDArray[np.float64]  # (q + 1,), falling
    values: list[NDArray[np.float64]]  # per view, (m_v, q) values of the landmarks


def alternating_spectrum(kernels: Sequence[Kernel], q: int, *, solver: str = "gram") -> AlternatingSpectrum:
    r"""Coordinates of what survives a step along every view.

    A view's step is :math:`K_v = A_v A_v^T` with its balanced kernel :math:`A_v`: from a sample to its landmarks and
    back. It is symmetric and doubly stochastic, so the product :math:`K_1 K_2 \cdots K_K` has the singular value 1 with
    constant vectors, exactly; a function that some view cannot see is averaged away by that view's step. The singular
    vectors follow from the m x m matrices :math:`A_u^T A_v` alone.

    With Ψ the left singular vectors, view v reads them as :math:`K_v \Psi`: averages of landmark values under the
    view's own kernel row. So every view alone gives the coordinates of a sample, and their mean is the embedding.

    Parameters
    ----------
    kernels : K >= 2 arrays (n, m_v), dense or sparse; a row may have a factor of its own
    q : coordinates wanted
    solver : "gram" forms the m x m matrices; "lanczos" only multiplies by the kernels

    Returns
    -------
    AlternatingSpectrum; the values are scaled so that each view's reading has mean square one over the n samples
    """
    halves = [balanced(W) for W in kernels]
    A = [half for half, _ in halves]
    n = A[0].shape[0]
    if solver == "gram":
        grams = {(u, v): gram(A[u], A[v]) for u, v in gram_pairs(len(A))}
        S, onto, sizes = solve_grams(grams, q, n)
    else:
        S, onto, sizes = solve_walks(_walk(A), len(A), A[0].shape[1], q, n)
    values = [landmark_values(t, C, size) for t, (_, C), size in zip(onto, halves, sizes, strict=True)]
    return AlternatingSpectrum(S, values)


def gram_pairs(K: int) -> list[tuple[int, int]]:
    """The pairs (u, v), u <= v, of views whose :math:`A_u^T A_v` the solution takes."""
    own = [(v, v) for v in range(K)]
    chain = [(v, v + 1) for v in range(K - 1)]
    to_first = [(0, v) for v in range(2, K)]
    return [*own, *chain, *to_first]


def solve_grams(
    grams: Mapping[tuple[int, int], NDArray], q: int, n: int
) -> tuple[NDArray, list[NDArray], list[NDArray]]:
    r"""The spectrum from the m x m matrices of `gram_pairs`.

    Returns
    -------
    S : (q + 1,) singular values
    onto : per view, (m_v, q) :math:`A_v^T \Psi`
    sizes : per view, (q,) root mean square of its reading over the n samples
    """
    K, m = max(v for _, v in grams) + 1, len(grams[0, 0])
    if m > SMALL:
        with suppress(SettingsError):  # it did not converge: eigenvalues too close to each other
            return solve_walks(_walk_by(grams), K, m, q, n, most_steps=GRAM_STEPS)
    return _solve_whole(grams, K, q, n)


def _walk_by(grams: Mapping[tuple[int, int], NDArray]) -> Walk:
    """Products with the matrices themselves."""

    def walk(path: Sequence[int], V: NDArray) -> NDArray:
        for u, v in pairwise(path):
            V = grams[u, v].T @ V if (u, v) in grams else grams[v, u] @ V
        return V

    return walk


def _solve_whole(
    grams: Mapping[tuple[int, int], NDArray], K: int, q: int, n: int
) -> tuple[NDArray, list[NDArray], list[NDArray]]:
    """All eigenpairs of the matrices, and the leading ones of their product."""
    chain = grams[0, 1]
    for v in range(1, K - 1):
        chain = chain @ grams[v, v + 1]
    # With A_1ᵀA_1 = B Bᵀ the squares of the singular values are the eigenvalues of Bᵀ T (A_KᵀA_K) Tᵀ B, T the chain.
    B, B_inverse = square_root(grams[0, 0])
    T = B.T @ chain
    squares, U = largest_of_all(T @ grams[K - 1, K - 1] @ T.T, q + 1)
    S = np.sqrt(np.maximum(squares, 0))
    # Ψ = A_1 c has orthonormal columns, because cᵀ(A_1ᵀA_1)c = UᵀU.
    c = B_inverse @ U[:, 1:]
    onto = [grams[0, v].T @ c for v in range(K)]
    sizes = [np.sqrt(np.einsum("mq,mq->q", t, grams[v, v] @ t) / n) for v, t in enumerate(onto)]
    return S, onto, sizes


def solve_walks(
    walk: Walk, K: int, m: int, q: int, n: int, most_steps: int = MOST_STEPS
) -> tuple[NDArray, list[NDArray], list[NDArray]]:
    r"""What `solve_grams` returns, from products of the same matrices with blocks of vectors.

    With :math:`\Psi = A_1 c`, the eigenproblem :math:`K_1 \cdots K_K K_K \cdots K_1 \Psi = S^2 \Psi` of n-vectors is
    one of m-vectors, :math:`M G\, c = S^2 c`, where

    .. math:: G = A_1^T A_1, \qquad M = A_1^T A_2 \cdots A_{K-1}^T A_K\; A_K^T A_K\; A_K^T A_{K-1} \cdots A_2^T A_1.

    It is self-adjoint in the inner product of G, in which :math:`c^T G c = 1` says that Ψ has length one. A step of
    Lanczos takes 2K products :math:`A_v^T A_u`: one with G, K - 1 to the last view, one there, and K - 1 back. The
    readings at the end take 2K more.

    Parameters
    ----------
    walk : multiplies a block of vectors along a path of views
    K, m : views, and landmarks of the first
    q, n : coordinates wanted, samples
    most_steps : blocks after which Lanczos gives up
    """
    way = list(range(K))
    squares, c = largest_eigenpairs(
        lambda V: walk([*way, *way[::-1]], V), m, q + 1, weigh=lambda V: walk([0, 0], V), most_steps=most_steps
    )
    onto = [walk([0, v], c[:, 1:]) for v in way]
    sizes = [np.sqrt(np.einsum("mq,mq->q", t, walk([v, v], t)) / n) for v, t in zip(way, onto, strict=True)]
    return np.sqrt(np.maximum(squares, 0)), onto, sizes


def _walk(A: list[Kernel]) -> Walk:
    """Products with kernels in memory."""

    def walk(path: Sequence[int], V: NDArray) -> NDArray:
        for u, v in pairwise(path):
            V = A[v].T @ (A[u] @ V)
        return V

    return walk


def landmark_values(onto: NDArray, C: NDArray, size: NDArray) -> NDArray:
    r"""Values of a view's landmarks, from :math:`A_v^T \Psi`, such that its reading has mean square one."""
    return onto * inverse_root(C)[:, None] / np.where(size > 0, size, 1)


@dataclass(frozen=True)
class Degrees:
    """What scales the rows and columns of the kernels; from it eigenvectors become values of the landmarks."""

    n: int  # samples
    columns: list[NDArray[np.float64]]  # per kernel, (m,) C: column sums of the kernel whose rows sum to one
    sums: NDArray[np.float64] | None = None  # (m,) s: column sums of the kernel itself, for the normalization "paper"

    @property
    def roots(self) -> list[NDArray[np.float64]]:
        r"""Per kernel, what multiplies its columns: :math:`C^{-1/2}`, or 1 for the normalization "paper"."""
        return [inverse_root(C) if self.sums is None else np.ones_like(C) for C in self.columns]


#: Eigenvalues (q + 1,), the trivial 1 first, and per kernel the values (m, q) of the landmarks.
Solution = tuple[NDArray[np.float64], list[NDArray[np.float64]]]


class Fusion:
    """One kernel, of distances that are made of those in the views. Base class of all fusions."""

    fewest_views = 2
    normalizations: tuple[str, ...] = ("balanced", "paper")
    per_view = False
    """Whether each view has a kernel of its own, with links to the landmarks nearest in this view."""
    needs_units = False
    """Whether the distances in a view are divided by their median before they are fused."""
    is_scaled = True
    """Whether eigenfunctions have mean square one as they are solved; else they are scaled after a pass over all."""
    has_spare = False
    """Whether a few coordinates more are solved for than requested, to choose from."""

    def used_views(self, K: int) -> list[int]:
        """The views whose distances count."""
        return list(range(K))

    def kernels(self, K: int) -> list[int]:
        """Numbers of the kernels."""
        return list(range(K)) if self.per_view else [0]

    def fused(self, distances: Sequence[NDArray]) -> NDArray:
        """The distances (n, m) of the kernel from those in each view that is there, in their units.

        If all of them are multiplied by a number, so is the result.
        """
        return sum(distances[1:], distances[0]) / len(distances) if len(distances) > 1 else distances[0]

    def kernel_units(self, units: NDArray, sigmas: Sequence[float]) -> NDArray[np.float64]:
        """What the distances in each view are divided by (K,), so that the kernel is exp(-D)."""
        return units * sigmas[0]

    def gram_pairs(self, K: int) -> list[tuple[int, int]]:
        """The kernels whose products (m, m) `from_grams` takes, two by two."""
        return [(0, 0)]

    def from_grams(self, grams: Mapping[tuple[int, int], NDArray], q: int, degrees: Degrees) -> Solution:
        """Solve for q coordinates from the products of the kernels, whose columns have been scaled by the roots."""
        S, vectors = largest_pairs(grams[0, 0], q + 1)
        return S, [_single_values(S, vectors, degrees)]

    def from_walk(self, walk: Walk, q: int, degrees: Degrees) -> Solution:
        """The same from products with blocks of vectors only, by Lanczos."""
        S, vectors = largest_eigenpairs(lambda V: walk([0, 0], V), len(degrees.columns[0]), q + 1)
        return S, [_single_values(S, vectors, degrees)]


def _single_values(S: NDArray, vectors: NDArray, degrees: Degrees) -> NDArray[np.float64]:
    """Values (m, q) of the landmarks from the eigenpairs of a single kernel, the trivial one first."""
    root, size, s = degrees.roots[0], np.sqrt(degrees.n), degrees.sums
    if s is not None:
        root, size = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0), np.sqrt(s @ s)
    return vectors[:, 1:] * root[:, None] * size * inverse_root(np.maximum(S[1:], 0))


class FirstView(Fusion):
    """The distances in the first view; the others take part in its metric alone."""

    fewest_views = 1

    def used_views(self, K: int) -> list[int]:
        return [0]


class Average(Fusion):
    """The mean of the distances in all views, each divided by its median."""

    needs_units = True


class Alternating(Fusion):
    """A step along each view in turn, which averages away what is private to a view."""

    normalizations = ("balanced",)
    per_view = True
    is_scaled = False
    has_spare = True

    def kernel_units(self, units: NDArray, sigmas: Sequence[float]) -> NDArray[np.float64]:
        return np.array(sigmas)

    def gram_pairs(self, K: int) -> list[tuple[int, int]]:
        return gram_pairs(K)

    def from_grams(self, grams: Mapping[tuple[int, int], NDArray], q: int, degrees: Degrees) -> Solution:
        return self._values(solve_grams(grams, q, degrees.n), degrees)

    def from_walk(self, walk: Walk, q: int, degrees: Degrees) -> Solution:
        K, m = len(degrees.columns), len(degrees.columns[0])
        return self._values(solve_walks(walk, K, m, q, degrees.n), degrees)

    @staticmethod
    def _values(solved: tuple[NDArray, list[NDArray], list[NDArray]], degrees: Degrees) -> Solution:
        S, onto, sizes = solved
        return S, [landmark_values(t, C, size) for t, C, size in zip(onto, degrees.columns, sizes, strict=True)]


#: By the name in settings.
FUSIONS: dict[str, Fusion] = {"view": FirstView(), "average": Average(), "alternating": Alternating()}
