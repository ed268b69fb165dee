"""How clients speak of what happens while a run goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable

#: Takes a sentence for whoever watches the run.
Say = Callable[[str], None]


def to_log(text: str) -> None:
    """What is said where nobody has asked to be told."""
    logging.getLogger("dlcca.clusters").info(text)
