"""Real recordings, where they are at hand."""

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


def shared(*parts: str) -> str:
    """The path of a real recording; the test is skipped where it is absent."""
    folder = Path(os.environ.get("DLCCA_TEST_DATA", _ROOT.parent / "shared" / "data"))
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"there is no {'/'.join(parts)} in {folder}: set DLCCA_TEST_DATA to where the recordings are")
    return str(path)
