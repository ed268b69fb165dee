"""A server of objects on loopback: the application of moto, behind the web server of aiohttp.

moto's own server begins a thread and a connection for every request, and looks through the folders of all services of
AWS to find S3. That takes longer than the request.
"""

import asyncio
import functools
import io
import sys
import threading
from urllib.parse import unquote_to_bytes


class ObjectServer:
    """As a context manager; gives host and port."""

    def __enter__(self) -> tuple[str, int]:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

        self._app = DomainDispatcherApplication(create_backend_app)
        self._app.get_backend_for_host = functools.cache(self._app.get_backend_for_host)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="object-server", daemon=True)
        self._thread.start()
        self._do(self._listen())
        return self.address

    def __exit__(self, *error: object) -> None:
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, coroutine) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _listen(self) -> None:
        from aiohttp import web

        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None), shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = self._runner.addresses[0][:2]

    async def _answer(self, request):
        from aiohttp import web

        if request.headers.get("Expect", "").lower() == "100-continue":
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        said = []
        content = self._app(self._environ(request, await request.read()), lambda *answer: said.extend(answer))
        body = b"".join(content)
        status, reason = said[0].split(" ", 1)
        return web.Response(status=int(status), reason=reason, headers=said[1], body=body)

    def _environ(self, request, body: bytes) -> dict[str, object]:
        """The request in the form that WSGI gives it."""
        path, _, query = request.raw_path.partition("?")
        environ: dict[str, object] = {
            "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.errors": sys.stderr, "wsgi.run_once": False,
            "wsgi.input": io.BytesIO(body), "wsgi.multithread": False, "wsgi.multiprocess": False, "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"), "QUERY_STRING": query,
            "REQUEST_URI": request.raw_path, "RAW_URI": request.raw_path, "REQUEST_METHOD": request.method,
            "REMOTE_ADDR": "127.0.0.1", "SERVER_NAME": self.address[0], "SERVER_PORT": str(self.address[1]),
            "SERVER_PROTOCOL": "HTTP/1.1",
        }  # fmt: skip
        for name in request.headers:
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = ",".join(request.headers.getall(name))
        if "HTTP_CONTENT_TYPE" in environ:
            environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE")
        environ["CONTENT_LENGTH"] = str(len(body))
        for name in ("HTTP_CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING"):  # the body is whole
            environ.pop(name, None)
        return environ
