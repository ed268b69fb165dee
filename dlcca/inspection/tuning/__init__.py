"""`dlcca.tune`: window or neighbours, ridge, bandwidth, links and fusion chosen by a criterion that needs no truth.

`searching` goes through the options, `trials` says what a choice of them is worth, `result` tells of it.
"""

from dlcca.inspection.tuning.result import Curve, Tuned
from dlcca.inspection.tuning.search import tune

__all__ = ["Curve", "Tuned", "tune"]
