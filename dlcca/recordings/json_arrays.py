"""Small arrays as text, for the facts of a block: an array of its own on disk would take longer than what is in it."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed(X: NDArray) -> dict[str, Any]:
    """An array as values of JSON, to the bit; what repeats itself takes no room."""
    X = np.ascontiguousarray(X)
    content = base64.b64encode(zlib.compress(X.tobytes(), 1) if X.dtype.kind in "iu" else X.tobytes()).decode()
    return {"dtype": X.dtype.str, "shape": list(X.shape), "content": content}


def unpacked(said: dict[str, Any]) -> NDArray:
    """What `packed` was given."""
    dtype, content = np.dtype(said["dtype"]), base64.b64decode(said["content"])
    return np.frombuffer(zlib.decompress(content) if dtype.kind in "iu" else content, dtype).reshape(said["shape"])
