"""Algorithm 2 of the paper as a NumPy user would write it down, every sample a landmark; and our fit against it.

A loop over the samples, covariances and N x N matrices, nothing clever: what a reader of the paper would run first.
The twins in `tests/reference` are slower still: they spell out every sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row, timed, times_faster
from dlcca import LocalCCA, simulate


def embedding(X: NDArray, Y: NDArray, k: int, q: int) -> NDArray:
    """Coordinates (N, q) of N samples of two sensors (N, d_x) and (N, d_y)."""
    N = len(X)
    x_unit, y_unit = (np.sqrt(Z.var(axis=0).sum()) for Z in (X, Y))
    D = np.empty((N, N))
    for i in range(N):  # step 1: X_L is all of X, so L = N
        from_x, from_y = X - X[i], Y - Y[i]
        # Step 2a: x_j in the neighborhood of x_i and y_j in that of y_i.
        apart = np.maximum(np.linalg.norm(from_x, axis=1) / x_unit, np.linalg.norm(from_y, axis=1) / y_unit)
        near = np.argsort(apart)[:k]
        P, lam = canonical_directions(X[near], Y[near])  # step 2b
        A = P @ np.diag(lam) @ P.T  # step 2c
        D[i] = np.sum(from_x @ A * from_x, axis=1)  # step 3
    W = np.exp(-D / np.median(D))  # step 4a
    G = W.T @ W  # step 4b
    Omega = G.sum(axis=1)
    M = G / np.sqrt(np.outer(Omega, Omega))
    _S, Psi = np.linalg.eigh(M)  # step 4c
    return Psi[:, -2 : -2 - q : -1]  # step 5


def canonical_directions(X: NDArray, Y: NDArray) -> tuple[NDArray, NDArray]:
    """Section III: P_x (d_x, r) and the squared canonical correlations (r,)."""
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    k = len(X)
    S_xx, S_yy, S_xy = X.T @ X / k, Y.T @ Y / k, X.T @ Y / k
    U, rho, _V = np.linalg.svd(inverse_root(S_xx) @ S_xy @ inverse_root(S_yy), full_matrices=False)
    return inverse_root(S_xx) @ U, rho**2


def inverse_root(S: NDArray) -> NDArray:
    """S^(-1/2)."""
    values, vectors = np.linalg.eigh(S)
    return vectors / np.sqrt(values) @ vectors.T


def rows(quick: bool) -> Iterator[Row]:
    """The whole fit, both with one thread."""
    n = 1500 if quick else 5000
    views, _truth = simulate.torus(n, random_state=0)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LocalCCA(neighborhoods="knn", random_state=0).fit([X[:1200] for X in views])  # imports, and compiles if need be
        ours = timed(LocalCCA(neighborhoods="knn", random_state=0).fit, views, repeats=3)
        theirs = timed(embedding, *views, k=64, q=2)
    text = f"{n:,} rows: the whole fit, against NumPy written from the paper"
    needed = "" if quick else ">= 20"  # its cost grows with n³: a short recording says nothing
    yield times_faster("paper", f"{text}, one thread", ours.cpu, theirs.cpu, needed)
    yield times_faster("paper", f"{text}, one thread", ours.wall, theirs.wall, needed, unit="s")
