r"""The largest eigenpairs of a symmetric matrix, or of an operator known by its products with blocks of vectors alone.

The latter by block Lanczos. The operator is :math:`H = M G`, self-adjoint in the inner product
:math:`\langle x, y\rangle = x^T G y`, with M and G symmetric and positive semi-definite; G is the identity if none is
given. A basis V of a Krylov space is grown by a block at a time and kept orthonormal in full, :math:`V^T G V = I`. The
Ritz pairs of :math:`T = V^T G H V` converge from the outside inwards, so the largest come first.

A block is as wide as there are pairs wanted, or wider: then equal eigenvalues are found as often as they are there,
which a single vector would leave to rounding. When the basis is full, its leading half of Ritz vectors is all that
stays (a thick restart), which bounds the memory and forgets little.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dlcca.errors import SettingsError

Block = NDArray[np.float64]
#: A symmetric matrix as a function of a block of vectors: (m, b) -> (m, b).
Product = Callable[[Block], Block]
#: Residuals that pass for none, relative to the largest eigenvalue. Vectors are off by this over their gap.
TOLERANCE = 1e-13
#: Of a new block, relative to the largest eigenvalue: what is left below it is rounding.
NOISE = 1e-14
#: Blocks are at least so wide: a pass over the data costs nearly the same for few vectors, and wide blocks take fewer.
LEAST_WIDTH, MOST_WIDTH = 8, 64
#: Memory of the basis, V and G V together; and the blocks that it holds besides the pairs, whatever they take:
#: with 5 of them restarts took five times the steps, with 10 twice, with 20 hardly more than without.
BASIS_BYTES, LEAST_BLOCKS = 1 << 30, 8
MOST_STEPS = 500
#: Matrices up to this size are solved whole. Of larger ones Lanczos finds the leading eigenpairs in a tenth of the time
#: (2000 landmarks, 5 coordinates: 0.3 s against 4.4 s), unless it takes more than so many blocks.
SMALL, GRAM_STEPS = 256, 60


def width(count: int) -> int:
    """Vectors in a block when so many eigenpairs are wanted."""
    return min(max(count + 2, LEAST_WIDTH), MOST_WIDTH)


def largest_eigenpairs(
    apply: Product, m: int, count: int, *, weigh: Product | None = None, in_memory: bool = False
) -> tuple[NDArray, NDArray]:
    r"""The ``count`` largest eigenvalues of :math:`H = M G` (m, m) with their vectors, from products alone.

    ``apply`` multiplies a block by M, ``weigh`` by G (None for the identity). The eigenvalues (count,) are falling,
    with zeros at the end if G has a lower rank; the vectors X (m, count) have :math:`X^T G X = I`, but for zeros where
    these are. It is an error if `MOST_STEPS` blocks are not enough, each one product with M and about one with G. With
    matrices that are ``in_memory`` products are cheap: those up to `SMALL`, and those for which `GRAM_STEPS` blocks are
    not enough, are solved whole.
    """
    b = width(count)
    if m > (SMALL if in_memory else 4 * b):
        try:
            return _by_lanczos(apply, m, count, weigh, GRAM_STEPS if in_memory else MOST_STEPS)
        except SettingsError:  # it did not converge: eigenvalues too close to each other
            if not in_memory:
                raise
    M = in_columns(apply, m, m if in_memory else b)
    if weigh is None:
        return largest_of_all(M, count)
    B, B_inverse = square_root(in_columns(weigh, m, m if in_memory else b))
    lam, U = largest_of_all(B.T @ M @ B, count)
    return lam, B_inverse @ U


def _by_lanczos(apply: Product, m: int, count: int, weigh: Product | None, most_steps: int) -> tuple[NDArray, NDArray]:
    b = width(count)
    fitting = BASIS_BYTES // (8 * m * (1 if weigh is None else 2))
    basis = _Basis(apply, weigh, m, most=min(m, max(2 * count + LEAST_BLOCKS * b, fitting)))
    rng = np.random.default_rng(0)  # the same start every time
    following = basis.orthonormal(rng.standard_normal((m, b)))
    for _ in range(most_steps):
        following = basis.grow(following)
        lam, Y = basis.ritz_pairs()
        # Of the Ritz vectors V Y: H V = V T + Q R for the block that was added last, and H V = V T for the others.
        residuals = np.linalg.norm(following.R @ Y[-following.R.shape[1] :, :count], axis=0)
        if basis.size >= count and (residuals <= TOLERANCE * lam[0]).all():
            return lam[:count], basis.V @ Y[:, :count]
        if not len(following.R):  # the space holds all that its start leads to, and is still too small
            following = basis.orthonormal(rng.standard_normal((m, b)))
            if not len(following.R):
                short = count - len(lam)
                return np.pad(lam, (0, short)), np.pad(basis.V @ Y, ((0, 0), (0, short)))
        if basis.size + len(following.R) > basis.most:
            basis.restart(lam, Y, following)
    raise SettingsError(
        f"solver='lanczos' has {int((residuals <= TOLERANCE * lam[0]).sum())} of {count} eigenpairs after {most_steps} "
        f"blocks of {b} vectors (residual {residuals.max() / lam[0]:.0e}, {TOLERANCE:.0e} is needed): the eigenvalues "
        "lie too close together. Request fewer n_components, widen the bandwidth or n_links, or use solver='gram'."
    )


class _Following(NamedTuple):
    """An orthonormal block Q that goes into the basis next, with G Q, and the R of the block Q R it was made of."""

    Q: Block
    GQ: Block
    R: NDArray


class _Basis:
    """The basis V, its products G V, and T: all that is known of the operator."""

    def __init__(self, apply: Product, weigh: Product | None, m: int, most: int) -> None:
        self.apply, self.weigh, self.most = apply, weigh, most
        self.size = 0
        self.scale = self.weight = 0.0  # the sizes of H and of G, as far as they are known
        self._T = np.zeros((most, most))
        # By columns, so that a part of the basis is one piece of memory.
        self._V = np.empty((m, most), order="F")
        self._GV = self._V if weigh is None else np.empty((m, most), order="F")

    @property
    def V(self) -> Block:
        return self._V[:, : self.size]

    def grow(self, following: _Following) -> _Following:
        """Take a block into the basis, and its image under H into T; what of the image lies outside, made orthonormal.

        The coefficients are taken against the whole basis and not the last two blocks only: T is then right after a
        restart too, and does not suffer when orthogonality is lost.
        """
        new = slice(self.size, self.size + len(following.R))
        self._V[:, new], self._GV[:, new] = following.Q, following.GQ
        self.size = new.stop
        image = self.apply(following.GQ)
        self.scale = max(self.scale, float(np.linalg.norm(image, axis=0).max()))
        outside, t = self._outside(image)
        self._T[: self.size, new] = t
        self._T[new, : self.size] = t.T
        return self.orthonormal(outside)

    def ritz_pairs(self) -> tuple[NDArray, NDArray]:
        """Eigenvalues of T, falling, with their vectors (size, size)."""
        T = self._T[: self.size, : self.size]
        theta, Y = np.linalg.eigh((T + T.T) / 2)
        return theta[::-1], Y[:, ::-1]

    def restart(self, theta: NDArray, Y: NDArray, following: _Following) -> None:
        """Keep the leading Ritz vectors alone: as many as leave room for half the basis."""
        keep = min(self.most // 2, self.most - 2 * len(following.R))
        for first in range(0, len(self._V), 4096):  # in place, some rows at a time: there is no room for a copy
            part = slice(first, first + 4096)
            for basis in [self._V] if self.weigh is None else [self._V, self._GV]:
                basis[part, :keep] = basis[part, : self.size] @ Y[:, :keep]
        self.size = keep
        self._T[:keep, :keep] = np.diag(theta[:keep])

    def orthonormal(self, W: Block) -> _Following:
        """A block made orthonormal to the basis and in itself: W = Q R but for a part in the basis, and for rounding.

        First in the plain inner product, which costs no product with G, so that small columns get full digits before
        they are weighed. What is in the basis already, or has no weight, is left out: Q may be narrower than W.
        """
        Q, R = _split(W, max(NOISE * self.scale, 1e-300))
        Q, again = _split(self._outside(Q)[0], 1e-3)  # of unit vectors: what shrinks so much is but rounding
        R = again @ R
        for _ in range(3):
            Q = Q[:, : len(self._V) - self.size]
            GQ = Q if self.weigh is None or not Q.shape[1] else self.weigh(Q)
            d, U = np.linalg.eigh(Q.T @ GQ) if Q.shape[1] else (np.ones(0), np.zeros((0, 0)))
            self.weight = max(self.weight, d.max(initial=0))
            kept = d > 1e-13 * self.weight
            d, U = d[kept], U[:, kept]
            Q, GQ = Q @ (U / np.sqrt(d)), GQ @ (U / np.sqrt(d))
            R = np.sqrt(d)[:, None] * (U.T @ R[: len(U)])
            if d.max(initial=0) < 1e4 * d.min(initial=np.inf):
                break
            Q = self._outside(Q)[0]  # the digits that G has taken are lost: once more, with a product for it
        return _Following(Q, GQ, R)

    def _outside(self, W: Block) -> tuple[Block, NDArray]:
        """The part of W outside the basis, and coefficients of the part within; in two goes, as one leaves a rest."""
        t = np.zeros((self.size, W.shape[1]))
        for _ in range(2):
            rest = self._GV[:, : self.size].T @ W
            W = W - self.V @ rest
            t += rest
        return W, t


def _split(W: Block, least: float) -> tuple[Block, NDArray]:
    """W = Q R with orthonormal Q, but for directions in which W is no larger than ``least``."""
    Q, R = np.linalg.qr(W)
    U, size, Vt = np.linalg.svd(R)
    kept = size > least
    return Q @ U[:, kept], size[kept, None] * Vt[kept]


def in_columns(product: Product, m: int, b: int) -> NDArray:
    """The matrix (m, m) of a product with blocks, found b columns at a time."""
    identity = np.eye(m)
    return np.hstack([product(identity[:, first : first + b]) for first in range(0, m, b)])


def square_root(G: NDArray) -> tuple[NDArray, NDArray]:
    """B with G = B Bᵀ, and the pseudo-inverse of Bᵀ."""
    lam, V = np.linalg.eigh((G + G.T) / 2)
    root = np.sqrt(np.where(lam > 1e-13 * lam[-1], lam, 0))
    return V * root, V * np.divide(1, root, out=np.zeros_like(root), where=root > 0)


def largest_pairs(G: NDArray, count: int) -> tuple[NDArray, NDArray]:
    """The largest eigenvalues of a symmetric matrix (m, m), falling, with their vectors as columns (m, count)."""
    return largest_eigenpairs(lambda V: G @ V, len(G), count, in_memory=True)


def largest_of_all(G: NDArray, count: int) -> tuple[NDArray, NDArray]:
    """The same, from the whole matrix brought to tridiagonal form."""
    m = len(G)
    lam, u = scipy.linalg.eigh((G + G.T) / 2, subset_by_index=[m - count, m - 1])
    return lam[::-1], u[:, ::-1]


def fixed_start(m: int) -> NDArray[np.float64]:
    """A start for Lanczos that is the same every time, and no eigenvector itself as a constant would be."""
    return np.random.default_rng(0).uniform(0.5, 1.5, m)
