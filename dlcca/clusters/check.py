"""`dlcca cluster check`: whether a cluster can do a run, found out before one depends on it.

Starts the workers, sends each a task, compares packages, and has every worker read and write the store.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from dlcca.clusters import client_of, versions
from dlcca.clusters.messages import Say
from dlcca.clusters.profile import Elastic, Profile
from dlcca.errors import ClusterError
from dlcca.storage import reach


@dataclass
class Findings:
    """What a check found: sentences about what is well, and about what is wrong."""

    well: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    workers: dict[str, str] = field(default_factory=dict)  # hosts by addresses


def check(profile: Profile, store: str | None, say: Say) -> Findings:
    """Start the cluster of a profile, try it, and end it."""
    found = Findings()
    start = time.monotonic()
    with client_of(profile, say) as client:
        _await_all(client, profile, found)
        found.workers = {str(address): str(host) for address, host in client.run(socket.gethostname).items()}
        hosts = sorted(set(found.workers.values()))
        found.well.append(
            f"{len(found.workers)} workers on {len(hosts)} hosts ({', '.join(hosts)}), after "
            f"{time.monotonic() - start:.0f} s"
        )
        _round_trip(client, found)
        _versions(client, found)
        if store is not None:
            _store(client, store, found)
    return found


def _await_all(client: Any, profile: Profile, found: Findings) -> None:
    """All workers that the profile asks for, within the time that it grants to the first."""
    wanted = profile.fewest or 1 if isinstance(profile, Elastic) else 1
    if isinstance(profile, Elastic) and profile.fewest == 0:
        client.submit(os.getpid).result()  # an adaptive cluster starts with the first task
    patience = 60 * profile.start_wait_min if isinstance(profile, Elastic) else 60
    end = time.monotonic() + patience
    # Not by `wait_for_workers`, which replaces what the cluster knows of its workers, whatever it is told meanwhile.
    while (came := len(client.nthreads())) < wanted:
        if time.monotonic() > end:
            found.wrong.append(f"only {came} of {wanted} workers came within {patience / 60:g} minutes")
            return
        time.sleep(0.2)


def _round_trip(client: Any, found: Findings) -> None:
    """A task on every worker, one after another; the longest is told."""
    longest = 0.0
    for address in found.workers:
        start = time.monotonic()
        client.submit(os.getpid, workers=[address], allow_other_workers=False, pure=False).result(timeout=60)
        longest = max(longest, time.monotonic() - start)
    found.well.append(f"a task goes to a worker and back in {1000 * longest:.0f} ms or less")


def _versions(client: Any, found: Findings) -> None:
    told = versions.differences(client)
    found.wrong.extend(told)
    if not told:
        found.well.append("all workers have the same versions of Python and the packages as this machine")


def _store(client: Any, store: str, found: Findings) -> None:
    told = reach.blind(client, store)
    found.wrong.extend(told)
    if not told:
        found.well.append(f"every worker reads and writes {store}")


def refuse_unfit(client: Any, store: str) -> None:
    """End here if workers run other versions, or cannot read or write the store, before they do it all wrong."""
    versions.refuse_others(client)
    told = reach.blind(client, store)
    if told:
        remedy = "Put the store where all nodes see it, or use object storage (s3://...)"
        if "another dlcca" in told[0]:
            remedy = "Install the same for the workers: python, setup or image in the cluster file say what they run"
        raise ClusterError(f"{told[0]}. {remedy}.")
