"""Recordings whose common variable is known: the paper's experiments, and static problems to measure with.

Every function returns ``(views, truth)``: a list of arrays (n, d_v) and a `Truth`, whose entry ``z`` is the common
variable (n, d_z) and ``nuisance`` a list with what is private to each view.

    paper's movies      pendulums, icons
    metric comparison   metric_square
    static problems     torus, spiral, swiss_roll, linear
    common to some      overlapping
    nothing in common   independent
"""

from dlcca.simulate.movies import icons, pendulums
from dlcca.simulate.static import independent, linear, metric_square, overlapping, spiral, swiss_roll, torus
from dlcca.simulate.truth import Truth

__all__ = [
    "Truth",
    "icons",
    "independent",
    "linear",
    "metric_square",
    "overlapping",
    "pendulums",
    "spiral",
    "swiss_roll",
    "torus",
]
