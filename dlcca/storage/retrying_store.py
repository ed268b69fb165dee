"""The Zarr store over object storage: every operation is retried as a whole. Apart, because it imports Zarr."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from zarr.storage import FsspecStore

from dlcca.storage.retry import with_retries_async

T = TypeVar("T")


class RetryingStore(FsspecStore):
    """An `FsspecStore` with retries; all its operations are idempotent."""

    async def _retried(self, key: str, what: str, operation: Callable[[], Awaitable[T]]) -> T:
        protocol = self.fs.protocol if isinstance(self.fs.protocol, str) else self.fs.protocol[0]
        return await with_retries_async(f"{protocol}://{self.path}/{key} cannot be {what}", operation)

    async def get(self, key: str, *options: Any, **named: Any) -> Any:
        return await self._retried(key, "read", partial(super().get, key, *options, **named))

    async def get_partial_values(self, *options: Any, **named: Any) -> Any:
        return await self._retried("", "read", partial(super().get_partial_values, *options, **named))

    async def set(self, key: str, *options: Any, **named: Any) -> None:
        await self._retried(key, "written", partial(super().set, key, *options, **named))

    async def exists(self, key: str) -> bool:
        return await self._retried(key, "looked up", partial(super().exists, key))

    async def delete(self, key: str) -> None:
        await self._retried(key, "removed", partial(super().delete, key))

    async def delete_dir(self, prefix: str) -> None:
        await self._retried(prefix, "removed", partial(super().delete_dir, prefix))

    async def clear(self) -> None:
        await self._retried("", "removed", super().clear)

    async def getsize(self, key: str) -> int:
        return await self._retried(key, "looked up", partial(super().getsize, key))

    async def list(self) -> AsyncIterator[str]:
        for name in await self._retried("", "listed", partial(_all_of, super().list)):
            yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name in await self._retried(prefix, "listed", partial(_all_of, partial(super().list_dir, prefix))):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for name in await self._retried(prefix, "listed", partial(_all_of, partial(super().list_prefix, prefix))):
            yield name


async def _all_of(names: Callable[[], AsyncIterator[str]]) -> Any:
    """A whole listing: one that breaks off is repeated from its start."""
    return [name async for name in names()]
