"""What a store records of itself, with checksums: how every change of a file is found.

CRC-32C, the checksum of Zarr's chunks, is that of every file and block. SHA-256 identifies contents:

===================  =============================================================  =================================
checksum             of                                                             kept in
===================  =============================================================  =================================
`checksum`           a small JSON file (`sealed`): records of stages, locks         the file itself, at its end
`checksum`           the zarr.json of an array                                      stage.json, header of the store
`crc32c`             a block's rows of an array                                     the record of the block
`digest`             a whole array                                                  header of the store
`digest_of_facts`    the header of a store                                          the header itself
===================  =============================================================  =================================

The checksum of a JSON file is that of its bytes. One of its values would not do: a changed byte may leave them equal
(``1e-05`` and ``1E-05``). Zarr takes a changed zarr.json for a valid one: a group without attributes, an array of
another shape. So the zarr.json of a group is compared byte by byte with what Zarr writes, that of an array with its
checksum.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DamagedBlock
from dlcca.storage.files import files_at

ZARR_JSON = "zarr.json"
#: The name of the record of a finished block; other files in its folder are ignored.
RECORD = re.compile(r"(\d{5,})\.json")
#: The attempt that stages are begun for; there is none before the first ``--from``.
ATTEMPT = "stages/attempt.json"
#: Stages that other commands than `dlcca run --from STAGE` compute.
OF_RECORDINGS = ("drafts", "clock", "pca", "views")
_END = re.compile(rb', "sum": "([0-9a-f]{8})"\}\Z')
#: What reading a damaged JSON file may raise.
_DAMAGE = (ValueError, KeyError, AttributeError, TypeError)


def checksum(content: bytes) -> str:
    """CRC-32C of bytes, in eight hexadecimal digits."""
    return f"{crc32c(np.frombuffer(content, np.uint8)):08x}"


def crc32c(X: NDArray) -> int:
    """CRC-32C of an array: processors have an instruction for it."""
    return int(google_crc32c.value(np.ascontiguousarray(X).reshape(-1).view(np.uint8))) if X.size else 0


def digest(X: NDArray) -> str:
    """SHA-256 of an array with its dtype and shape."""
    made = new_hash(X)
    made.update(np.ascontiguousarray(X).data)
    return made.hexdigest()


def new_hash(array: Any) -> Any:
    """The SHA-256 of an array before its values: of its dtype and shape."""
    return hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())


def digest_of_facts(content: Mapping[str, Any] | Sequence[Any]) -> str:
    """SHA-256 of plain JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sealed(content: Mapping[str, Any]) -> bytes:
    """Plain values, at least one, as JSON with a checksum at its end."""
    text = json.dumps(content)[:-1].encode()
    return text + f', "sum": "{checksum(text)}"}}'.encode()


def unsealed(found: bytes) -> dict[str, Any]:
    """The content of `sealed`; a ValueError if anything has changed."""
    end = _END.search(found)
    if end is None or end[1].decode() != checksum(found[: end.start()]):
        raise ValueError("the checksum does not match")
    content = json.loads(found)
    del content["sum"]
    return content


def readable(found: bytes | None) -> dict[str, Any]:
    """The content of `sealed`; empty if there is none, or if it has changed."""
    try:
        return unsealed(found or b"")
    except _DAMAGE:
        return {}


# The zarr.json of groups and arrays.


def group_json(attributes: Mapping[str, Any]) -> bytes:
    """The zarr.json of a group with these attributes, as Zarr itself writes it."""
    content = {"attributes": dict(attributes), "zarr_format": 3, "node_type": "group"}
    return json.dumps(content, indent=2).encode()


def put_group(address: str, attributes: Mapping[str, Any]) -> None:
    """Make the folder at an address a group with these attributes and no others, whatever its zarr.json was."""
    files_at(address).put(ZARR_JSON, group_json(attributes))


def group_attributes(found: bytes) -> dict[str, Any]:
    """The attributes in the zarr.json of a group; a ValueError if it is not exactly as Zarr writes it."""
    attributes = json.loads(found)["attributes"] if found.startswith(b'{\n  "attributes"') else None
    if not isinstance(attributes, dict) or group_json(attributes) != found:
        raise ValueError(f"its {ZARR_JSON} has changed")
    return attributes


def node_in(found: bytes | None) -> dict[str, Any]:
    """The content of a zarr.json, unchecked; empty if there is none, or if it cannot be read."""
    try:
        node = json.loads(found or b"{}")
    except ValueError:
        return {}
    return node if isinstance(node, dict) else {}


def attributes_in(found: bytes | None) -> dict[str, Any]:
    """The attributes in a zarr.json, unchecked; empty if there are none, or if it cannot be read."""
    attributes = node_in(found).get("attributes")
    return attributes if isinstance(attributes, dict) else {}


def metadata_checksums(address: str, arrays: Iterable[str]) -> dict[str, str | None]:
    """A checksum of the zarr.json of each array; None if it is not there."""
    files = files_at(address)
    found = {name: files.get(f"{name}/{ZARR_JSON}") for name in arrays}
    return {name: None if raw is None else checksum(raw) for name, raw in found.items()}


def metadata_damages(address: str, known: Mapping[str, str | None]) -> dict[str, str]:
    """The arrays whose zarr.json is not the one that was written, each with what is wrong."""
    return {
        name: f"{ZARR_JSON} of array {name!r} in {address} is {'missing' if now is None else 'damaged'}"
        for name, now in metadata_checksums(address, known).items()
        if now != known[name]
    }


# The records of stages and their blocks.


def known_stage(address: str, name: str) -> dict[str, Any] | None:
    """The content of stage.json: fingerprint, blocks, settings, arrays; None if the stage was not begun."""
    found = files_at(address).get(f"stages/{name}/stage.json")
    return None if found is None else open_record(found, f"stage.json of stage {name!r} in {address}", name)


def open_record(found: bytes, what: str, stage: str) -> dict[str, Any]:
    """The content of a record; `DamagedBlock` if it has changed."""
    try:
        return unsealed(found)
    except _DAMAGE:
        raise DamagedBlock(f"{what} is damaged. {remedy(stage)}.") from None


def record_start(fingerprint: str, generation: str) -> bytes:
    """How the record of a block begins; that of a large block need not be parsed to learn which run has written it."""
    return json.dumps({"fingerprint": fingerprint, "generation": generation})[:-1].encode()


def new_attempt(address: str) -> None:
    """Have stages that are begun from now on use a folder that no earlier attempt has written to."""
    files_at(address).put(ATTEMPT, sealed({"attempt": uuid.uuid4().hex[:12]}))


def current_attempt(address: str, stage: str) -> str:
    """The attempt that a stage is begun for; empty if it is the first one."""
    found = files_at(address).get(ATTEMPT)
    return "" if found is None else str(open_record(found, f"{ATTEMPT} of {address}", stage)["attempt"])


def remedy(stage: str) -> str:
    """What to do about damage in a stage."""
    first = stage.partition("/")[0]
    if first in OF_RECORDINGS:
        return "Ingest again into another store, or dlcca run --from ingest"
    return "Transform again into another store" if first == "transform" else f"Run with --from {first}"
