"""Channels by name, by pattern or by type."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from dlcca.errors import SettingsError, suggest
from dlcca.recordings.formats.recording import Channel

MOST_LISTED = 60


def chosen(channels: Sequence[Channel], wanted: Sequence[str], where: str) -> list[str]:
    """The names of the channels wanted, each once, in the order of the wishes.

    A wish is a name, a pattern such as ``EEG *``, or a type such as ``type:ecg`` (patterns too: ``type:e[ce]g``). One
    that no channel answers is an error that lists the channels there are. ``where`` says whose channels, for errors.
    """
    names: list[str] = []
    if not wanted:
        raise SettingsError(f"{where} chooses no channels (channels = []). {there_are(channels)}")
    for wish in wanted:
        found = _answering(channels, wish)
        if not found:
            near = suggest(wish, [channel.name for channel in channels])
            near = f"{near} " if near.startswith("did you mean") else ""
            raise SettingsError(f"{where} has no channel {wish!r}; {near}{there_are(channels)}")
        names += found
    return list(dict.fromkeys(names))


def _answering(channels: Sequence[Channel], wish: str) -> list[str]:
    if any(channel.name == wish for channel in channels):  # a name may look like a pattern: "EEG [A1]"
        return [wish]
    if wish.startswith("type:"):
        kind = wish.removeprefix("type:").strip().lower()
        return [channel.name for channel in channels if fnmatchcase(channel.kind.lower(), kind)]
    return [channel.name for channel in channels if fnmatchcase(channel.name, wish)]


def there_are(channels: Sequence[Channel]) -> str:
    """The channels that can be chosen, for people."""
    told = list(dict.fromkeys(f"{c.name!r}{f' ({c.kind})' if c.kind else ''}" for c in channels))
    more = f" and {len(told) - MOST_LISTED} more" if len(told) > MOST_LISTED else ""
    return f"There are {', '.join(told[:MOST_LISTED])}{more}." if told else "There are no channels at all."
