"""Runs of equal values in a block of samples: what may be flat or saturated, and what goes on in the next block.

The largest value of a channel is known only after the last block, so runs at the largest value of a block are noted as
suspects. A run may go on in the next block: so each block notes those at both of its ends, which `settling` joins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.recordings import equal_runs
from dlcca.recordings.channel_stats import values_of
from dlcca.recordings.formats.recording import Digital
from dlcca.recordings.json_arrays import packed
from dlcca.recordings.timeline import Track
from dlcca.settings.recipe import ViewRecipe

#: A run of fewer samples than this is chance, whatever the rate.
LEAST_RUN = 8
#: Types of channels that may well stay at one value: black and white are colours, and a trigger waits.
NOT_JUDGED = ("video", "stim")


def least_runs(recipe: ViewRecipe, track: Track) -> tuple[int, int]:
    """Samples of a run that is flat, and of one that is saturated; 0 if it does not matter."""
    flat, saturated = (
        max(LEAST_RUN, round(s * track.rate)) if s > 0 else 0 for s in (recipe.flat_s, recipe.saturated_s)
    )
    return flat, saturated


def judged(track: Track) -> NDArray[np.bool_]:
    """Which channels are judged by their values, (c,)."""
    return np.array([channel.kind not in NOT_JUDGED for channel in track.channels])


def least_run(recipe: ViewRecipe, track: Track) -> int:
    """Samples of the shortest run that matters; 0 if none does."""
    return min((samples for samples in least_runs(recipe, track) if samples), default=0)


def extremes(X: NDArray, digital: Digital | None) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The largest and the smallest value of each channel of X (n, c), (c,) each; a gain may be negative."""
    ends = values_of(np.stack(equal_runs.extremes(X)), digital)
    return np.maximum(*ends), np.minimum(*ends)


def may_have_runs(X: NDArray, digital: Digital | None, least: int) -> tuple[NDArray[np.bool_]]:
    """Which channels of X (n, c) may have a run of ``least`` equal samples, (c,)."""
    found = np.zeros(X.shape[1], bool)
    if least:
        found[equal_runs.channels_with_runs(X, least)] = True
    return (found,)


def suspect_runs(
    X: NDArray,
    suspected: NDArray[np.bool_],
    digital: Digital | None,
    spans: NDArray,
    windows: NDArray,
    recipe: ViewRecipe,
    track: Track,
) -> tuple[list[dict[str, Any]], NDArray]:
    """Flat runs and runs at the largest or smallest value of X (n, c); and X, as values with NaN in flat runs if any.

    ``suspected`` (c,) are the channels that `may_have_runs`; ``spans`` (w, 2) are the samples of the ``windows``, by
    their places in X.
    """
    (flat, saturated), least = least_runs(recipe, track), least_run(recipe, track)
    found, good = [], X
    for c in np.flatnonzero(suspected & judged(track)).tolist():
        for (kind, number), held in _kinds(X[:, c], least, flat, saturated).items():
            if kind == "flat":
                good = (X.copy() if X.dtype.kind == "f" else values_of(X, digital)) if good is X else good
                for begin, end in held:
                    good[begin:end, c] = np.nan
            touched = stretches_touched(held, spans, windows)
            if touched:
                value = number if digital is None else digital.of([c]).values(np.array([number], digital.dtype))[0]
                found.append({"channel": c, "kind": kind, "value": float(value), "windows": touched})
    return found, good


def _kinds(x: NDArray, least: int, flat: int, saturated: int) -> dict[tuple[str, Any], list[equal_runs.Run]]:
    """The long runs of a channel (n,), by what may be wrong and by their value."""
    top, bottom = np.fmax.reduce(x), np.fmin.reduce(x)
    kinds: dict[tuple[str, Any], list[equal_runs.Run]] = {}
    for run in equal_runs.long_runs(x, least):
        value, length = x[run[0]].item(), run[1] - run[0]
        if flat and length >= flat:
            kinds.setdefault(("flat", value), []).append(run)
        if saturated and length >= saturated and value in (top, bottom):
            kinds.setdefault(("extreme", value), []).append(run)
    return kinds


def stretches_touched(held: list[equal_runs.Run], spans: NDArray, windows: NDArray) -> list[list[int]]:
    """The windows that runs touch, as stretches (first, last) of their numbers."""
    hit = np.zeros(len(windows), bool)
    for begin, end in held:
        low = np.searchsorted(spans[:, 1], begin, side="right")  # the first window that ends after the run begins
        high = np.searchsorted(spans[:, 0], end, side="left")
        hit[low:high] = True
    at = windows[hit]
    if not len(at):
        return []
    cuts = np.flatnonzero(np.diff(at) > 1)
    return [[int(a), int(b)] for a, b in zip(at[np.r_[0, cuts + 1]], at[np.r_[cuts, len(at) - 1]], strict=True)]


def edges(X: NDArray, digital: Digital | None, recipe: ViewRecipe, track: Track) -> dict[str, Any] | None:
    """The runs at both ends of X (n, c), as long as they may matter; None if they do not."""
    most = max(least_runs(recipe, track))
    if not most:
        return None
    lengths = np.stack(equal_runs.ends_of_runs(X, most)).astype(np.int32)
    return {"values": packed(values_of(X[[0, -1]], digital)), "lengths": packed(lengths)}
