r"""What is known at the landmarks: common strength over time, and the channels that the coordinates explain.

The model keeps the channels of every view at the landmarks. How much of a channel the coordinates explain is
:math:`R^2 = 1 - \sum_i (x_i - \hat x_i)^2 / \sum_i (x_i - \bar x)^2`, with :math:`\hat x_i` the mean over the landmarks
nearest to the i-th in the coordinates, none of them from the same stretch of the recording.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.report.rows import LANDMARKS, evenly, read_picked
from dlcca.storage import model as model_store
from dlcca.storage import run as run_store
from dlcca.storage.formats import open_sealed
from dlcca.trust.scores import NEIGHBORS, at_unit_variance, blocked_folds, variable_scores

#: Channels of a view that are analysed; of more, as many evenly.
MOST_CHANNELS = 512
#: With fewer landmarks, R² of channels is not computed.
FEWEST_LANDMARKS = 40
#: Parts of the recording that are compared to say when strength was largest.
PARTS = 48
#: The strongest part is mentioned if it exceeds the median by this much, and by this many standard errors.
WORTH_A_WORD, SURE = 0.08, 4.0


@dataclass(frozen=True)
class Strength:
    """A measure of common strength over time."""

    time: NDArray[np.float64]  # (t,)
    value: NDArray[np.float64]  # (t,)
    chance: NDArray[np.float64] | None  # (t,) what views that share nothing would hardly ever exceed
    label: str  # of an axis
    caption: str

    def course(self, parts: int = PARTS) -> tuple[NDArray, NDArray]:
        """Medians over equal parts of the recording: middles of the parts, and medians, NaN in empty parts."""
        if len(self.time) < 2 or not self.time[-1] > self.time[0]:
            return self.time, self.value
        parts = max(1, min(parts, len(self.time) // 4))
        edges = np.linspace(self.time[0], self.time[-1], parts + 1)
        part = np.clip(np.searchsorted(edges, self.time, "right") - 1, 0, parts - 1)
        known = np.isfinite(self.value)
        medians = np.full(parts, np.nan)
        for i in np.unique(part[known]):
            medians[i] = np.median(self.value[known & (part == i)])
        return (edges[:-1] + edges[1:]) / 2, medians

    def strongest(self) -> tuple[float, float] | None:
        """The interval in which it was clearly above the median; None if it was about the same throughout."""
        middles, medians = self.course()
        known = np.isfinite(medians)
        if known.sum() < 8:
            return None
        top, usual = np.nanmax(medians), np.nanmedian(medians)
        # The standard error of the median of a part, from differences of successive values.
        values = self.value[np.isfinite(self.value)]
        spread = 1.4826 * float(np.median(np.abs(np.diff(values)))) / np.sqrt(2)
        error = 1.2533 * spread / np.sqrt(max(1, len(values) / len(medians)))
        if top - usual < max(WORTH_A_WORD, SURE * error):
            return None
        peak, below = np.nanargmax(medians), np.flatnonzero(~(medians >= (top + usual) / 2))
        first = int(max(below[below < peak], default=-1)) + 1
        end = int(min(below[below > peak], default=len(medians)))  # one after the last
        if end - first > len(medians) / 2:
            return None
        half = (middles[1] - middles[0]) / 2
        return float(middles[first] - half), float(middles[end - 1] + half)


def strengths(time: NDArray, correlations: NDArray, local: Mapping[str, NDArray], edge: Any) -> list[Strength]:
    """Measures of common strength at the landmarks, the best first; none for a single view.

    From the ``time`` (L,) of the landmarks, their ``correlations`` (L, r), and ``local`` arrays (L,): "strength" beyond
    chance, and "null_edge", the largest correlation by chance; ``edge`` is that at the typical landmark, if known.
    """
    if correlations.ndim != 2 or 0 in correlations.shape:
        return []
    order = np.argsort(time, kind="stable")
    time, found = np.asarray(time, float)[order], []
    if "strength" in local:
        caption = "How much of the leading common direction the views share beyond chance, from 0 to 1."
        found.append(Strength(time, local["strength"][order], None, "strength beyond chance", caption))
    caption = "How closely the views move together around each landmark: the largest local correlation."
    edges = local.get("null_edge", None if edge is None else np.full(len(time), float(edge)))
    chance = None if edges is None else edges[order]
    found.append(Strength(time, correlations[order, 0], chance, "local correlation", caption))
    return found


@dataclass(frozen=True)
class ViewChannels:
    """The channels of one view at the landmarks that are drawn."""

    name: str
    count: int  # of all channels of the view
    labels: list[str]  # (d,) of those that are analysed
    values: NDArray[np.float64]  # (l, d)
    r2: NDArray[np.float64] | None  # (d,) from the coordinates, at least 0; None with too few landmarks
    recorded: tuple[str, ...] = ()  # the channels of the recording, of which the columns are features

    @property
    def share(self) -> float | None:
        """Share of the variance of the view that the coordinates explain, with channels at unit variance."""
        return None if self.r2 is None else float(np.mean(self.r2))

    @property
    def r2_by_channel(self) -> dict[str, float]:
        """R² by channel of the recording, in falling order; the mean over its features, where it has several.

        Features of no single channel, such as principal components, have an entry each.
        """
        if self.r2 is None:
            return {}
        owners = [_owner(label, self.recorded) for label in self.labels]
        if any(owner is None for owner in owners) or len(set(owners)) == len(owners):
            owners = list(self.labels)
        shares: dict[str, list[float]] = {}
        for owner, share in zip(owners, self.r2, strict=True):
            shares.setdefault(str(owner), []).append(float(share))
        means = {owner: float(np.mean(each)) for owner, each in shares.items()}
        return dict(sorted(means.items(), key=lambda entry: -entry[1]))

    @property
    def ranked(self) -> NDArray[np.int64]:
        """Channels in falling order of R²."""
        return np.arange(len(self.labels)) if self.r2 is None else np.argsort(-self.r2, kind="stable")


def view_channels(
    arrays: Mapping[str, NDArray], E: NDArray, time: NDArray | None, recorded: Mapping[str, Any] | None = None
) -> list[ViewChannels]:
    """From the channels (l, d) of each view at some landmarks.

    ``E`` (l, q) are the coordinates there, ``time`` (l,) their times; None where the order of rows means nothing.
    ``recorded`` has the names of channels and features of views that were made of recordings.
    """
    n = len(E)
    places = np.random.default_rng(0).permutation(n) if time is None else np.argsort(np.argsort(time, kind="stable"))
    fold, found = blocked_folds(n)[places], []
    for name, X in arrays.items():
        facts, d = (recorded or {}).get(name, {}), X.shape[1]
        channels = facts.get("channels") or ()
        labels, kept = facts.get("feature_names") or channels, evenly(d, MOST_CHANNELS)
        X = np.asarray(X[:, kept], np.float64)
        named = [labels[i] if len(labels) == d else f"channel {i + 1}" for i in kept]
        known = np.isfinite(E).all(axis=1) & np.isfinite(X).all(axis=1)
        explained = channel_r2(E[known], X[known], fold[known]) if known.sum() >= FEWEST_LANDMARKS else None
        found.append(ViewChannels(name, d, named, X, explained, tuple(channels)))
    return found


def channels_in_store(store: str, E: NDArray, time: NDArray | None) -> list[ViewChannels]:
    """From the model that is kept with a run; none if there is no model. ``E`` and ``time`` as in `view_channels`."""
    place = run_store.model_of(store)
    if not model_store.is_model(place):
        return []
    group, header = open_sealed(place, model_store.FORM)
    facts, digests = header["facts"], header["manifest"]
    arrays = {}
    for v, name in enumerate(facts["model"]["names"]):
        kept = evenly(group[f"points_{v}"].shape[0], LANDMARKS)
        if len(kept) != len(E):  # the model of a refit has landmarks of its own
            return []
        arrays[name] = read_picked(group, f"points_{v}", kept, digests, place, model_store.FORM)
    return view_channels(arrays, E, time, (facts.get("recordings") or {}).get("views"))


def channel_r2(E: NDArray, X: NDArray, fold: NDArray[np.int64], *, k: int = NEIGHBORS) -> NDArray[np.float64]:
    """Held-out R² of each channel of X (l, d) by the k nearest of the coordinates E (l, q), (d,); at least 0."""
    return np.fmax(0, variable_scores(at_unit_variance(E), X, fold, k=k))  # 0 for a constant channel


def _owner(feature: str, channels: Sequence[str]) -> str | None:
    """The channel that a feature is of, by its name; None if it is of several, or of none that is known."""
    of = [name for name in channels if feature.startswith((f"{name} at ", f"log power of {name}, "))]
    return max(of, key=len) if of else None
