"""Local CCA and the baselines on the same rows of the same views, each beside a control of views shifted in time."""

from dlcca.compare.running import compare
from dlcca.compare.truth import Truth, read_truth

__all__ = ["Truth", "compare", "read_truth"]
