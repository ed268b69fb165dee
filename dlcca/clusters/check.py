"""Whether a cluster can do a run: its workers run the same versions, and read and write the store.

`dlcca cluster check` also starts the workers and sends each a task.
"""

import os
import socket
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dlcca.clusters import client_of
from dlcca.clusters.dask_config import Say, await_workers
from dlcca.clusters.profile import Elastic, Profile
from dlcca.errors import ClusterError, DlccaError
from dlcca.storage.files import Files, files_at, is_remote


@dataclass
class Findings:
    """The result of a check: sentences about what works, and about problems."""

    well: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    workers: dict[str, str] = field(default_factory=dict)  # hosts by addresses

    def add(self, problems: list[str], otherwise: str) -> None:
        """Add problems, or what works if there are none."""
        self.wrong.extend(problems)
        if not problems:
            self.well.append(otherwise)


def check(profile: Profile, store: str | None, say: Say) -> Findings:
    """Start the cluster of a profile, check it, and close it."""
    found = Findings()
    start = time.monotonic()
    with client_of(profile, say) as client:
        # All workers of the profile may take as long as it allows for the first.
        count, wait_min = (profile.fewest, profile.start_wait_min) if isinstance(profile, Elastic) else (1, 1.0)
        if count == 0:
            client.submit(os.getpid).result()  # an adaptive cluster starts with the first task
        if not await_workers(client, count or 1, wait_min):
            came = len(client.nthreads())
            found.wrong.append(f"only {came} of {count or 1} workers came within {wait_min:g} minutes")
        found.workers = {str(address): str(host) for address, host in client.run(socket.gethostname).items()}
        hosts = sorted(set(found.workers.values()))
        found.well.append(
            f"{len(found.workers)} workers on {len(hosts)} hosts ({', '.join(hosts)}), after "
            f"{time.monotonic() - start:.0f} s"
        )
        longest = 0.0
        for address in found.workers:  # a task on every worker, one after another
            sent = time.monotonic()
            client.submit(os.getpid, workers=[address], allow_other_workers=False, pure=False).result(timeout=60)
            longest = max(longest, time.monotonic() - sent)
        found.well.append(f"a task goes to a worker and back in {1000 * longest:.0f} ms or less")
        same = "all workers have the same versions of Python and the packages as this machine"
        found.add(version_differences(client), same)
        if store is not None:
            found.add(access_problems(client, store), f"every worker reads and writes {store}")
    return found


def refuse_unfit(client: Any, store: str) -> None:
    """An error if workers run other versions, or cannot read or write the store."""
    refuse_other_versions(client)
    problems = access_problems(client, store)
    if problems:
        remedy = "Put the store where all nodes see it, or use object storage (s3://...)"
        if "another dlcca" in problems[0]:
            remedy = "Install the same for the workers: python, setup or image in the cluster file say what they run"
        raise ClusterError(f"{problems[0]}. {remedy}.")


#: Packages whose versions must be equal, and those of which the first two numbers must be.
EXACT = ("dlcca", "dask", "distributed")
MINOR = ("python", "numpy", "zarr", "scipy", "cloudpickle", "msgpack")


def version_differences(client: Any) -> list[str]:
    """Versions of the workers that differ from those here, one sentence for each worker and package."""
    found = client.get_versions(check=False, packages=["dlcca", "zarr", "scipy"])
    ours, problems = dict(found["client"].get("packages", {})), []
    for address, facts in found["workers"].items():
        if facts is None:
            problems.append(f"the worker at {address} does not report its versions")
            continue
        theirs = dict(facts.get("packages", {}))
        for name in (*EXACT, *MINOR):
            has, here = (str(known.get(name) or "not at all").split(".final")[0] for known in (theirs, ours))
            if has != here if name in EXACT else has.split(".")[:2] != here.split(".")[:2]:
                problems.append(f"the worker at {address} has {name} {has}, and here it is {here}")
    return problems


def refuse_other_versions(client: Any) -> None:
    """An error if workers run other versions: tasks are sent by name, and may mean something else there."""
    names = [f" has {name} " for name in (*EXACT, "python")]
    problems = [text for text in version_differences(client) if any(name in text for name in names)]
    if problems:
        raise ClusterError(
            f"{problems[0]}{f' (and {len(problems) - 1} more like it)' if len(problems) > 1 else ''}. Install the same "
            "versions for the workers: python, setup or image in the cluster file say which environment they run in."
        )


#: Attempts to read a file that another machine has written, a second apart.
TRIES = 5


def access_problems(client: Any, store: str) -> list[str]:
    """Why workers cannot use the store, a sentence for each worker; nothing is left in the store."""
    files = files_at(store)
    was_there = is_remote(store) or os.path.exists(store)
    call = uuid.uuid4().hex
    note = f"check-{call}"
    try:
        files.put(f"{note}/here", call.encode())
        problems, unseen = [], []
        for address, answer in client.run(_leave_note, store, note, call, on_error="return").items():
            if isinstance(answer, BaseException):  # it does not have this function
                about = f"{type(answer).__name__}: {answer}"
                answer = f"has another dlcca than this machine, although the version is equal ({about})"
            if answer is not None:
                problems.append(f"the worker at {address} {answer}")
            elif not _seen(files, f"{note}/{_name(address)}", call):
                unseen.append(f"what the worker at {address} wrote to {store} is not seen from here")
        return problems + unseen
    finally:
        with suppress(DlccaError, OSError):
            files.remove(note)
            if not was_there:
                os.rmdir(store)


def _seen(files: Files, name: str, call: str) -> bool:
    """Whether a file is visible, now or within seconds: a network file system caches that it was missing."""
    for _ in range(TRIES):
        if files.get(name) == call.encode():
            return True
        time.sleep(1)
    return False


def _name(address: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in address)


def _leave_note(store: str, note: str, call: str, dask_worker: Any = None) -> str | None:
    """On a worker: read the file of the client and write another; a clause about what went wrong, if anything."""
    host = socket.gethostname()
    try:
        files = files_at(store)
        if not _seen(files, f"{note}/here", call):
            return f"on {host} does not see {store}, which is there on this machine"
        files.put(f"{note}/{_name(dask_worker.address)}", call.encode())
    except (DlccaError, OSError) as error:
        return f"on {host} cannot use {store}: {error}"
    return None
