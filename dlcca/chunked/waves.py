"""A function of numbered blocks, mapped over the workers of a client or in a plain loop.

A long run has many more blocks than a scheduler should hold as tasks. So they are handed over in waves: never more
than ``wave`` are with the scheduler, and the rest waits here as plain numbers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

#: Tasks that the scheduler holds at a time.
WAVE = 1000
#: Times that a task is begun again when it fails, or when its worker is gone.
RETRIES = 2


def as_completed(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    blocks: Sequence[int],
    client: Any = None,
    *,
    name: str = "block",
    wave: int = WAVE,
    retries: int = RETRIES,
) -> Iterator[tuple[int, Any]]:
    """Pairs of a block and ``function(*arguments, block)``, in the order in which they are finished.

    The function must be one of a module, so that workers find it; an error in it ends the iteration.
    """
    if client is None:
        for block in blocks:
            yield block, function(*arguments, block)
        return
    import distributed

    waiting = iter(blocks)
    call = uuid.uuid4().hex[:8]  # a key that was used before would get its old result, or its old error
    number: dict[str, int] = {}

    def submit() -> Iterator[Any]:
        for block in waiting:
            key = f"dlcca-{name}-{call}-{block}"
            number[key] = block
            yield client.submit(function, *arguments, block, key=key, pure=False, retries=retries)

    coming = submit()
    running = distributed.as_completed(list(islice(coming, wave)))
    for future in running:
        yield number.pop(future.key), future.result()
        if (following := next(coming, None)) is not None:
            running.add(following)


def in_order(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    n_blocks: int,
    client: Any = None,
    *,
    wave: int = WAVE,
    retries: int = RETRIES,
) -> Iterator[Any]:
    """``function(*arguments, block)`` of every block, in the order of the blocks."""
    if client is None:
        for block in range(n_blocks):
            yield function(*arguments, block)
        return
    for first in range(0, n_blocks, wave):
        blocks = range(first, min(n_blocks, first + wave))
        futures = [client.submit(function, *arguments, block, pure=False, retries=retries) for block in blocks]
        for future in futures:
            yield future.result()
            future.release()
