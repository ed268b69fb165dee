"""The Zarr store over an object storage, every operation of which is asked again while that may help."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from zarr.storage import FsspecStore

from dlcca.storage.retry import patiently_async

T = TypeVar("T")


class PatientStore(FsspecStore):
    """All that a storage does is the same when it is done twice, so each operation is repeated as a whole."""

    async def _asked(self, key: str, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        protocol = self.fs.protocol if isinstance(self.fs.protocol, str) else self.fs.protocol[0]
        return await patiently_async(f"{protocol}://{self.path}/{key} cannot be {what}", ask)

    async def get(self, key: str, *options: Any, **named: Any) -> Any:
        return await self._asked(key, "read", partial(super().get, key, *options, **named))

    async def get_partial_values(self, *options: Any, **named: Any) -> Any:
        return await self._asked("", "read", partial(super().get_partial_values, *options, **named))

    async def set(self, key: str, *options: Any, **named: Any) -> None:
        await self._asked(key, "written", partial(super().set, key, *options, **named))

    async def exists(self, key: str) -> bool:
        return await self._asked(key, "looked up", partial(super().exists, key))

    async def delete(self, key: str) -> None:
        await self._asked(key, "removed", partial(super().delete, key))

    async def delete_dir(self, prefix: str) -> None:
        await self._asked(prefix, "removed", partial(super().delete_dir, prefix))

    async def clear(self) -> None:
        await self._asked("", "removed", super().clear)

    async def getsize(self, key: str) -> int:
        return await self._asked(key, "looked up", partial(super().getsize, key))

    async def list(self) -> AsyncIterator[str]:
        for name in await self._asked("", "listed", partial(_all_of, super().list)):
            yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name in await self._asked(prefix, "listed", partial(_all_of, partial(super().list_dir, prefix))):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for name in await self._asked(prefix, "listed", partial(_all_of, partial(super().list_prefix, prefix))):
            yield name


async def _all_of(names: Callable[[], AsyncIterator[str]]) -> Any:
    """A listing at once, so that one that breaks off in the middle begins anew."""
    return [name async for name in names()]
