"""Views of files of which no more was said: one for each group of channels that were sampled together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.recording import Signal
from dlcca.recordings.timeline import File, Opener, found
from dlcca.settings.recipe import ViewRecipe


def usual_views(files: Sequence[str], recipe: ViewRecipe, opener: Opener) -> dict[str, ViewRecipe]:
    """A recipe for each group of channels, named after the type of its channels where they are of one type.

    None at all if the files hold annotations only, such as a hypnogram.
    """
    paths = found(files, "the command line")
    recordings = [File.at(path, recipe.reader_options).open(opener) for path in paths]
    groups = {tuple(signal.names): signal for recording in recordings for signal in recording.signals}
    if not groups and not any(recording.annotations for recording in recordings):
        raise DataError(f"{', '.join(paths)}: neither channels nor annotations are in there.")
    made: dict[str, ViewRecipe] = {}
    for number, (channels, signal) in enumerate(groups.items(), start=1):
        # All channels: their number may be large, and "*" says the same.
        wanted = ("*",) if len(groups) == 1 else tuple(dict.fromkeys(channels))
        made[_name(signal, number, made)] = replace(recipe, source=tuple(paths), channels=wanted)
    return made


def _name(signal: Signal, number: int, taken: Mapping[str, ViewRecipe]) -> str:
    kinds = {channel.kind for channel in signal.channels}
    kind = re.sub(r"\W+", "_", kinds.pop()) if len(kinds) == 1 else ""
    return kind if kind and kind not in taken else f"signal{number}"


def said_views(said: Sequence[str], files: Sequence[str], recipe: ViewRecipe) -> dict[str, ViewRecipe]:
    """Recipes from ``NAME=CHANNELS`` as on the command line, channels with commas between them."""
    made = {}
    for view in said:
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
