"""The Gaussian kernel, full or with few entries a row (Algorithm 2 step 4a)."""

import math

import numpy as np


def kernel(D, sigma):
    """Algorithm 2 step 4a: W_ij = exp(-D_ij / sigma)."""
    W = np.zeros(np.shape(D))
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            W[i, j] = math.exp(-D[i][j] / sigma)
    return W


def keep_smallest(D, s):
    """True at each row's s smallest D, ties by the lower column: "for D_ij >> sigma, W_ij is negligible"."""
    keep = np.zeros(np.shape(D), dtype=bool)
    for i in range(keep.shape[0]):
        ranked = sorted((D[i][j], j) for j in range(keep.shape[1]))
        for _, j in ranked[:s]:
            keep[i, j] = True
    return keep


def nearest_links(X, landmarks, s):
    """True (n, L) at each row's s nearest landmarks by plain Euclidean distance, ties by the lower column."""
    X = np.asarray(X, dtype=float)
    squared = np.zeros((len(X), len(landmarks)))
    for i in range(len(X)):
        for j in range(len(landmarks)):
            squared[i, j] = sum((X[i, c] - X[landmarks[j], c]) ** 2 for c in range(X.shape[1]))
    return keep_smallest(squared, s)


def sparse_kernel(D, sigma, keep):
    """Algorithm 2 step 4a where `keep` is True, zero elsewhere."""
    W = kernel(D, sigma)
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            if not keep[i][j]:
                W[i, j] = 0.0
    return W
