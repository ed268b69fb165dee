"""The coordinates as channels of an MNE Raw, to be looked at beside the recording."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.errors import SettingsError
from dlcca.export.results import Results, needed


def to_mne(store: str | Path, *, rate: float | None = None) -> Any:
    """A Raw (in memory) of channels common1, common2, ... of the type misc, one sample for each row.

    Its rate is that of the rows; ``rate`` (Hz) says it where rows are counted in samples. Rows without coordinates are
    NaN, under annotations BAD_GAP, BAD_MISSING and so on; rows unlike those of the fit are annotated as "outside". Time
    0 of the Raw is the start of the recording's first window.
    """
    mne = needed("mne", "eeg", "an MNE Raw")
    results = Results.open(str(store))
    if results.in_seconds:
        rate = 1 / results.step
    elif rate is None:
        raise SettingsError(f"the rows of {store} are counted in samples; say their rate in Hz (rate, or --rate).")
    blocks = list(results.blocks())
    data = np.concatenate([block.embedding for block in blocks]).T.astype(np.float64)
    names = [f"common{i}" for i in range(1, len(data) + 1)]
    info = mne.create_info(names, rate, "misc", verbose="error")
    raw = mne.io.RawArray(data, info, verbose="error")
    start = results.start
    if start is not None:
        raw.set_meas_date(start.astimezone(UTC))
    reason = np.concatenate([block.reason for block in blocks])
    spans = [*_spans(reason, lambda code: f"BAD_{results.reasons[code].upper()}")]
    spans += _spans(np.concatenate([block.outside for block in blocks]), lambda _: "outside")
    marks = mne.Annotations(
        [first / rate for first, _, _ in spans],
        [(last - first) / rate for first, last, _ in spans],
        [text for _, _, text in spans],
        orig_time=raw.info["meas_date"],
    )
    return raw.set_annotations(marks, verbose="error")


def is_export(path: Path) -> bool:
    """Whether a FIF file is one of coordinates, by the names of its channels."""
    import warnings

    mne = needed("mne", "eeg", "an MNE Raw")
    try:
        with warnings.catch_warnings():  # of names that do not end as MNE would have them
            warnings.simplefilter("ignore")
            names = mne.io.read_raw_fif(path, verbose="error").ch_names
    except Exception:  # whatever a file that is not FIF makes of the reader
        return False
    return names == [f"common{i}" for i in range(1, len(names) + 1)]


def _spans(codes: np.ndarray, text: Any) -> list[tuple[int, int, str]]:
    """Stretches of one code other than 0: first row, the one after the last, and their text."""
    edges = np.flatnonzero(np.diff(codes.astype(np.int16), prepend=-1, append=-1))
    pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    return [(first, last, text(int(codes[first]))) for first, last in pairs if codes[first]]
