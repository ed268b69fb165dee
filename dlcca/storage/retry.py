"""How long a storage is asked again, in one place: for what errors, after what pauses, until when.

Several could do it, and each does a part:

* *botocore* sends a request again that got no answer, a 5xx or "slow down": `S3_BOUNDS` says how often. Its pauses
  grow and are random. That is enough for a hiccup; a body that breaks off it does not see, and 429 it does not count.
* *s3fs* asks around that once more for some of these errors (connections, bodies, "slow down") and not for others (any
  other 5xx), with pauses that are not random. Tries would multiply: it is told to ask once (`S3_TRIES`).
* *Here* every whole operation is asked again, whatever of the above it failed for, until a bound in seconds. So a
  storage that is gone for a minute costs a minute, and one that is gone for good ends the run in bounded time.

The bound is the environment variable ``DLCCA_STORAGE_PATIENCE_S``. Until a storage has answered for the first time, and
again after it was given up, it is a few seconds at most: the address may be wrong.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from dlcca.errors import SettingsError
from dlcca.storage.storage_errors import Unserved, is_transient, trouble

T = TypeVar("T")

#: How long an endpoint may be silent, and how often a request is sent: three are over after 2 s if the connection is
#: refused, 20 s if nobody is there, and 50 s if each is taken and never answered.
S3_BOUNDS = {"connect_timeout": 5, "read_timeout": 15, "retries": {"mode": "standard", "total_max_attempts": 3}}
S3_TRIES = 1

VARIABLE = "DLCCA_STORAGE_PATIENCE_S"
#: By default: a storage may be gone for a minute, and then some.
PATIENCE_S = 120.0
#: For one that has never answered, or no longer does.
STRANGER_S = 10.0
#: The first pause, and the longest; each is twice the one before, and at random between half of it and all.
PAUSES_S = (0.3, 15.0)
#: Between two lines of the log.
TELL_EVERY_S = 60.0

log = logging.getLogger("dlcca.storage")


@dataclass
class _Record:
    """What this process knows of its storages."""

    answers: bool = False  # the last operation got an answer, be it a refusal
    asked_again: int = 0
    told_at: float = -TELL_EVERY_S


_record = _Record()


def asked_again() -> int:
    """How often this process has had to ask again, besides what botocore did by itself."""
    return _record.asked_again


def patience_s() -> float:
    """Seconds for which an operation is asked again, as the environment says."""
    said = os.environ.get(VARIABLE, "").strip()
    try:
        seconds = float(said) if said else PATIENCE_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise SettingsError(f"{VARIABLE} = {said!r}; a number of seconds is needed, 0 to ask only once.")
    return seconds


def patiently(what: str, ask: Callable[[], T]) -> T:
    """What ``ask`` returns, asked again while that may help; ``what`` begins the message if it does not."""
    tries = _Tries(what)
    while True:
        try:
            answer = ask()
        except Exception as error:
            pause = tries.pause_after(error)
        else:
            _record.answers = True
            return answer
        time.sleep(pause)


async def patiently_async(what: str, ask: Callable[[], Awaitable[T]]) -> T:
    """As `patiently`, in an event loop."""
    tries = _Tries(what)
    while True:
        try:
            answer = await ask()
        except Exception as error:
            pause = tries.pause_after(error)
        else:
            _record.answers = True
            return answer
        await asyncio.sleep(pause)


class _Tries:
    """One operation, from the first time that it is asked for."""

    def __init__(self, what: str) -> None:
        self.what, self.count, self.began = what, 0, time.monotonic()
        self.patience = patience_s() if _record.answers else min(patience_s(), STRANGER_S)

    def pause_after(self, error: Exception) -> float:
        """Seconds to wait before it is asked for again; what should not be asked for again is raised."""
        reason = trouble(error)
        if not is_transient(error):
            _record.answers = True
            if reason is None or isinstance(error, Unserved):
                raise error
            raise _unserved(f"{self.what}: {reason}.", reason) from error
        waited = time.monotonic() - self.began
        if waited >= self.patience:
            _record.answers = False
            raise self._given_up(reason or type(error).__name__, waited) from error
        self._tell(reason or type(error).__name__)
        longest = min(PAUSES_S[0] * 2**self.count, PAUSES_S[1])
        self.count += 1
        return min(random.uniform(longest / 2, longest), self.patience - waited)

    def _given_up(self, reason: str, waited: float) -> Unserved:
        often = f", {self.count + 1} times within {waited:.0f} s ({VARIABLE} = {patience_s():g})" if self.count else ""
        return _unserved(f"{self.what}: {reason}{often}. What is finished is kept: run again when it serves.", reason)

    def _tell(self, reason: str) -> None:
        """A line now and then: every failed request of a bad day would fill the log."""
        _record.asked_again += 1
        now = time.monotonic()
        if now - _record.told_at >= TELL_EVERY_S:
            _record.told_at = now
            times = f"{_record.asked_again} times so far in this process, " if _record.asked_again > 1 else ""
            log.warning("%s: %s; asked again, %sfor up to %g s.", self.what, reason, times, self.patience)


def _unserved(message: str, reason: str) -> Unserved:
    error = Unserved(message)
    error.reason = reason
    return error
