"""Fingerprints: what tells the inputs and settings of one stage from those of another."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from dlcca.engine import given_rows


def fingerprint(*content: Any) -> str:
    """SHA-256 of plain values and arrays."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return given_rows.digest(value) if np.ndim(value) else np.asarray(value).tolist()
