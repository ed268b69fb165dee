"""Folders of one run that only their owner can open, removed at its end or by the next run."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new folder of mode 700 in ``parent``, removed with the block; also removes those that killed runs have left."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_orphans(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{socket.gethostname()}-{os.getpid()}-", dir=parent))  # mode 700
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_orphans(parent: Path, prefix: str) -> None:
    """Remove folders of ours whose process, on this machine, is gone."""
    start = f"{prefix}{socket.gethostname()}-"
    for folder in parent.glob(f"{start}*"):
        number = folder.name.removeprefix(start).split("-")[0]
        if number.isdigit() and _is_ours(folder) and not _is_alive(int(number)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.geteuid()
    except FileNotFoundError:  # its own process has just removed it
        return False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
