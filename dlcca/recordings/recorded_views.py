"""Views made of recordings in Python, arrays by name with the time of every row; and the views of files by default."""

import re
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.model import Recordings
from dlcca.recordings import ingest, new_recordings
from dlcca.recordings.formats import fif
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.timeline import File, found
from dlcca.recordings.view_array import ViewArray
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage import places
from dlcca.storage import views as store
from dlcca.storage.files import zarr_store

#: Views up to this many bytes are read into memory; larger ones stay on disk.
IN_MEMORY_BYTES = 1 << 29


@dataclass(frozen=True, eq=False)
class RecordedViews(Mapping[str, Any]):
    """Views by name, (r, d) each, of the valid windows of recordings; `LocalCCA` takes them as they are."""

    arrays: dict[str, Any]  # NumPy arrays, or what reads them part by part if they are large
    clock: store.Clock
    recordings: Recordings  # how they were made; a model that is fitted to them keeps it
    store: str

    @property
    def time(self) -> NDArray[np.float64]:
        """Seconds from the start of the recording to that of each row's window, (r,)."""
        return self.clock.time[self.clock.rows]

    @property
    def segments(self) -> NDArray[np.int64]:
        """The unbroken segment of each row, (r,); windows of time do not cross from one to another."""
        return self.clock.segments

    @property
    def start(self) -> str | None:
        """When time is 0, in the form of ISO 8601."""
        return self.clock.start

    def on_clock(self, X: NDArray) -> NDArray:
        """An array (r, ...) of the rows, as one of all windows (n, ...): NaN where a window was not valid."""
        made = np.full((len(self.clock.time), *np.shape(X)[1:]), np.nan)
        made[self.clock.rows] = X
        return made

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def open_views(address: str | Path) -> RecordedViews:
    """The views in a store that ``dlcca ingest`` wrote."""
    import zarr

    place = str(address)
    header = store.describe(place)
    group: Any = zarr.open_group(zarr_store(place), mode="r")
    arrays: dict[str, Any] = {
        name: ViewArray(group[f"views/{name}"], f"{place.rstrip('/')}/views/{name}") for name in header["views"]
    }
    if sum(X.nbytes for X in arrays.values()) <= IN_MEMORY_BYTES:
        arrays = {name: np.asarray(X[...]) for name, X in arrays.items()}
    return RecordedViews(arrays, store.read_clock(place), store.recordings_of(place), place)


def from_mne(
    raw: Any,
    views: Mapping[str, Any] | None = None,
    *,
    model: Any = None,
    out: str | Path | None = None,
    client: Any = None,
    **recipe: Any,
) -> RecordedViews:
    """Views from an MNE Raw: windows that touch a BAD annotation, a break or a flat channel are left out.

    Parameters
    ----------
    raw : mne.io.Raw of any kind; its samples are read part by part
    views : for each view its channels: names, patterns (``"EEG *"``), types ("eeg", but those marked bad), numbers
    model : a fitted model instead of views: the same channels, windows, features and scaling as those of its fit
    out : the store that is written, as by ``dlcca ingest``; by default a temporary one
    recipe : window_s, step_s, features, scaling, and the other options of a view in ``run.toml``
    """
    if (views is None) == (model is None):
        raise SettingsError("from_mne needs either views, as {'eeg': 'eeg', 'ecg': ['ECG1']}, or a fitted model.")
    if views is not None and not views:
        raise SettingsError("from_mne was given no views; name at least one, usually two, each with its channels.")
    fif.check_raw(raw)
    with ExitStack() as scratch:
        if out is None:
            folder = tempfile.TemporaryDirectory(prefix="dlcca-views-", ignore_cleanup_errors=True)
            place = f"{scratch.enter_context(folder)}/views.zarr"
        else:
            place = str(out)
            places.refuse_store(place, store.FORM, inputs=[file for file in raw.filenames if file], setting="out")
        opener = partial(_open_raw, raw)
        if model is None:
            recipes = {}
            for name, picks in (views or {}).items():
                said = {"source": ["raw"], **recipe, "channels": _channels(raw, picks, name)}
                recipes[name] = ViewRecipe.of(said, f"view {name!r}:")
            job, line = ingest.prepared(place, recipes, opener)
        else:
            if recipe:
                each = ", ".join(recipe)
                raise SettingsError(f"{each}: with a model, views are made as those of its fit; leave it out.")
            if (made_as := getattr(model, "recordings_", None)) is None:
                raise SettingsError(
                    "this model was fitted to arrays and does not say how they were made of recordings."
                )
            job, line = new_recordings.prepared(place, made_as, ["raw"], opener)
        ingest.run(job, line, client)
        made = open_views(place)
        weakref.finalize(made, scratch.pop_all().close)  # kept until then
    return made


def _open_raw(raw: Any, path: str, **_: Any) -> Recording:
    """Opens the one recording that there is."""
    return fif.recording_of_raw(raw, path=path)


def _channels(raw: Any, picks: Any, view: str) -> list[str]:
    """Channels of a recipe, from picks as MNE takes them."""
    types = raw.get_channel_types()
    made: list[str] = []
    for pick in [picks] if isinstance(picks, str | int | np.integer) else list(picks):
        if isinstance(pick, int | np.integer):
            if not -len(types) <= pick < len(types):
                raise SettingsError(f"view {view!r} picks channel {pick}; there are {len(types)}.")
            made.append(raw.ch_names[pick])
        elif pick in types and pick not in raw.ch_names:
            good = [n for n, t in zip(raw.ch_names, types, strict=True) if t == pick and n not in raw.info["bads"]]
            if not good:
                raise DataError(f"view {view!r} picks {pick!r}, and all channels of this type are marked as bad.")
            made += good
        else:
            made.append(str(pick))
    return made


def default_views(files: Sequence[str], recipe: ViewRecipe) -> dict[str, ViewRecipe]:
    """A recipe for each group of channels, named after their type if they have one; none for files of annotations."""
    paths = found(files, "the command line")
    recordings = [File.at(path, recipe.reader_options).recording for path in paths]
    groups = {tuple(signal.names): signal for recording in recordings for signal in recording.signals}
    if not groups and not any(recording.annotations for recording in recordings):
        raise DataError(f"{', '.join(paths)}: there are neither channels nor annotations in it.")
    made: dict[str, ViewRecipe] = {}
    for number, (channels, signal) in enumerate(groups.items(), start=1):
        # All channels of a file may be many.
        wanted = ("*",) if len(groups) == 1 else tuple(dict.fromkeys(channels))
        kinds = {channel.kind for channel in signal.channels}
        kind = re.sub(r"\W+", "_", kinds.pop()) if len(kinds) == 1 else ""
        name = kind if kind and kind not in made else f"signal{number}"
        made[name] = replace(recipe, source=tuple(paths), channels=wanted)
    return made


def views_from_arguments(arguments: Sequence[str], files: Sequence[str], recipe: ViewRecipe) -> dict[str, ViewRecipe]:
    """Recipes from ``NAME=CHANNELS`` as on the command line, channels with commas between them."""
    made = {}
    for view in arguments:
        name, equals, channels = view.partition("=")
        name = name.strip()
        wanted = tuple(channel.strip() for channel in channels.split(",") if channel.strip())
        if not equals or not name or "/" in name or name.startswith("."):
            raise SettingsError(
                f"--view {view!r}; NAME=CHANNELS is needed, as ecg='ECG*' or eeg=C3,C4 or eeg=type:eeg."
            )
        if name in made:
            raise SettingsError(f"--view names {name!r} twice.")
        made[name] = replace(recipe, source=tuple(files), channels=wanted)
    return made
