"""Numbers, counts and lists as people read them."""

from __future__ import annotations

from collections.abc import Sequence

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: Between groups of three digits; narrow, and no line breaks there.
_THIN = "\u202f"


def number(count: float) -> str:
    """A whole number, in groups of three digits."""
    return f"{count:,.0f}".replace(",", _THIN)


def in_words(count: int) -> str:
    """A small number as a word."""
    return _WORDS[count] if 0 <= count < len(_WORDS) else number(count)


def counted(count: int, noun: str) -> str:
    """A number of things."""
    return f"{number(count)} {noun}{'s' * (count != 1)}"


def few(count: int, noun: str) -> str:
    """A small number of things, in words."""
    return f"{in_words(count)} {noun}{'s' * (count != 1)}"


def listed(things: Sequence[str]) -> str:
    """Several things with commas, and an "and" before the last."""
    if len(things) < 2:
        return "".join(things)
    return f"{', '.join(things[:-1])} and {things[-1]}"


def percent(share: float) -> str:
    """A share, without decimals unless it is small."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.2g} %"


def size(count: float) -> str:
    """Bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def duration(seconds: float) -> str:
    """Seconds, in the unit that suits them."""
    if seconds < 0.01:
        return "0 s" if seconds <= 0 else "< 0.01 s"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
