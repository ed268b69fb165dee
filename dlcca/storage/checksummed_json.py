"""Small JSON files that carry a checksum of their own bytes, so that any change of them is found.

The checksum is that of the text before it. One of the values alone would not do: a changed byte may leave them as they
are (``1e-05`` and ``1E-05``), and what is read is then right, but the file is not the one that was written.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

_END = re.compile(rb', "sum": "([0-9a-f]{8})"\}\Z')


def sealed(content: Mapping[str, Any]) -> bytes:
    """Plain values, at least one, as JSON with a checksum at its end."""
    text = json.dumps(content)[:-1].encode()
    return text + f', "sum": "{checksum(text)}"}}'.encode()


def unsealed(found: bytes) -> dict[str, Any]:
    """What `sealed` was given; a ValueError if anything has changed."""
    end = _END.search(found)
    if end is None or end[1].decode() != checksum(found[: end.start()]):
        raise ValueError("the checksum does not fit")
    content = json.loads(found)
    del content["sum"]
    return content


def checksum(content: bytes) -> str:
    """CRC-32 in eight hexadecimal digits."""
    return f"{zlib.crc32(content):08x}"
