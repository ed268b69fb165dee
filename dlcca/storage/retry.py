"""Retries of storage operations: which errors are transient, how long to retry, and what to report.

Three layers could retry a request to object storage, and each has its part:

* *botocore* retries requests without an answer, 5xx and "slow down", with random exponential backoff; `S3_BOUNDS`
  limits it. It does not see a response body that breaks off, and does not count 429.
* *s3fs* would retry some of these errors once more, so that attempts multiply: `S3_TRIES` limits it to one.
* `with_retries` repeats every whole operation, whichever transient error it failed with, for a bounded time. An outage
  of a minute costs a minute, and one that does not end stops the run.

The bound is the environment variable ``DLCCA_STORAGE_RETRY_S``. Until a storage has answered once, and again after it
was given up, the bound is at most `FIRST_RETRY_S`: the address may be wrong.
"""

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from dlcca.errors import SettingsError, StorageError

T = TypeVar("T")

#: Three attempts of botocore end after 2 s if the connection is refused, 20 s if no host answers, and 50 s if requests
#: are accepted and never answered.
S3_BOUNDS = {"connect_timeout": 5, "read_timeout": 15, "retries": {"mode": "standard", "total_max_attempts": 3}}
S3_TRIES = 1

VARIABLE = "DLCCA_STORAGE_RETRY_S"
#: The default of the variable.
RETRY_S = 120.0
#: The bound for a storage that has never answered, or no longer does.
FIRST_RETRY_S = 10.0
#: The first and the longest pause. Each is twice the one before, times a random factor between 1/2 and 1.
PAUSES_S = (0.3, 15.0)
#: Between two warnings in the log.
LOG_EVERY_S = 60.0

#: Status codes of a server that is overloaded, restarted or did not receive the whole request. 501 is permanent.
TRANSIENT_STATUS = (408, 429, 500, 502, 503, 504)
#: Error codes that are transient although their status is not: bytes lost or changed in transit, conflicting requests.
TRANSIENT_CODES = (
    *("BadDigest", "ConditionalRequestConflict", "IncompleteBody", "InternalError", "OperationAborted"),
    *("RequestTimeout", "ServiceUnavailable", "SlowDown", "XAmzContentSHA256Mismatch"),
)
#: Why a storage failed, and the error codes and exceptions that mean it.
_REASONS = {
    "the bucket does not exist": "NoSuchBucket",
    "access is denied with these credentials": "AccessDenied 403",
    "its endpoint does not answer (AWS_ENDPOINT_URL, if it is not that of AWS)": (
        "EndpointConnectionError ConnectTimeoutError"
    ),
    "its endpoint accepted the request and does not answer": "ReadTimeoutError",
    "its endpoint stopped in the middle of an answer": "AioReadTimeoutError",
    "the connection breaks off": "ConnectionClosedError ClientPayloadError ResponseStreamingError",
    "it has an internal error": "InternalError 500",
    "it is overloaded": "SlowDown ServiceUnavailable 503",
    "no credentials are set (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)": "NoCredentialsError",
}

log = logging.getLogger("dlcca.storage")


