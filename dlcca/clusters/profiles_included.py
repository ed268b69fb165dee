"""The ready cluster files, which come with the package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dlcca.errors import ClusterError, StorageError


def folder() -> Path:
    """Where they are: in the package, or in the repository if dlcca is run from there."""
    package = Path(__file__).parents[1]
    for place in (package / "cluster", package.parent / "cluster"):
        if (place / "slurm.toml").is_file():
            return place
    raise ClusterError("the ready cluster files are not where they were installed; install dlcca again.")


def files() -> list[Path]:
    return files_below(folder())


def copied(out: Path) -> list[Path]:
    """The files in a folder of the user's; one that is there already stays as it is, for it may have been changed."""
    return copied_from(folder(), out)


def files_below(origin: Path) -> list[Path]:
    """All files that are for users."""
    found = (file for file in origin.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return sorted(file for file in found if file.name != "README.md")


def copied_from(origin: Path, out: Path) -> list[Path]:
    """The files of a folder in another; one that is there already stays as it is."""
    made = []
    for file in files_below(origin):
        place = out / file.relative_to(origin)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(place):
                shutil.copyfile(file, place)
        except OSError as error:
            raise StorageError(f"{place} cannot be written: {error.strerror or error}.") from error
        made.append(place)
    return made


def first_words(file: Path) -> str:
    """What a file says that it is: its first comment, or the first line of its docstring."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(("# ", '"""')):
            return line.removeprefix("# ").strip('" ')
    return ""
