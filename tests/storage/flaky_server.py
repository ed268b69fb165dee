"""A proxy on loopback before a server of objects, which does to a share of the requests what networks do.

Which requests is settled by a seed: one of every so many, at a random place among them, and every kind of fault as
often as any other. So their number does not depend on luck, only what they hit.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

#: What happens to a request. `refused` and `overloaded` are answers (500, 503); `slow` is served late, `silent` later
#: than anybody waits; `unheard` is cut off before the server sees it, `half heard` while it is sent; `unanswered` is
#: done by the server, of which the answer is lost; of one that is `half answered` the answer breaks off.
FAULTS = ("refused", "overloaded", "slow", "silent", "unheard", "half heard", "unanswered", "half answered")

REFUSAL = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>on purpose</Message></Error>"
STATUS = {"refused": (b"500 Internal Server Error", b"InternalError"), "overloaded": (b"503 Slow Down", b"SlowDown")}


def schedule(one_in: int, seed: int) -> Iterator[str | None]:
    """For every request its fault, or None."""
    rng = random.Random(seed)
    while True:
        for fault in rng.sample(FAULTS, len(FAULTS)):
            place = rng.randrange(one_in)
            yield from (fault if k == place else None for k in range(one_in))


@dataclass
class FlakyServer:
    """A server that stands before another one, in a thread of its own, as a context manager."""

    behind: tuple[str, int]
    one_in: int = 20
    seed: int = 0
    slow_s: float = 0.2
    silent_s: float = 1.3
    faulty: bool = True
    requests: int = 0
    faults: Counter = field(default_factory=Counter)
    written: list[str] = field(default_factory=list)  # paths, in the order in which they were put
    plan: Iterator[str | None] | None = None  # of the next requests, instead of the schedule
    cut_at: str | None = None  # once something was written whose path holds this, nobody is there any more
    gone_s: float | None = None  # and for how long; for good if None

    def __enter__(self) -> "FlakyServer":
        self._schedule = schedule(self.one_in, self.seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flaky-server", daemon=True)
        self._thread.start()
        self._open = set()
        self._do(self._listen(0))
        return self

    def __exit__(self, *error: object) -> None:
        self._do(self._hang_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Nobody listens, and open connections are gone."""
        self._do(self._hang_up())

    def mend(self) -> None:
        """As before, at the same address."""
        self._do(self._listen(self.port))

    def _do(self, coroutine) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    async def _listen(self, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, of which one request is served: the next one knocks again."""
        self._open.add(asyncio.current_task())
        ends_well = False
        try:
            ends_well = await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # whoever asked is gone, or we are
        finally:
            self._open.discard(asyncio.current_task())
            writer.close() if ends_well else writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection is to be closed as is usual, rather than to break off."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests += 1
        fault = self._fault()
        if fault is not None:
            self.faults[fault] += 1
        if fault == "unheard":
            return False
        body = await _body(head, reader, writer, half=fault == "half heard")
        if fault == "half heard":
            return False
        if fault in STATUS:
            writer.write(_refusal(fault, with_body=not head.startswith(b"HEAD")))
            await writer.drain()
            return True
        if fault in ("slow", "silent"):
            await asyncio.sleep(self.slow_s if fault == "slow" else self.silent_s)
        answer = await self._forwarded(head, body)
        method, path = head.split(b" ", 2)[:2]
        if method == b"PUT":
            self.written.append(path.decode())
        if fault == "unanswered" or self._cuts(path.decode()):
            return False
        writer.write(answer[: len(answer) // 2] if fault == "half answered" else answer)
        await writer.drain()
        return True

    def _fault(self) -> str | None:
        if self.plan is not None:
            return next(self.plan, None)
        return next(self._schedule) if self.faulty else None

    def _cuts(self, path: str) -> bool:
        """Whether it is time to be gone: what was just asked for is done, and nobody is told."""
        if self.cut_at is None or self.cut_at not in path or self.written[-1:] != [path]:
            return False
        self.cut_at = None
        self._server.close()
        for task in self._open - {asyncio.current_task()}:
            task.cancel()
        if self.gone_s is not None:
            self._loop.call_later(self.gone_s, lambda: self._loop.create_task(self._listen(self.port)))
        return True

    async def _forwarded(self, head: bytes, body: bytes) -> bytes:
        """What the server behind says, whole."""
        lines = [line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith((b"connection:", b"expect:"))]
        reader, writer = await asyncio.open_connection(*self.behind)
        try:
            writer.write(b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


def _refusal(fault: str, with_body: bool) -> bytes:
    status, code = STATUS[fault]
    content = REFUSAL % code
    head = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(content))
    return head + (content if with_body else b"")


async def _body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, half: bool) -> bytes:
    """The body of a request as it is sent, or half of it."""
    headers = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if headers.get(b"expect", b"").strip() == b"100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    if b"transfer-encoding" in headers:
        return await _chunks(reader)
    length = int(headers.get(b"content-length", b"0"))
    return await reader.readexactly(length // 2 if half else length)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """A body in chunks, up to the empty line behind its last one."""
    content = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        content += line
        if size == 0:
            break
        content += await reader.readexactly(size + 2)
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        content += line
    return content + b"\r\n"
