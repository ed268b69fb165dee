"""The sign of a coordinate, which the eigenproblem leaves open (Algorithm 2 steps 4c and 5)."""

import numpy as np


def column_signs(coordinates, level=1e-6):
    """+-1 per column: the third moment positive, or where it vanishes the (first) largest entry positive."""
    coordinates = np.asarray(coordinates, dtype=float)
    signs = []
    for ell in range(coordinates.shape[1]):
        c = coordinates[:, ell]
        cubes, size = sum(c**3), sum(abs(c) ** 3)
        if abs(cubes) < level * size:
            decides = c[int(np.argmax(abs(c)))]
        else:
            decides = cubes
        signs.append(-1.0 if decides < 0 else 1.0)
    return np.array(signs)


def fix_sign(coordinates):
    """Each column times +-1 so that its sum of cubes is >= 0.

    Where |sum of cubes| < 1e-6 * sum |c|^3: so that the first entry of largest absolute value is positive.
    """
    out = np.array(coordinates, dtype=float)
    signs = column_signs(out)
    for ell in range(out.shape[1]):
        out[:, ell] = signs[ell] * out[:, ell]
    return out
