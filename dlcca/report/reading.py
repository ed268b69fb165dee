"""Arrays of a finished store some rows at a time, held against their digests when the last has gone by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import StorageError
from dlcca.storage.files import is_remote, trouble
from dlcca.storage.formats import Format

#: Bytes of all arrays together that are held at a time, about.
AT_ONCE = 24 << 20


def rows_of(
    group: Any, names: Sequence[str], digests: Mapping[str, str], address: str, form: Format
) -> Iterator[tuple[int, dict[str, NDArray]]]:
    """The first row and the arrays by name, some rows at a time; an error at the end if they are not as written."""
    arrays = {name: _opened(group, name, address, form) for name in names}
    made = {name: hashlib.sha256(f"{array.dtype.str}{array.shape}".encode()) for name, array in arrays.items()}
    n, step = int(next(iter(arrays.values())).shape[0]), _rows_at_once(arrays)
    for first in range(0, n, step):
        parts = {name: _read(array, first, first + step, name, address, form) for name, array in arrays.items()}
        for name, X in parts.items():
            made[name].update(np.ascontiguousarray(X).data)
        yield first, parts
    for name in names:
        if made[name].hexdigest() != digests.get(name):
            raise form.error(f"array {name!r} of {address} is damaged or incomplete. Restore it, or {form.renew}.")


def picked(
    group: Any, name: str, rows: NDArray[np.int64], digests: Mapping[str, str], address: str, form: Format
) -> NDArray:
    """Some rows of an array, in the order asked for; all of it is looked at, little of it is held."""
    order = np.argsort(rows, kind="stable")
    wanted, parts = rows[order], []
    for first, block in rows_of(group, [name], digests, address, form):
        low, high = np.searchsorted(wanted, [first, first + len(block[name])])
        parts.append(block[name][wanted[low:high] - first])
    found = np.concatenate(parts)
    back = np.empty_like(found)
    back[order] = found
    return back


def _rows_at_once(arrays: Mapping[str, Any]) -> int:
    """Whole chunks of the widest array, as many as may be held; the chunks of narrow ones are unpacked again."""
    width = {name: array.dtype.itemsize * int(np.prod(array.shape[1:])) for name, array in arrays.items()}
    chunk = arrays[max(width, key=lambda name: width[name])].chunks[0]
    return chunk * max(1, AT_ONCE // max(1, chunk * sum(width.values())))


def _opened(group: Any, name: str, address: str, form: Format) -> Any:
    try:
        return group[name]
    except KeyError as error:
        raise form.error(f"array {name!r} of {address} is not there. Restore it, or {form.renew}.") from error


def _read(array: Any, first: int, last: int, name: str, address: str, form: Format) -> NDArray:
    try:
        return np.asarray(array[first:last])
    except Exception as error:
        if is_remote(address) and (reason := trouble(error)) is not None:
            raise StorageError(f"array {name!r} of {address} cannot be read: {reason}.") from error
        where = f"array {name!r} of {address}"
        raise form.error(f"{where} cannot be read: {error}. Restore it, or {form.renew}.") from error
