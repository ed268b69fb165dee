"""Codecs of Zarr arrays that hold objects instead of numbers: refused before a chunk is decoded.

To decode a pickle is to run whatever code its writer has put into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dlcca.errors import DataError
from dlcca.storage.files import files_at, is_remote

#: Codecs of text, which name channels; where numbers are needed, the dtype refuses them.
TEXT = ("vlen-utf8", "vlen-bytes", "string")
OBJECTS = ("pickle", "json2", "msgpack2", "vlen-array", "categorize")


def refuse_objects(metadata: Mapping[str, Any], where: str) -> None:
    """Refuse an array with this metadata, of Zarr 2 or 3, if it holds objects."""
    names = list(_codecs(metadata))
    found = [name for name in names if name in OBJECTS]
    is_object = metadata.get("dtype") == "|O" and not any(name in TEXT for name in names)
    if found or is_object:
        what = f"with the codec {found[0]!r}" if found else "with the dtype 'O' (object)"
        raise DataError(
            f"{where} is stored {what}, for Python objects, and is not decoded: that could run code of whoever wrote "
            "it. An array of numbers is needed: write it again with a numeric dtype, as X.astype('float64')."
        )


def refuse_objects_at(address: str, path: str = "") -> None:
    """The same for an array, or the arrays of a local group, that Zarr could not open."""
    files = files_at(address)
    folders = [path]
    if not is_remote(address):
        root = Path(address.removeprefix("file://"))
        folders += [str(file.parent.relative_to(root)) for file in sorted((root / path).rglob(".zarray"))]
    for folder in dict.fromkeys(folders):
        for name in (".zarray", "zarr.json"):
            try:
                metadata = json.loads(files.get(f"{folder}/{name}".lstrip("/")) or b"{}")
            except ValueError:
                continue
            if isinstance(metadata, Mapping):
                refuse_objects(metadata, f"{address} {folder}".rstrip(" ."))


def _codecs(metadata: Any) -> Iterator[str]:
    """Names of all codecs, also those within shards."""
    held = [*(metadata.get("filters") or ()), metadata.get("compressor"), *(metadata.get("codecs") or ())]
    for codec in held:
        if isinstance(codec, Mapping):
            yield str(codec.get("id", codec.get("name"))).removeprefix("numcodecs.")
            if isinstance(codec.get("configuration"), Mapping):
                yield from _codecs({"codecs": codec["configuration"].get("codecs")})
