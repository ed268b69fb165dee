r"""Which channels of each view carry the common variable.

The model keeps the channels of every view at the landmarks. A channel carries what is common as far as it can be told
from the coordinates: :math:`R^2 = 1 - \sum_i (x_i - \hat x_i)^2 / \sum_i (x_i - \bar x)^2`, with :math:`\hat x_i` the
mean over the landmarks nearest to the i-th in the coordinates, none of them from the same stretch of the recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.numerics.neighborhoods import smallest, squared_distances
from dlcca.report.gathering import which_landmarks
from dlcca.report.reading import picked
from dlcca.storage import model as model_store
from dlcca.storage.arrays import open_sealed
from dlcca.storage.run import model_of
from dlcca.trust.scores import NEIGHBORS, at_unit_variance, blocked_folds

#: Channels of a view that are looked at; of more, as many evenly.
MOST_CHANNELS = 512
#: Fewer landmarks cannot tell what a channel carries.
FEWEST_LANDMARKS = 40


@dataclass(frozen=True)
class ViewChannels:
    """The channels of one view at the landmarks that are drawn."""

    name: str
    count: int  # of all channels of the view
    labels: list[str]  # (d,) of those that were looked at
    values: NDArray[np.float64]  # (l, d)
    explained: NDArray[np.float64] | None  # (d,) R², at least 0; None if landmarks are too few
    recorded: tuple[str, ...] = ()  # the channels of the recording, of which the columns are features

    @property
    def share(self) -> float | None:
        """How much of the view the coordinates tell, every channel at unit variance."""
        return None if self.explained is None else float(np.mean(self.explained))

    @property
    def carriers(self) -> dict[str, float]:
        """R² by channel of the recording, in falling order; the mean over its features, where it has several.

        Features that are of no single channel, such as principal components, are told one by one.
        """
        if self.explained is None:
            return {}
        owners = [_owner(label, self.recorded) for label in self.labels]
        if any(owner is None for owner in owners) or len(set(owners)) == len(owners):
            owners = list(self.labels)
        shares: dict[str, list[float]] = {}
        for owner, share in zip(owners, self.explained, strict=True):
            shares.setdefault(str(owner), []).append(float(share))
        means = {owner: float(np.mean(each)) for owner, each in shares.items()}
        return dict(sorted(means.items(), key=lambda entry: -entry[1]))

    @property
    def ranked(self) -> NDArray[np.int64]:
        """Channels in falling order of what they carry."""
        if self.explained is None:
            return np.arange(len(self.labels))
        return np.argsort(-self.explained, kind="stable")


def of_arrays(
    arrays: Mapping[str, NDArray],
    E: NDArray,
    time: NDArray | None,
    recorded: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[ViewChannels]:
    """From the channels (l, d) of each view at some landmarks.

    ``E`` (l, q) are the coordinates there, ``time`` (l,) their moments; None where the order of rows means nothing.
    ``recorded`` says of views that were made of recordings what their channels and features are called.
    """
    n = len(E)
    places = np.random.default_rng(0).permutation(n) if time is None else np.argsort(np.argsort(time, kind="stable"))
    fold = blocked_folds(n)[places]
    return [_view(name, X, E, fold, (recorded or {}).get(name, {})) for name, X in arrays.items()]


def in_store(store: str, E: NDArray, time: NDArray | None) -> list[ViewChannels]:
    """From the model that is kept with a run; none if there is no model. ``E`` and ``time`` as in `of_arrays`."""
    place = model_of(store)
    if not model_store.is_model(place):
        return []
    group, header = open_sealed(place, model_store.FORM)
    content = header["content"]
    facts, digests = content["facts"], content["arrays"]
    arrays = {}
    for v, name in enumerate(facts["model"]["names"]):
        kept = which_landmarks(group[f"points_{v}"].shape[0])
        if len(kept) != len(E):  # the model of a refit has landmarks of its own
            return []
        arrays[name] = picked(group, f"points_{v}", kept, digests, place, model_store.FORM)
    return of_arrays(arrays, E, time, (facts.get("recordings") or {}).get("views"))


def explained(E: NDArray, X: NDArray, fold: NDArray[np.int64], *, k: int = NEIGHBORS) -> NDArray[np.float64]:
    """Held-out R² of each channel of X (l, d) by the k nearest of the coordinates E (l, q), (d,); at least 0."""
    Z, Psi = at_unit_variance(X), at_unit_variance(E)
    left = np.zeros(Z.shape[1])
    for number in np.unique(fold):
        held, known = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        near = known[smallest(squared_distances(Psi[held], Psi[known]), min(k, len(known)))]
        guess = sum(Z[near[:, i]] for i in range(near.shape[1])) / near.shape[1]  # one at a time: d may be large
        left += ((Z[held] - guess) ** 2).sum(axis=0)
    total = (Z**2).sum(axis=0)
    return np.where(total > 0, np.maximum(0, 1 - left / np.where(total > 0, total, 1)), 0)


def _view(name: str, X: NDArray, E: NDArray, fold: NDArray[np.int64], recorded: Mapping[str, Any]) -> ViewChannels:
    d = X.shape[1]
    channels = recorded.get("channels") or ()
    labels = recorded.get("feature_names") or channels
    kept = np.unique(np.linspace(0, d - 1, min(d, MOST_CHANNELS)).round().astype(np.int64))
    X = np.asarray(X[:, kept], np.float64)
    named = [labels[i] if len(labels) == d else f"channel {i + 1}" for i in kept]
    known = np.isfinite(E).all(axis=1) & np.isfinite(X).all(axis=1)
    share = explained(E[known], X[known], fold[known]) if known.sum() >= FEWEST_LANDMARKS else None
    return ViewChannels(name, d, named, X, share, tuple(channels))


def _owner(feature: str, channels: Sequence[str]) -> str | None:
    """The channel that a feature is of, by its name; None if it is of several, or of none that is known."""
    of = [name for name in channels if feature.startswith((f"{name} at ", f"log power of {name}, "))]
    return max(of, key=len) if of else None
