"""How far a store of views is, and whether what is finished of it is intact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dlcca.engine.progress import Progress, progress_of, stages_on_disk
from dlcca.storage import views
from dlcca.storage.blocks import Stage
from dlcca.storage.files import files_at

#: In the order in which they are done.
ON_DISK = ("drafts", "clock", "pca", "views")


def begun(address: str) -> list[Stage]:
    """The stages of an ingestion that have been begun, as they are on disk; none if there is no store of views."""
    return stages_on_disk(address, ON_DISK) if files_at(address).get("stages/drafts/stage.json") is not None else []


def progress(address: str) -> list[Progress]:
    """The stages that have been begun, each with its finished blocks."""
    return progress_of(begun(address))


def damages(address: str) -> list[str]:
    """What is wrong with the finished blocks of a store of views, a line each; every array is read."""
    finished = views.is_views(address)
    return [problem for stage in begun(address) for problem in stage.check(whole=finished, gone=gone(finished))]


def gone(finished: bool) -> Callable[[str], bool]:
    """Whether an array was removed: drafts are when views have been made of them."""
    return lambda array: finished and array.startswith("draft_")


def needed(header: Mapping[str, Any]) -> list[str]:
    """The stages that a finished store of views has been made by."""
    made = list(header["views"].values())
    if not made:
        return []
    later = any(view["finished"] for view in made)
    components = any(view["recipe"].get("pca_components") for view in made)
    return ["drafts", "clock", *["pca"] * components, *["views"] * later]
