"""The Zarr store over object storage: every operation is retried as a whole. Apart, because it imports Zarr."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from zarr.storage import FsspecStore

from dlcca.storage.retry import with_retries_async


def _retried(name: str, done: str) -> Any:
    """A method of `FsspecStore` with retries; its first argument is the key, if it has one."""
    method = getattr(FsspecStore, name)

    async def operation(self: "RetryingStore", *arguments: Any, **options: Any) -> Any:
        key = arguments[0] if arguments and isinstance(arguments[0], str) else ""
        what = f"{self.address}/{key} cannot be {done}"
        return await with_retries_async(what, partial(method, self, *arguments, **options))

    return operation


def _listed(name: str) -> Any:
    """A method of `FsspecStore` that lists keys, with retries."""

    async def operation(self: "RetryingStore", *prefix: str) -> AsyncIterator[str]:
        async def whole() -> list[str]:
            """A listing that breaks off is repeated from its start."""
            return [key async for key in getattr(FsspecStore, name)(self, *prefix)]

        for key in await with_retries_async(f"{self.address}/{''.join(prefix)} cannot be listed", whole):
            yield key

    return operation


class RetryingStore(FsspecStore):
    """An `FsspecStore` with retries; all its operations are idempotent."""

    get = _retried("get", "read")
    get_partial_values = _retried("get_partial_values", "read")
    set = _retried("set", "written")
    exists = _retried("exists", "looked up")
    getsize = _retried("getsize", "looked up")
    delete = _retried("delete", "removed")
    delete_dir = _retried("delete_dir", "removed")
    clear = _retried("clear", "removed")

    list, list_dir, list_prefix = map(_listed, ("list", "list_dir", "list_prefix"))

    @property
    def address(self) -> str:
        protocol = self.fs.protocol if isinstance(self.fs.protocol, str) else self.fs.protocol[0]
        return f"{protocol}://{self.path}"
