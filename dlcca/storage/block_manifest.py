"""What a stage writes down of itself and of its blocks: sealed JSON, opened only if nothing has changed in it."""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DamagedBlock
from dlcca.storage.checksummed_json import sealed, unsealed
from dlcca.storage.chunks import crc32c
from dlcca.storage.files import files_at

#: The name of the record of a finished block; anything else beside it is nobody's.
RECORD = re.compile(r"(\d{5,})\.json")
#: The attempt for which stages are begun; there is none before the first ``--from``.
ATTEMPT = "stages/attempt.json"
#: How the record of a block begins: fingerprint of the stage, generation of the lock.
_ORIGIN = re.compile(rb'\{"fingerprint": "([^"]*)", "generation": "([^"]*)"')
#: Stages whose work is done by other verbs than `dlcca run --from STAGE`.
OF_RECORDINGS = ("drafts", "clock", "pca", "views")


def known_stage(address: str, name: str) -> dict[str, Any] | None:
    """What a stage has written down of itself: fingerprint, blocks, settings, arrays; None if it was not begun."""
    found = files_at(address).get(f"stages/{name}/stage.json")
    return None if found is None else opened(found, f"stage.json of stage {name!r} in {address}", name)


def new_attempt(address: str) -> None:
    """From now on, stages that are begun have a folder that no earlier attempt has written to."""
    files_at(address).put(ATTEMPT, sealed({"attempt": uuid.uuid4().hex[:12]}))


def attempt_now(address: str, stage: str) -> str:
    """The attempt for which a stage is begun; empty if it is the first one."""
    found = files_at(address).get(ATTEMPT)
    return "" if found is None else str(opened(found, f"{ATTEMPT} of {address}", stage)["attempt"])


def is_attempt(found: bytes | None) -> bool:
    """Whether it is the file that `new_attempt` writes, unchanged."""
    try:
        return found is not None and "attempt" in unsealed(found)
    except (ValueError, KeyError, AttributeError, TypeError):
        return False


def origin_of(found: bytes) -> tuple[str, str] | None:
    """Fingerprint and generation in the record of a block; None if it has none, as those of an earlier dlcca."""
    origin = _ORIGIN.match(found)
    return None if origin is None else (origin[1].decode(errors="replace"), origin[2].decode(errors="replace"))


def opened(found: bytes, what: str, stage: str) -> dict[str, Any]:
    """The content of a record, without its cost."""
    for attempt in (unsealed, _unsealed_before):
        try:
            content = attempt(found)
        except (ValueError, KeyError, AttributeError, TypeError):
            continue
        content.pop("cost", None)
        return content
    raise DamagedBlock(f"{what} is damaged. {remedy(stage)}.")


def _unsealed_before(found: bytes) -> dict[str, Any]:
    """A record of an earlier dlcca, whose checksum was one of the values and left the cost out."""
    content = json.loads(found)
    cost = content.pop("cost", None)
    if content.pop("crc") != zlib.crc32(json.dumps(content, sort_keys=True).encode()):
        raise ValueError("the checksum does not fit")
    return {**content, "cost": cost}


def cost_in(found: bytes) -> dict[str, Any] | None:
    """The cost in a record; None if there is none that can be read, which is no harm."""
    try:
        noted = json.loads(found)["cost"]
        return {"seconds": float(noted["seconds"]), **{key: int(noted[key]) for key in ("peak_bytes", "tasks")}}
    except (ValueError, KeyError, TypeError):
        return None


def remedy(stage: str) -> str:
    """What to do about damage in a stage."""
    first = stage.partition("/")[0]
    if first in OF_RECORDINGS:
        return "Ingest again into another store, or dlcca run --from ingest"
    return "Transform again into another store" if first == "transform" else f"Run with --from {first}"


def is_same(X: NDArray, part: Mapping[str, Any]) -> bool:
    """Whether these are the rows that were written."""
    if "crc32c" in part:
        return part["crc32c"] == crc32c(X)
    return part["crc"] == (zlib.crc32(np.ascontiguousarray(X).view(np.uint8).data) if X.size else 0)
