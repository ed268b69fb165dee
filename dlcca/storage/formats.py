"""The kinds of stores that dlcca writes: what their headers say."""

from __future__ import annotations

from dataclasses import dataclass

from dlcca.errors import StoreFileError

#: The formats of all stores.
FORMATS = {f"dlcca-{kind}" for kind in ("run", "views", "transformed", "model", "comparison", "treatment", "scaling")}


@dataclass(frozen=True)
class Format:
    """A kind of store: what its header says, and how people and errors speak of it."""

    name: str  # in the header, as "dlcca-run"
    version: int
    noun: str
    error: type[StoreFileError]
    renew: str  # what to do about a damaged one besides restoring it
    older: tuple[int, ...] = ()  # versions that can be read besides

    def __post_init__(self) -> None:
        assert self.name in FORMATS, self.name
