"""Every file at an address, whoever wrote it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dlcca.stores.files import files_at, is_remote
from dlcca.stores.patience import patiently


def all_files(address: str) -> list[str]:
    """The names of all files below an address, with slashes, sorted; hidden ones too."""
    if is_remote(address):
        files: Any = files_at(address)
        root = f"{files.root.rstrip('/')}/"
        found = patiently(f"{address} cannot be listed", lambda: files.fs.find(root))
        return sorted(name.removeprefix("/").removeprefix(root.removeprefix("/")) for name in found)
    place = Path(address.removeprefix("file://"))
    names = []
    for folder, _, files_there in os.walk(place):
        below = Path(folder).relative_to(place).as_posix()
        names += files_there if below == "." else [f"{below}/{name}" for name in files_there]
    return sorted(names)
