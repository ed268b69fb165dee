"""Example settings, which come with the package: a run, pipelines, and files for those who call them every night."""

from __future__ import annotations

from pathlib import Path

from dlcca.clusters import profiles_included
from dlcca.errors import StorageError


def folder() -> Path:
    """Where they are: in the package, or in the repository if dlcca is run from there."""
    package = Path(__file__).parents[1]
    for place in (package / "examples", package.parent / "pipelines"):
        if (place / "run.toml").is_file():
            return place
    raise StorageError("the example settings are not where they were installed; install dlcca again.")


def files() -> list[Path]:
    return profiles_included.files_below(folder())


def copied(out: Path) -> list[Path]:
    """The files in a folder of the user's; one that is there already stays as it is, for it may have been changed."""
    return profiles_included.copied_from(folder(), out)
