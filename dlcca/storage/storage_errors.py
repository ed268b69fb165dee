"""What an error of a storage means: in words for people, and whether it may be gone when it is asked again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from dlcca.errors import StorageError

#: Answers of a server that is overloaded, restarted or did not get all of the request. 501 is not among them: what a
#: server cannot do, it will not learn.
TRANSIENT_STATUS = (408, 429, 500, 502, 503, 504)
#: By name, where the number is that of a mistake of ours: bytes that were lost or changed on their way, a deletion and
#: a write that met.
TRANSIENT_CODES = (
    "BadDigest",
    "ConditionalRequestConflict",
    "IncompleteBody",
    "InternalError",
    "OperationAborted",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "XAmzContentSHA256Mismatch",
)
_SILENT = "its endpoint does not answer (AWS_ENDPOINT_URL, if it is not that of AWS)"
_DENIED = "access is denied with these credentials"
_CUT = "the connection breaks off"
_BROKEN = "it has an error of its own"
_BUSY = "it is overloaded"
_WORDS = {
    "NoSuchBucket": "the bucket does not exist",
    "AccessDenied": _DENIED,
    "403": _DENIED,
    "EndpointConnectionError": _SILENT,
    "ConnectTimeoutError": _SILENT,
    "ReadTimeoutError": "its endpoint took the request and does not answer",
    "AioReadTimeoutError": "its endpoint began to answer and fell silent",
    "ConnectionClosedError": _CUT,
    "ClientPayloadError": _CUT,
    "ResponseStreamingError": _CUT,
    "InternalError": _BROKEN,
    "500": _BROKEN,
    "SlowDown": _BUSY,
    "ServiceUnavailable": _BUSY,
    "503": _BUSY,
    "NoCredentialsError": "no credentials are set (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)",
}


class Unserved(StorageError):
    """A storage did not do what it was asked for; ``reason`` says why, without where."""

    reason = ""


class Unfinished(OSError):
    """A storage says that it has done what it was asked for, and has not."""


def trouble(error: BaseException) -> str | None:
    """Why a storage did not serve, in words; None if the error is not the storage's but of what is stored there.

    The text of botocore's errors is left out: it holds the address of the endpoint, which is nobody else's business.
    """
    if isinstance(error, StorageError):
        return getattr(error, "reason", "") or str(error)
    for cause in _causes(error):
        if type(cause).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp"):
            return _told_by_service(cause)
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
        return str(error.strerror or error) or type(error).__name__
    return None


def is_transient(error: BaseException) -> bool:
    """Whether the same request may well succeed later; what was asked again already will not."""
    if isinstance(error, StorageError):
        return False
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):  # an answer of the service, be it of refusal
            return (
                response.get("ResponseMetadata", {}).get("HTTPStatusCode") in TRANSIENT_STATUS
                or response.get("Error", {}).get("Code") in TRANSIENT_CODES
            )
        lost, refused = _of_the_network()
        if isinstance(cause, lost):
            return not isinstance(cause, refused)
    return False


@cache
def _of_the_network() -> tuple[tuple[type[BaseException], ...], tuple[type[BaseException], ...]]:
    """Errors of requests that got no answer, or half of one; and those among them that come again each time."""
    lost: list[type[BaseException]] = [ConnectionError, TimeoutError, Unfinished]
    refused: list[type[BaseException]] = []
    try:
        from aiohttp import ClientError, InvalidURL
        from botocore import exceptions
        from botocore.parsers import ResponseParserError
    except ImportError:  # another storage than S3
        return tuple(lost), ()
    # A body whose checksum is wrong was damaged on its way: the service has checked what it holds.
    lost += [exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.FlexibleChecksumError]
    lost += [ResponseParserError, ClientError]
    refused += [exceptions.SSLError, InvalidURL]
    return tuple(lost), tuple(refused)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__


def _told_by_service(error: BaseException) -> str | None:
    """What an error of botocore means."""
    response: Any = getattr(error, "response", None)  # None in errors of the connection
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    if code in ("NoSuchKey", "404"):
        return None
    said = str(code or type(error).__name__)
    return _WORDS.get(said, f"the storage says {said}")
