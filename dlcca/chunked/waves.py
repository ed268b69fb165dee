"""A function of numbered blocks, mapped over the workers of a client or in a plain loop.

A long run has many more blocks than a scheduler should hold as tasks. So they are handed over in waves: never more
than ``wave`` are with the scheduler, and the rest waits here as plain numbers. Blocks go out and results come back
many at a time: a message for each would take longer than a small block does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

#: Tasks that the scheduler holds at a time.
WAVE = 1000
#: Times that a task is begun again when it fails, or when its worker is gone.
RETRIES = 2
#: Results that are fetched together where their order matters, so that no more of them are here at once.
FETCHED = 32


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
    call = partial(function, *arguments)
    number: dict[str, int] = {}
    prefix = _unused(name)

    def submit(count: int) -> list[Any]:
        """So many of the waiting blocks, or all that are left, handed to the scheduler."""
        keys = {f"{prefix}-{block}": block for block in islice(waiting, count)}
        number.update(keys)
        return client.map(call, list(keys.values()), key=list(keys), pure=False, retries=retries) if keys else []

    running = distributed.as_completed(submit(wave))
    for batch in running.batches():
        for future, result in zip(batch, client.gather(batch), strict=True):
            yield number.pop(future.key), result
        count = len(batch)
        del future, batch  # before others follow: the scheduler keeps what is referred to
        running.update(submit(count))


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
    call = partial(function, *arguments)
    for first in range(0, n_blocks, wave):
        blocks = range(first, min(n_blocks, first + wave))
        prefix = _unused("result")
        futures = client.map(call, blocks, key=[f"{prefix}-{block}" for block in blocks], pure=False, retries=retries)
        while futures:
            yield from client.gather(futures[:FETCHED])
            del futures[:FETCHED]


def _unused(name: str) -> str:
    """The beginning of new keys: one that was used before would get its old result, or its old error."""
    return f"dlcca-{name}-{uuid.uuid4().hex[:8]}"
