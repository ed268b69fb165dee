"""A process of another user on this machine, which tries everything it can to get into a cluster that is up.

Reads from standard input what to try, as JSON, and prints what it achieved: nothing, if the cluster is private.
"""

import asyncio
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

UID = 65534
#: Pages that Dask serves of schedulers and workers, and its API. (/sitemap.json is always there: a list of the others.)
PAGES = [
    *("/", "/status", "/health", "/metrics", "/individual-plots.json", "/eventstream", "/statics/css/base.css"),
    *("/json/index.html", "/json/identity.json", "/json/counts.json", "/proxy/1/127.0.0.1/status"),
    *("/info/main/workers.html", "/info/main/exceptions.html", "/info/logs.html"),
    *("/api/v1", "/api/v1/get_workers", "/api/v1/retire_workers"),
]
WAIT_S = 5


def tried(ports: list[int], pids: list[int], temporary: str, others: dict[str, str]) -> dict[str, list]:
    """Have a process of user 65534 try it; what it achieved."""
    asked = {"ports": ports, "pids": pids, "temporary": temporary, "others": others}
    command = [sys.executable, __file__]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main() -> None:
    import distributed  # all before the user changes: it may not be able to read Python itself
    import distributed.comm.tcp
    from distributed.protocol import pickle

    asked = json.load(sys.stdin)
    certified = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=asked["others"]["ca_file"])
    certified.load_cert_chain(asked["others"]["cert_file"], asked["others"]["key_file"])
    bare = ssl.create_default_context()
    for context in (certified, bare):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # a stranger takes any server
    ways = {"tcp": {}, "tls": {"ssl_context": bare}, "tls with a certificate": {"ssl_context": certified}}
    function = {"function": pickle.dumps(os.getuid), "args": pickle.dumps(()), "kwargs": pickle.dumps({})}

    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    assert os.getuid() == os.geteuid() == UID

    async def ask(port: int, way: str, message: dict) -> list | None:
        address = f"{way.split()[0]}://127.0.0.1:{port}"
        comm = None
        try:
            comm = await distributed.comm.connect(address, timeout=WAIT_S, deserialize=False, **ways[way])
            await asyncio.wait_for(comm.write({**message, "reply": True}), WAIT_S)
            answer = await asyncio.wait_for(comm.read(), WAIT_S)
            return [port, way, message["op"], repr(answer)[:200]]
        except (OSError, TimeoutError, ValueError, distributed.comm.CommClosedError):
            return None
        finally:
            if comm is not None:
                comm.abort()

    async def ask_all() -> list:
        messages = [{"op": "identity"}, {"op": "run", "wait": True, **function}, {"op": "run_function", **function}]
        tasks = [
            asyncio.create_task(ask(port, way, message))
            for port in asked["ports"]
            for way in ways
            for message in messages
        ]
        done, _ = await asyncio.wait(tasks, timeout=3 * WAIT_S)
        return sorted(answer for task in done if (answer := task.result()) is not None)

    found = {
        "answers": asyncio.get_event_loop_policy().new_event_loop().run_until_complete(ask_all()),
        "pages": [page for port in asked["ports"] for page in _served(port)],
        "environments": [pid for pid in asked["pids"] if _read(f"/proc/{pid}/environ") is not None],
        "command_lines": [pid for pid in asked["pids"] if b"PRIVATE KEY" in (_read(f"/proc/{pid}/cmdline") or b"")],
        "files": [],
        "folders": [],
    }
    for folder, _, files in os.walk(asked["temporary"]):
        found["files"] += [f"{folder}/{file}" for file in files if _read(f"{folder}/{file}") is not None]
        if folder != asked["temporary"] and os.stat(folder).st_uid != UID and os.access(folder, os.R_OK | os.X_OK):
            found["folders"].append(folder)
    print(json.dumps(found), flush=True)
    os._exit(0)  # some attempts may still wait for an answer


def _served(port: int) -> list:
    """Pages that a port has, if it speaks HTTP at all."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    found = []
    for page in PAGES:
        for method in ("GET", "POST"):
            try:
                opener.open(urllib.request.Request(f"http://127.0.0.1:{port}{page}", method=method), timeout=WAIT_S)
                found.append([port, method, page])
            except urllib.error.HTTPError as error:
                if error.code not in (404, 405):
                    found.append([port, method, page, error.code])
            except (OSError, HTTPException):  # TLS, or the protocol of Dask
                return found
    return found


def _read(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


if __name__ == "__main__":
    main()
