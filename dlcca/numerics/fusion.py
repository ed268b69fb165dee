"""Fusions: how the views come together in one diffusion step, and the eigenproblem of this step.

`FUSIONS` has the fusions that can be named in settings. Each is a class that says which views it reads, whether it has
one kernel or one for each view, and how the eigenproblem is solved through the landmarks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.eigensolvers import largest_eigenpairs
from dlcca.numerics.kernels import Grams, inverse_root

#: A product along a path of views: ((u, v, w), V) -> :math:`A_w^T A_v\, A_v^T A_u\, V`, from (m_u, b) to (m_w, b).
Walk = Callable[[Sequence[int], NDArray], NDArray]


def along(grams: Grams, path: Sequence[int], V: NDArray) -> NDArray:
    """A `Walk` through the products of kernels, two by two."""
    for u, v in pairwise(path):
        V = grams[u, v].T @ V if (u, v) in grams else grams[v, u] @ V
    return V


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
        """The kernels u <= v whose products :math:`A_u^T A_v` (m, m) `from_grams` takes."""
        last = len(self.kernels(K))
        return [*((v, v) for v in range(last)), *pairwise(range(last)), *((0, v) for v in range(2, last))]

    def from_grams(self, grams: Grams, q: int, degrees: Degrees) -> Solution:
        r"""Solve for q coordinates from the products of the kernels, whose columns have been scaled by the roots.

        The step :math:`A A^T` is n x n (Algorithm 2, step 4: there A is :math:`\Omega^{-1/2} W`, whose W has a row for
        each sample), but its spectrum is that of the m x m matrix :math:`A^T A`: with eigenpairs (u, λ) of the latter,
        :math:`\psi = A u / \sqrt\lambda`. The coordinates are :math:`\psi_l / \psi_0`. The leading eigenvalue is 1 to
        rounding, which is a check of all that came before.
        """
        return self.solve(partial(along, grams), q, degrees, in_memory=True)

    def from_walk(self, walk: Walk, q: int, degrees: Degrees) -> Solution:
        """The same from products with blocks of vectors only, by Lanczos."""
        return self.solve(walk, q, degrees, in_memory=False)

    def solve(self, walk: Walk, q: int, degrees: Degrees, *, in_memory: bool) -> Solution:
        r"""Both, from products with blocks of vectors; ``in_memory`` as in `largest_eigenpairs`.

        With s the column sums of W and :math:`u_0 = s / \sqrt{\sum_i s_i^2}`, :math:`\psi_l(j)/\psi_0(j)` is
        :math:`\sum_i W_{ji} u_{li}/\sqrt{\lambda_l}` over :math:`\sum_i W_{ji} u_{0i}`: an average with weights
        :math:`W_{ji} s_i`. The balanced kernel has :math:`s = \sqrt C`.
        """
        m, s = len(degrees.columns[0]), degrees.sums
        S, vectors = largest_eigenpairs(lambda V: walk([0, 0], V), m, q + 1, in_memory=in_memory)
        root, size = degrees.roots[0], np.sqrt(degrees.n)
        if s is not None:
            root, size = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0), np.sqrt(s @ s)
        return S, [vectors[:, 1:] * root[:, None] * size * inverse_root(np.maximum(S[1:], 0))]


class FirstView(Fusion):
    """The distances in the first view; the others take part in its metric alone."""

    fewest_views = 1

    def used_views(self, K: int) -> list[int]:
        return [0]


class Average(Fusion):
    """The mean of the distances in all views, each divided by its median."""

    needs_units = True


class Alternating(Fusion):
    r"""A step along each view in turn, which averages away what is private to a view.

    A view's step is :math:`K_v = A_v A_v^T` with its balanced kernel :math:`A_v`: from a sample to its landmarks and
    back. It is symmetric and doubly stochastic, so the product :math:`K_1 K_2 \cdots K_K` has the singular value 1 with
    constant vectors, exactly; a function that some view cannot see is averaged away by that view's step. The singular
    vectors follow from the m x m matrices :math:`A_u^T A_v` alone.

    With Ψ the left singular vectors, view v reads them as :math:`K_v \Psi`: averages of landmark values under the
    view's own kernel row. So every view alone gives the coordinates of a sample, and their mean is the embedding. The
    values are scaled so that each view's reading has mean square one over the n samples.
    """

    normalizations = ("balanced",)
    per_view = True
    is_scaled = False
    has_spare = True

    def kernel_units(self, units: NDArray, sigmas: Sequence[float]) -> NDArray[np.float64]:
        return np.array(sigmas)

    def solve(self, walk: Walk, q: int, degrees: Degrees, *, in_memory: bool) -> Solution:
        r"""The step along each view in turn.

        With :math:`\Psi = A_1 c`, the eigenproblem :math:`K_1 \cdots K_K K_K \cdots K_1 \Psi = S^2 \Psi` of n-vectors
        is one of m-vectors, :math:`M G\, c = S^2 c`, where

        .. math:: G = A_1^T A_1, \qquad M = A_1^T A_2 \cdots A_{K-1}^T A_K\; A_K^T A_K\; A_K^T A_{K-1} \cdots A_2^T A_1.

        It is self-adjoint in the inner product of G, in which :math:`c^T G c = 1` says that Ψ has length one. A step of
        Lanczos takes 2K products :math:`A_v^T A_u`: one with G, K - 1 to the last view, one there, and K - 1 back. The
        readings at the end take 2K more.
        """
        way, m = list(range(len(degrees.columns))), len(degrees.columns[0])
        squares, c = largest_eigenpairs(
            lambda V: walk([*way, *way[::-1]], V), m, q + 1, weigh=lambda V: walk([0, 0], V), in_memory=in_memory
        )
        values = []
        for v, C in enumerate(degrees.columns):
            onto = walk([0, v], c[:, 1:])  # the view's reading of Ψ has the values A_vᵀ Ψ at its landmarks
            size = np.sqrt(np.einsum("mq,mq->q", onto, walk([v, v], onto)) / degrees.n)
            values.append(onto * inverse_root(C)[:, None] / np.where(size > 0, size, 1))
        return np.sqrt(np.maximum(squares, 0)), values


#: By the name in settings.
FUSIONS: dict[str, Fusion] = {"view": FirstView(), "average": Average(), "alternating": Alternating()}
