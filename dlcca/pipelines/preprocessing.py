"""How recordings are treated: channels, windows, features and scaling, the same for all and every version of the model.

The first good recording settles it. What is kept of it is what a model keeps (`dlcca.model.Recordings`), in a store of
its own, so that a recording can be treated before there is a model, and when the model has long been another.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlcca.errors import DataError, SettingsError, StoreFileError
from dlcca.pipelines.context import Pipeline
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage.arrays import is_form, open_sealed, plain, read_array, replacing, seal, write_array
from dlcca.storage.formats import Format

FORM = Format(
    "dlcca-treatment", 1, noun="treatment", error=StoreFileError, renew="begin anew (dlcca pipeline backfill --anew)"
)


def place_of(flow: Pipeline) -> Path:
    """Where the treatment of this generation is kept."""
    return flow.settings.models / f"treatment-{flow.generation:03d}.zarr"


def is_settled(flow: Pipeline) -> bool:
    """Whether there is one, of these settings."""
    place = place_of(flow)
    return is_form(place, FORM) and open_sealed(place, FORM)[1]["settings"] == flow.settings.fingerprint()


def read(flow: Pipeline) -> Any:
    """The treatment as a `Recordings`."""
    from dlcca.model import Recordings

    place = place_of(flow)
    group, header = open_sealed(place, FORM)
    arrays = {name: read_array(group, name, digest, place, FORM) for name, digest in header["arrays"].items()}
    return Recordings(header["facts"], arrays)


def settle(flow: Pipeline, recordings: Any) -> None:
    """Keep the treatment of a recording, or of a model, for all that follow."""
    import zarr

    with replacing(place_of(flow), FORM) as place:
        group = zarr.create_group(str(place), zarr_format=3)
        arrays = {name: write_array(group, name, X) for name, X in recordings.scaling.items()}
        content = {"facts": plain(recordings.facts), "arrays": arrays, "settings": flow.settings.fingerprint()}
        seal(group, FORM, content)


def recipes_for(flow: Pipeline, files: Sequence[str]) -> dict[str, ViewRecipe]:
    """The views of a recording by the settings, before there is a treatment."""
    recipes = {}
    for name, recipe in flow.settings.recipes.items():
        mine = files_for(recipe, files)
        if not mine:
            raise DataError(f"view {name!r} has source = {list(recipe.source)}, and none of its files is named so.")
        recipes[name] = replace(recipe, source=tuple(mine))
    return recipes


def files_for(recipe: ViewRecipe, files: Sequence[str]) -> list[str]:
    """Those files of a recording that a view is made of: the only one, or those whose names match its source."""
    if len(files) == 1 or not recipe.source:
        return list(files)
    patterns = [os.path.basename(said) for said in recipe.source]
    return [file for file in files if any(fnmatch.fnmatch(os.path.basename(file), form) for form in patterns)]


def refuse_other_settings(flow: Pipeline, model: Mapping[str, Any] | None) -> None:
    """An error if recordings would be treated in another way than those of the model were."""
    if model is None or not model["settings"] or model["settings"] == flow.settings.fingerprint():
        return
    raise SettingsError(
        f"the views or the settings of the fit in {flow.settings.path.name} are not those of model {model['version']}; "
        "coordinates before and after would not be comparable. Put them back, or fit a model of these settings to all "
        f"recordings that are there: dlcca pipeline backfill {flow.settings.path.name} --anew."
    )
