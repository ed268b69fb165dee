"""New recordings into views as a fitted model knows them: its channels, features, windows and scaling."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dlcca.errors import DataError, SettingsError
from dlcca.model import Recordings
from dlcca.recordings import ingest
from dlcca.recordings.ingest_job import IngestJob
from dlcca.recordings.timeline import File, Opener, Timeline, found
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage import views

#: Rates that differ by less are one rate, written with other digits.
SAME_RATE = 1e-6


def prepared(
    address: str, made: Recordings, files: Sequence[str], opener: Opener | None = None
) -> tuple[IngestJob, Timeline]:
    """A job that makes the views of new files, scaled as those of a model."""
    recipes = recipes_of(made, files, opener)
    job, line = ingest.prepared(address, recipes, opener, scaling=made.scaling)
    for view in job.views:
        _refuse_other_channels(view.name, view.of_channels, made)
    return job, line


def recipes_of(made: Recordings, files: Sequence[str], opener: Opener | None) -> dict[str, ViewRecipe]:
    """The model's recipes for new files; a view none of whose channels is in any file is left out."""
    paths = found(files, "the command line")
    recipes: dict[str, ViewRecipe] = {}
    unused = list(paths)
    for name, view in made.facts["views"].items():
        recipe = ViewRecipe.of(view["recipe"], f"view {name!r} of the model:")
        there = {path: set(view["channels"]) & _names(path, recipe, opener) for path in paths}
        holding = [path for path in paths if there[path]]
        every = set().union(*there.values())
        lacking = [channel for channel in view["channels"] if channel not in every]
        if holding and lacking:
            raise DataError(
                f"view {name!r} of the model has the channels {_listed(view['channels'])}; {_listed(lacking)} "
                f"{'is' if len(lacking) == 1 else 'are'} not in {', '.join(paths)}. Give files that have all."
            )
        if holding:
            windows = {key: made.facts[key] for key in ("window_s", "step_s")}
            recipes[name] = replace(recipe, source=tuple(holding), channels=tuple(view["channels"]), **windows)
        unused = [path for path in unused if path not in holding]
    if not recipes:
        wanted = "; ".join(f"{name}: {_listed(view['channels'])}" for name, view in made.facts["views"].items())
        raise DataError(f"{', '.join(paths)}: none of the model's channels is there ({wanted}).")
    if unused:
        raise DataError(f"{unused[0]} has no channel of the model; leave it out.")
    return recipes


def _names(path: str, recipe: ViewRecipe, opener: Opener | None) -> set[str]:
    """The channels of a file; none if its reader does not take the options of this view."""
    try:
        recording = File.at(path, recipe.reader_options, opener).recording
    except SettingsError:
        if not recipe.reader_options:
            raise
        return set()
    return {channel.name for channel in recording.channels}


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def _refuse_other_channels(view: str, given: Mapping[str, Any], made: Recordings) -> None:
    """An error if channels come in another order, at another rate or in another unit than the model's."""
    known = made.facts["views"][view]
    if given["channels"] != known["channels"]:
        raise DataError(
            f"view {view!r}: the channels are {_listed(given['channels'])}, and the model has "
            f"{_listed(known['channels'])}; they were not sampled together as those of the model were."
        )
    each = zip(*(facts[key] for key in ("units", "rates") for facts in (given, known)), strict=True)
    for name, (unit, old_unit, rate, old_rate) in zip(known["channels"], each, strict=True):
        if abs(rate - old_rate) > SAME_RATE * old_rate:
            raise DataError(
                f"view {view!r}: channel {name!r} has {rate:g} Hz, and the model was fitted at {old_rate:g} Hz; "
                f"resample the recording to {old_rate:g} Hz."
            )
        one, other = (u.strip().replace("µ", "u").replace("μ", "u") for u in (unit, old_unit))  # two letters for micro
        if one != other and unit and old_unit:
            raise DataError(
                f"view {view!r}: channel {name!r} is in {unit}, and the model was fitted in {old_unit}; convert it."
            )


def refuse_other_views(address: str, made: Recordings | None) -> None:
    """An error if a store of views was made in another way than the views of the model."""
    if made is None:
        return
    given = views.recordings_of(address)
    again = "Give the recordings themselves, which are then treated as the model's were."
    for key in ("window_s", "step_s"):
        if given.facts[key] != made.facts[key]:
            raise DataError(f"{address} has {key} = {given.facts[key]:g}, and the model {made.facts[key]:g}. {again}")
    for name, view in given.facts["views"].items():
        known = made.facts["views"].get(name)
        if known is None:
            continue  # not a view of the model: reported where views are matched by name
        _refuse_other_channels(name, view, made)
        if view["recipe"]["features"] != known["recipe"]["features"]:
            raise DataError(
                f"view {name!r} of {address} has the features {view['recipe']['features']}, and the model "
                f"{known['recipe']['features']}. {again}"
            )
        for array, old in made.scaling.items():
            here = given.scaling.get(array)
            is_same = here is not None and here.shape == old.shape and np.allclose(here, old)
            if array.startswith(f"scaling/{name}/") and not is_same:
                raise DataError(f"view {name!r} of {address} was not scaled as the views of the model. {again}")
