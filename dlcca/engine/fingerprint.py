"""Fingerprints: what tells the inputs and settings of one stage from those of another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlcca.engine import given_rows


def fingerprint(*content: Any) -> str:
    """SHA-256 of plain values and arrays."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()


def stage_fingerprint(
    job: Any, name: str, options: Sequence[Any] = (), constants: Sequence[Any] = (), below: Sequence[str] = ()
) -> str:
    """The fingerprint of a stage of a job, from the options and constants it depends on and those of stages below."""
    return fingerprint(job.inputs, job.rows, name, list(options), list(constants), list(below))


def _plain(value: Any) -> Any:
    return given_rows.digest(value) if np.ndim(value) else np.asarray(value).tolist()
