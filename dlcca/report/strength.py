"""How strongly the views move together in the course of the recording, and when they do so most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.storage import model as model_store
from dlcca.storage import run as run_store
from dlcca.storage.arrays import open_sealed, read_array

#: Of every landmark, where a run has it.
LOCAL = ("strength", "null_edge")
#: Stretches of the recording that are held against each other to say when strength was largest.
PARTS = 48
#: How far the strongest part must stand above the typical one to be worth a word, and how many times its own error.
WORTH_A_WORD, SURE = 0.08, 4.0


@dataclass(frozen=True)
class Strength:
    """A measure of common strength at moments of the recording, in order."""

    time: NDArray[np.float64]  # (t,)
    value: NDArray[np.float64]  # (t,)
    band: NDArray[np.float64] | None  # (t, 2) what views that share nothing reach, from and to
    label: str  # what it is, as under an axis
    caption: str

    def course(self, parts: int = PARTS) -> tuple[NDArray, NDArray]:
        """Medians over equal parts of the recording: the middles of the parts and the medians, NaN in empty ones."""
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
        """From when to when it was clearly stronger than usual; None if it was about the same throughout."""
        middles, medians = self.course()
        known = np.isfinite(medians)
        if known.sum() < 8:
            return None
        top, usual = np.nanmax(medians), np.nanmedian(medians)
        if top - usual < max(WORTH_A_WORD, SURE * self._error_of_medians(len(medians))):
            return None
        above = np.where(known, medians, -np.inf) >= (top + usual) / 2
        peak = int(np.nanargmax(medians))
        first = last = peak
        while first > 0 and above[first - 1]:
            first -= 1
        while last + 1 < len(above) and above[last + 1]:
            last += 1
        if last - first + 1 > len(above) / 2:
            return None
        half = (middles[1] - middles[0]) / 2
        return float(middles[first] - half), float(middles[last] + half)

    def _error_of_medians(self, parts: int) -> float:
        """The standard error of a median over one of so many parts, from how much values differ from the next."""
        known = self.value[np.isfinite(self.value)]
        spread = 1.4826 * float(np.median(np.abs(np.diff(known)))) / np.sqrt(2)
        return 1.2533 * spread / np.sqrt(max(1, len(known) / parts))


def of_landmarks(time: NDArray, correlations: NDArray, local: Mapping[str, NDArray], edge: Any) -> list[Strength]:
    """What is known of strength at the landmarks, the best measure first; nothing for a single view.

    Parameters
    ----------
    time : (L,) of the landmarks
    correlations : (L, r)
    local : of every landmark, (L,): "strength" beyond chance, and "null_edge", which chance reaches
    edge : what chance reaches at the typical landmark; None if it is not known
    """
    if correlations.ndim != 2 or 0 in correlations.shape:
        return []
    order = np.argsort(time, kind="stable")
    time, found = np.asarray(time, float)[order], []
    if "strength" in local:
        caption = "How much of the leading common direction the views share beyond chance, from 0 to 1."
        beyond = np.asarray(local["strength"], float)[order]
        found.append(Strength(time, beyond, None, "strength beyond chance", caption))
    caption = "How closely the views move together around each landmark: the largest local correlation."
    if "null_edge" in local:
        reached: NDArray | None = np.asarray(local["null_edge"], float)[order]
    else:
        reached = None if edge is None else np.full(len(time), float(edge))
    chance = None if reached is None else np.column_stack([np.zeros_like(reached), reached])
    found.append(Strength(time, correlations[order, 0], chance, "local correlation", caption))
    return found


def in_store(group: Any, digests: Mapping[str, str], address: str, landmarks: int) -> dict[str, NDArray]:
    """What a run keeps of each landmark, by name, (L,): with the run itself, or with its model."""
    places = [(group, f"quality/{name}", digests, address, run_store.FORM) for name in LOCAL]
    place = run_store.model_of(address)
    if model_store.is_model(place):
        model, header = open_sealed(place, model_store.FORM)
        known = header["content"]["arrays"]
        places += [(model, f"local_quality/{name}", known, place, model_store.FORM) for name in LOCAL]
    found: dict[str, NDArray] = {}
    for where, name, known, at, form in places:
        short = name.rpartition("/")[2]
        if name in known and short not in found:
            values = read_array(where, name, known[name], at, form)
            if values.shape == (landmarks,):
                found[short] = values
    return found
