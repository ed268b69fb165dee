"""The one cache of a process: values that a worker has read or computed for one task and needs again in the next.

A key is a tuple; its first entry names a kind ("stage.json", "index", ...), the others tell its values apart: address,
fingerprint, number. All of it may be lost at any moment: `clear` empties it, and the least recently used
values are dropped when there are too many, or when they take too much memory.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
Key = tuple[Hashable, ...]

#: Bounds for all values together. The value that was added last is kept in any case.
MAX_BYTES, MAX_ENTRIES = 2 << 30, 4096
#: What a value takes besides its arrays; a guess.
ENTRY_BYTES = 1 << 10

_values: OrderedDict[Key, tuple[Any, int]] = OrderedDict()  # each with its bytes; the last used is the last
_guard = threading.RLock()
_making: dict[Hashable, threading.RLock] = {}


def get(key: Key, make: Callable[[], T], *, keep: int | None = None) -> T:
    """The value of a key, made if it is not there; threads that want the same value wait for the one that makes it.

    With ``keep``, only so many values of the kind are kept, the last ones made. Older ones are dropped before a value
    is made, and values of the kind are made one at a time: for those that take much memory.
    """
    with _guard:
        if key in _values:
            return find(key)
        lock = _making.setdefault(key if keep is None else key[:1], threading.RLock())
    with lock:
        with _guard:
            if key in _values:
                return find(key)
            if keep is not None:
                of_kind = [known for known in _values if known[0] == key[0]]  # the last used is the last
                for known in of_kind[: max(0, len(of_kind) - keep + 1)]:
                    del _values[known]
        try:
            put(key, made := make())
            return made
        finally:
            with _guard:
                if keep is None:
                    _making.pop(key, None)


def find(key: Key) -> Any:
    """The value of a key; None if it is not there."""
    with _guard:
        if key not in _values:
            return None
        _values.move_to_end(key)
        return _values[key][0]


def put(key: Key, value: Any) -> None:
    """Add or replace a value. Its bytes are those of the arrays in it."""
    with _guard:
        _values.pop(key, None)
        _values[key] = (value, ENTRY_BYTES + _array_bytes(value))
        total = size_of()
        while len(_values) > 1 and (total > MAX_BYTES or len(_values) > MAX_ENTRIES):
            total -= _values.popitem(last=False)[1][1]


def discard(key: Key) -> None:
    """Drop a value, if it is there."""
    with _guard:
        _values.pop(key, None)


def clear(kind: str | None = None) -> None:
    """Drop all values, or those of one kind."""
    with _guard:
        for key in [key for key in _values if kind in (None, key[0])]:
            del _values[key]


def size_of(kind: str | None = None) -> int:
    """Bytes of all values, or of those of one kind."""
    with _guard:
        return sum(size for key, (_, size) in _values.items() if kind is None or key[0] == kind)


def _array_bytes(value: Any, depth: int = 3) -> int:
    """Bytes of the NumPy arrays in a value, its items and its attributes."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if depth == 0:
        return 0
    if not isinstance(value, list | tuple):
        value = list((value if isinstance(value, Mapping) else getattr(value, "__dict__", {})).values())
    return sum(_array_bytes(item, depth - 1) for item in value)