class StorageUnavailable(StorageError):
    """A storage operation failed; ``reason`` says why, without the address."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class IncompleteOperation(OSError):
    """A storage reported success and did not do all of what was requested."""


@dataclass
class _Record:
    """What this process knows of its storages."""

    answers: bool = False  # the last operation got an answer, a refusal included
    retries: int = 0
    logged_at: float = -LOG_EVERY_S


_record = _Record()


def retries() -> int:
    """Number of retries in this process, without those of botocore."""
    return _record.retries


def retry_s() -> float:
    """Seconds for which an operation is retried, by the environment."""
    text = os.environ.get(VARIABLE, "").strip()
    try:
        seconds = float(text) if text else RETRY_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise SettingsError(f"{VARIABLE} = {text!r}; a number of seconds is needed, 0 for no retries.")
    return seconds


def with_retries(what: str, operation: Callable[[], T]) -> T:
    """The result of an operation, retried while its errors are transient; ``what`` begins the error message."""
    attempts = _Attempts(what)
    while True:
        with attempts:
            return operation()
        time.sleep(attempts.pause_s)


async def with_retries_async(what: str, operation: Callable[[], Awaitable[T]]) -> T:
    """As `with_retries`, in an event loop."""
    attempts = _Attempts(what)
    while True:
        with attempts:
            return await operation()
        await asyncio.sleep(attempts.pause_s)


class _Attempts(AbstractContextManager[Any]):
    """The attempts at one operation, each a block; after a transient error, the next one is due in ``pause_s``."""

    def __init__(self, what: str) -> None:
        self.what, self.count, self.began, self.pause_s = what, 0, time.monotonic(), 0.0
        self.limit_s = retry_s() if _record.answers else min(retry_s(), FIRST_RETRY_S)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> bool:
        """Suppress an error that is to be retried; others are raised, those of the storage with their reason."""
        if error is not None and not isinstance(error, Exception):
            return False
        if error is None or not is_transient(error):
            _record.answers = True
            reason = None if error is None else failure_reason(error)
            if reason is None or isinstance(error, StorageUnavailable):
                return False
            raise StorageUnavailable(f"{self.what}: {reason}.", reason) from error
        reason = failure_reason(error) or type(error).__name__
        now = time.monotonic()
        waited = now - self.began
        if waited >= self.limit_s:
            _record.answers = False
            often = f", {self.count + 1} times within {waited:.0f} s ({VARIABLE} = {retry_s():g})" if self.count else ""
            hint = "What is finished is kept: run again when the storage is available."
            raise StorageUnavailable(f"{self.what}: {reason}{often}. {hint}", reason) from error
        _record.retries += 1
        if now - _record.logged_at >= LOG_EVERY_S:  # every failed request of an outage would fill the log
            _record.logged_at = now
            times = f" ({_record.retries} retries so far in this process)" if _record.retries > 1 else ""
            log.warning("%s: %s; retried for up to %g s%s.", self.what, reason, self.limit_s, times)
        longest = min(PAUSES_S[0] * 2**self.count, PAUSES_S[1])
        self.count += 1
        self.pause_s = min(random.uniform(longest / 2, longest), self.limit_s - waited)
        return True


def failure_reason(error: BaseException) -> str | None:
    """Why a storage failed, as a clause of a message; None if the error is one of the stored data.

    The text of botocore's errors is left out: it contains the address of the endpoint, which may be private.
    """
    if isinstance(error, StorageError):
        return getattr(error, "reason", "") or str(error)
    for cause in causes(error):
        if type(cause).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp"):
            code = error_code(cause)
            if code in ("NoSuchKey", "404"):
                return None
            name = code or type(cause).__name__
            reasons = (reason for reason, names in _REASONS.items() if name in names.split())
            return next(reasons, f"the storage reports {name}")
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return str(error.strerror or error) or type(error).__name__
    return None


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later; an error that was retried already is permanent."""
    if isinstance(error, StorageError):
        return False
    for cause in causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return status in TRANSIENT_STATUS or error_code(cause) in TRANSIENT_CODES
        if isinstance(cause, ConnectionError | TimeoutError | IncompleteOperation):
            return True
        with suppress(ImportError):  # not S3
            from aiohttp import ClientError, InvalidURL
            from botocore import exceptions
            from botocore.parsers import ResponseParserError

            if isinstance(cause, exceptions.SSLError | InvalidURL):
                return False
            # A body with a wrong checksum was damaged in transit: the service has checked what it holds.
            damaged = exceptions.FlexibleChecksumError | ResponseParserError
            if isinstance(cause, exceptions.HTTPClientError | exceptions.ConnectionError | ClientError | damaged):
                return True
    return False


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__


def error_code(error: BaseException) -> str | None:
    """The code in an answer of S3; None if the error is not an answer."""
    response: Any = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None
