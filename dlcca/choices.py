"""What "auto" means: every choice that the program makes for the user, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dlcca.errors import SettingsError
from dlcca.settings import Settings

#: Dense kernels up to this many entries (1 GiB in float64); sparse ones above.
DENSE_ENTRIES = 1 << 27
#: eigh of the L x L Gram matrix takes seconds up to here.
GRAM_LANDMARKS = 5000
#: Landmarks for windows of time; for nearest neighbours in recordings up to LARGE samples, and in longer ones.
TIME_LANDMARKS, KNN_LANDMARKS, KNN_LANDMARKS_LARGE, LARGE = 2000, 1000, 2000, 20_000


@dataclass(frozen=True)
class Choices:
    """Settings without any "auto" left in them, and the reason for each choice made."""

    settings: Settings
    reasons: dict[str, str]

    def lines(self) -> list[str]:
        """A sentence for each choice, for people."""
        options = self.settings.options()
        return [f"{name} = {options[name]!r}: {reason}" for name, reason in self.reasons.items()]


@dataclass(frozen=True)
class _Known:
    """What the choices depend on: n samples, K views, and the options as far as they are settled."""

    n: int
    K: int
    options: dict[str, Any]

    @property
    def kind(self) -> str:
        kind = self.options["neighborhoods"]
        return kind if isinstance(kind, str) else "given"

    @property
    def m(self) -> int:
        landmarks = self.options["landmarks"]
        return landmarks if isinstance(landmarks, int) else len(landmarks)


Choice = tuple[Any, str]


def choose(settings: Settings, n: int, K: int) -> Choices:
    """Replace every "auto" (and ``landmarks="all"``) by a value that suits n samples of K views."""
    known = _Known(n, K, settings.options())
    reasons = {}
    for option, decide in _IN_ORDER.items():
        said = known.options[option]
        if isinstance(said, str) and said in ("auto", "all"):
            known.options[option], reason = decide(known)
            if said == "auto":
                reasons[option] = reason
    _check_together(known)
    return Choices(settings.with_options(**known.options), reasons)


def _landmarks(known: _Known) -> Choice:
    n = known.n
    if known.options["landmarks"] == "all":
        return n, "every sample"
    if known.kind == "given":
        asked = len(known.options["neighborhoods"])
        if asked != n:
            raise SettingsError(
                f"neighborhoods has {asked} rows and the views have {n} samples; "
                "name the landmark of each row in landmarks."
            )
        return n, "the neighborhood of every sample was given"
    most = TIME_LANDMARKS if known.kind == "time" else KNN_LANDMARKS if n <= LARGE else KNN_LANDMARKS_LARGE
    return (n, "every sample") if n <= most else (most, f"enough to cover {n} samples")


def _landmark_rule(known: _Known) -> Choice:
    if known.kind == "time":
        return "even", "windows of time lie evenly in the recording"
    return "kmeans++", "landmarks cover the joint space of the views"


def _metric(known: _Known) -> Choice:
    named = {1: ("mahalanobis", "one view"), 2: ("cca", "two views")}
    return named.get(known.K, ("maxvar", f"{known.K} views"))


def _fusion(known: _Known) -> Choice:
    if known.K == 1 or known.options["metric"] == "mahalanobis":
        return "view", "one view"
    if known.kind == "knn":
        return (
            "alternating",
            "neighbours in state: a step along each view forgets what is private to the others",
        )
    if known.K == 2:
        return "view", "neighbours in time: two views may move together and not be functions of each other"
    return "average", f"neighbours in time: what {known.K} views share shows in the distances of each"


def _kernel(known: _Known) -> Choice:
    if known.options["fusion"] == "alternating":
        return "sparse", "a view's metrics hold near their landmarks, and alternating carries them far"
    size = f"{known.n} x {known.m} entries"
    return ("dense", f"{size} fit in memory") if known.n * known.m <= DENSE_ENTRIES else ("sparse", f"{size} do not")


def _bandwidth(known: _Known) -> Choice:
    return "quantile", "the 20 % quantile of the distances that the kernel sees"


def _solver(known: _Known) -> Choice:
    return ("gram" if known.m <= GRAM_LANDMARKS else "lanczos"), f"{known.m} landmarks"


def _neighbor_index(known: _Known) -> Choice:
    return "exact", f"{known.m} landmarks are few enough to compare with every sample"


#: Each may look at what was settled before it.
_IN_ORDER: dict[str, Callable[[_Known], Choice]] = {
    "landmarks": _landmarks,
    "landmark_rule": _landmark_rule,
    "neighbor_index": _neighbor_index,
    "metric": _metric,
    "fusion": _fusion,
    "kernel": _kernel,
    "bandwidth": _bandwidth,
    "solver": _solver,
}


def _check_together(known: _Known) -> None:
    """Refuse options that do not go together."""
    options, K = known.options, known.K
    metric, fusion = options["metric"], options["fusion"]
    if metric == "cca" and K != 2:
        raise SettingsError(f"metric='cca' is for two views and {K} were given; use 'maxvar', or 'auto'.")
    if metric in ("maxvar", "tcca") and K < 2:
        raise SettingsError(f"metric={metric!r} needs two views or more and one was given; use 'mahalanobis'.")
    if metric == "mahalanobis" and K != 1:
        raise SettingsError(f"metric='mahalanobis' is for one view and {K} were given; use 'auto'.")
    if fusion != "view" and K == 1:
        raise SettingsError(f"fusion={fusion!r} needs two views or more and one was given; use 'view'.")
    if fusion == "alternating" and options["normalization"] == "paper":
        raise SettingsError("normalization='paper' is not defined for fusion='alternating'; use 'balanced'.")
    if options["neighbor_index"] == "pynndescent":
        raise SettingsError("neighbor_index='pynndescent' is not part of this version; use 'exact' or 'auto'.")
