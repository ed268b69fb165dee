"""Local CCA and the baselines on the same rows of the same views, each beside a control of misaligned views."""

from dlcca.compare.comparison import compare
from dlcca.compare.truth import Truth, read_truth

__all__ = ["Truth", "compare", "read_truth"]
