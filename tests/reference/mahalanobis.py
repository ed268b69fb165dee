"""The metric of a single view (Proposition 4, eq. mahalanobis)."""

from tests.reference.covariance import covariance, inverse_power, range_basis, regularised


def mahalanobis_metric(X, ridge=0.0, tol=1e-10, restrict=False):
    """Proposition 4: A = Sigma_xx^-1, regularised; a pseudo-inverse if its rank is short.

    A ridge gives the directions without any extent a finite (and large) weight. `restrict` leaves them out, as
    they are without a ridge: the neighborhood knows nothing of them, and a sample elsewhere would be thrown
    far away by its rounding in them. The package does so.
    """
    S = covariance(X)
    A = inverse_power(regularised(S, ridge), 1, tol)
    if restrict:
        _, E = range_basis(S, tol)
        A = E @ E.T @ A @ E @ E.T
    return A
