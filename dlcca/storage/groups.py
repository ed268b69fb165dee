"""The zarr.json of groups and arrays as bytes: written whole, and told apart from what damage makes of them.

Zarr takes a changed zarr.json for another one: a group whose attributes are gone, an array of another shape. So groups
are held here against what was written, byte for byte, and arrays against the checksums that stages and headers keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dlcca.storage.checksummed_json import checksum
from dlcca.storage.files import files_at

FILE = "zarr.json"


def as_written(attributes: Mapping[str, Any]) -> bytes:
    """The zarr.json of a group with these attributes, as Zarr itself writes it."""
    content = {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}
    return json.dumps(content, indent=2).encode()


def put(address: str, attributes: Mapping[str, Any]) -> None:
    """Make the folder at an address a group with these attributes and no others, whatever its zarr.json was."""
    files_at(address).put(FILE, as_written(attributes))


def attributes_in(found: bytes) -> dict[str, Any]:
    """The attributes in the zarr.json of a group; a ValueError if it is not just as Zarr writes one."""
    attributes = json.loads(found)["attributes"] if found.startswith(b'{\n  "attributes"') else None
    if not isinstance(attributes, dict) or as_written(attributes) != found:
        raise ValueError(f"its {FILE} is not as it was written")
    return attributes


def is_readable(address: str) -> bool:
    """Whether Zarr could open a group there, or make one."""
    found = files_at(address).get(FILE)
    try:
        content = {} if found is None else json.loads(found)
        return found is None or (content["zarr_format"] == 3 and content["node_type"] == "group")
    except (ValueError, KeyError, TypeError):
        return False


def checksums(address: str, arrays: Iterable[str]) -> dict[str, str | None]:
    """A checksum of the zarr.json of each array; None for one that is not there."""
    files = files_at(address)
    found = {name: files.get(f"{name}/{FILE}") for name in arrays}
    return {name: None if raw is None else checksum(raw) for name, raw in found.items()}


def damages(address: str, known: Mapping[str, str | None]) -> dict[str, str]:
    """The arrays whose zarr.json is no longer what it was, each with what is wrong."""
    return {
        name: f"{FILE} of array {name!r} in {address} is {'missing' if now is None else 'damaged'}"
        for name, now in checksums(address, known).items()
        if now != known[name]
    }
