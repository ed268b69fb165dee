"""Evened axes: x -> T (x - mean) with T proportional to (Sigma + tau I)^(-1/4), tau a share of the largest variance."""

import numpy as np
import scipy.linalg


def covariance(P):
    """Mean (d,) and covariance (d, d) of the rows of P, one row at a time, over their number."""
    n, d = P.shape
    mean = np.zeros(d)
    for x in P:
        mean = mean + x / n
    Sigma = np.zeros((d, d))
    for x in P:
        Sigma = Sigma + np.outer(x - mean, x - mean) / n
    return mean, Sigma


def equalized(P, least):
    """The rows of P along the equalized axes, total variance 1; ``least`` is a share of standard deviations."""
    mean, Sigma = covariance(P)
    largest = max(scipy.linalg.eigvalsh(Sigma))
    lifted = Sigma + least**2 * largest * np.eye(len(mean))
    T = scipy.linalg.inv(scipy.linalg.sqrtm(scipy.linalg.sqrtm(lifted)).real)
    Y = np.array([T @ (x - mean) for x in P])
    return Y / np.sqrt(sum(sum(y**2) for y in Y) / len(Y))
