"""Small arrays of a store, read whole and held against whatever checksum the store has of them.

A finished store has digests in its header, one that was made by stages has checksums in the records of their blocks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.storage.arrays import digests_in, read_array
from dlcca.storage.block_manifest import known_stage
from dlcca.storage.blocks import Stage
from dlcca.storage.files import files_at, zarr_store
from dlcca.storage.formats import Format
from dlcca.storage.groups import FILE

#: Stages that write arrays in one block.
_WHOLE = ("clock", "pca")


def read(address: str, names: Sequence[str], form: Format) -> list[NDArray]:
    """The arrays by name; one that is missing, or not what was written, is an error of the form."""
    import zarr

    group: Any = zarr.open_group(zarr_store(address), mode="r")
    digests, stages = _digests(address), _stages_of(address)
    made = []
    for name in names:
        if name in digests:
            made.append(read_array(group, name, digests[name], address, form))
        elif f"/{name}" in stages:
            made.append(stages[f"/{name}"].read(f"/{name}", 0))
        else:
            made.append(_unchecked(group, name, address, form))
    return made


def names(address: str, folder: str) -> list[str]:
    """The arrays in a folder, by the header of the store and the records of the stages that wrote them."""
    known = {*_digests(address), *(array.removeprefix("/") for array in _stages_of(address))}
    return sorted(name for name in known if name.startswith(f"{folder}/"))


def _digests(address: str) -> dict[str, str]:
    try:
        return digests_in(json.loads(files_at(address).get(FILE) or b"{}").get("attributes", {}))
    except (ValueError, AttributeError):
        return {}


def _stages_of(address: str) -> dict[str, Stage]:
    """By array, the stage that has written it."""
    found: dict[str, Stage] = {}
    for name in _WHOLE:
        known = known_stage(address, name)
        if known is not None:
            stage = Stage(address, name, known["fingerprint"], known["n_blocks"])
            found |= dict.fromkeys(stage.parts(0), stage) if not stage.missing() else {}
    return found


def _unchecked(group: Any, name: str, address: str, form: Format) -> NDArray:
    try:
        return np.asarray(group[name][...])
    except KeyError as error:
        raise form.error(f"{address} lacks {error}. Restore it, or {form.renew}.") from error
