"""Small random problems on which no eigenvalue is near another, and what is common is not all there is."""

import numpy as np


def related_views(n, channels, *, seed=0, common=2):
    """Views (n, d_v) that mix the same few variables of different strengths, bend them and add noise of their own."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1, 1, (n, common)) * np.linspace(2, 1, common)
    views = []
    for d in channels:
        mixed = z @ rng.standard_normal((common, d)) + 0.5 * rng.standard_normal((n, d))
        views.append(mixed + 0.3 * mixed**2)
    return views
