"""Whether the workers of a Dask client read and write an address that this machine does."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import suppress
from typing import Any

from dlcca.errors import DlccaError
from dlcca.storage.files import Files, files_at, is_remote

#: Looks for a note, a second apart.
TRIES = 5


def blind(client: Any, store: str) -> list[str]:
    """What is between the workers and the store, a sentence for each worker; nothing is left in the store."""
    files = files_at(store)
    was_there = is_remote(store) or os.path.exists(store)
    call = uuid.uuid4().hex
    note = f"check-{call}"
    try:
        files.put(f"{note}/here", call.encode())
        # An error is returned where the worker cannot even begin: it has no such function.
        answers = client.run(_leave_note, store, note, call, on_error="return")
        told = [f"the worker at {address} {_problem(said)}" for address, said in answers.items() if said is not None]
        told += [
            f"what the worker at {address} wrote to {store} is not seen from here"
            for address, said in answers.items()
            if said is None and not _seen(files, f"{note}/{_name(address)}", call)
        ]
        return told
    finally:
        with suppress(DlccaError, OSError):
            files.remove(note)
            if not was_there:
                os.rmdir(store)


def _problem(said: str | BaseException) -> str:
    if isinstance(said, str):
        return said
    return f"has another dlcca than this machine, whatever its version says ({type(said).__name__}: {said})"


def _seen(files: Files, name: str, call: str) -> bool:
    """Whether a note is there, now or within seconds: a network file system remembers for a while what it lacked."""
    for _ in range(TRIES):
        if files.get(name) == call.encode():
            return True
        time.sleep(1)
    return False


def _name(address: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in address)


def _leave_note(store: str, note: str, call: str, dask_worker: Any = None) -> str | None:
    """On a worker: read the note of the client and leave another; what went wrong, in words."""
    host = socket.gethostname()
    try:
        files = files_at(store)
        if not _seen(files, f"{note}/here", call):
            return f"on {host} does not see {store}, which is there on this machine"
        files.put(f"{note}/{_name(dask_worker.address)}", call.encode())
    except (DlccaError, OSError) as error:
        return f"on {host} cannot use {store}: {error}"
    return None
