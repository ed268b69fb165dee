"""One writer at a time: who writes to a store says so in it, and others wait until it is done or dead.

::

    run.zarr/stages/lock/00000.json   host, pid and start of the process that writes; as young as its last sign of life

The file with the largest number holds. Whoever finds its owner dead creates the file with the next number, which only
one can (`dlcca.storage.exclusive_create`), checks that it is alone, and removes the files before. So there is no moment
at which two takers both believe to hold, nor one at which a taker could remove what another has just created.

An owner on this machine is dead when its process is gone; the same pid that was started at another time is another
process. Of an owner elsewhere nothing is known but its last sign of life, which it gives every `RENEW_S`; after
`owners.DEAD_S` without one, by the clock of the storage, it counts as dead. It may still wake up, as a laptop that was
shut for an hour: so an owner looks for itself before it goes on, and stops if another has taken over.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dlcca.errors import DlccaError, StorageError, StoreInUse
from dlcca.storage import exclusive_create, groups, lock_owner
from dlcca.storage.checksummed_json import sealed
from dlcca.storage.files import files_at, is_remote
from dlcca.storage.lock_owner import Owner
from dlcca.storage.processes import this_process

#: Between two signs of life.
RENEW_S = 30.0
#: Rounds in which a taker that meets others tries again, with a pause of up to a second.
ROUNDS = 8


@dataclass
class Lock:
    """A lock that this process holds. It gives signs of life by itself, from a thread of its own."""

    owner: Owner
    content: bytes
    place: str  # the address in the one form that tells places apart
    generation: str  # tells it from every other lock of the store; a later one sorts behind, as far as clocks agree
    lost: StoreInUse | None = None
    _seen_at: float = field(default_factory=lambda: _clock())  # when it last was seen to hold
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def keep(self) -> None:
        """Begin to give signs of life."""
        self._thread = threading.Thread(target=self._give_signs, name="dlcca-lock", daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """An error if another has taken over; the storage is asked if it was not for a while, as after a sleep."""
        if self.lost is None and _clock() - self._seen_at > 2 * RENEW_S:
            self._look()
        if self.lost is not None:
            raise self.lost

    def release(self) -> None:
        """Give the store free. The lock of whoever has taken over is left alone."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        with suppress(DlccaError, OSError):
            exclusive_create.remove(self.owner.address, self.owner.name)
        exclusive_create.tidy(self.owner.address, lock_owner.FOLDER)

    def _give_signs(self) -> None:
        while not self._over.wait(RENEW_S) and self.lost is None:
            try:
                self._look()
                if self.lost is None:
                    exclusive_create.renew(self.owner.address, self.owner.name, self.content)
            except (DlccaError, OSError):
                continue  # the storage does not answer: whoever works will hear of it, and here it is tried again
        if self._over.is_set():  # it may have been renewed after it was given free
            with suppress(DlccaError, OSError):
                exclusive_create.remove(self.owner.address, self.owner.name)

    def _look(self) -> None:
        """See whether this lock still holds; twice, for a taker that finds it alive withdraws at once."""
        for again in (True, False):
            found = lock_owner.holder(self.owner.address)
            if found is not None and found.number == self.owner.number and self._wrote(found):
                self._seen_at = _clock()
                return
            if again:
                time.sleep(1)
        taker = "Its lock was removed" if found is None else f"It was taken over by {found.sentence()}"
        self.lost = StoreInUse(
            f"{self.owner.address} is no longer held by this process. {taker}: this one had given no sign of life for "
            "long. Was it suspended? It stops here, before it would write beside the other; what is finished is kept."
        )

    def _wrote(self, found: Owner) -> bool:
        return files_at(found.address).get(found.name) == self.content


#: The locks held by whoever calls: a task of the same process in another thread is another one.
_HELD: ContextVar[tuple[Lock, ...]] = ContextVar("held", default=())


@contextmanager
def held(address: str, doing: str) -> Iterator[Lock]:
    """Hold the store at an address, and whatever is below it, to the end of the block; ``doing`` is told to others.

    One that the caller holds already, or that lies in one, is not locked again.
    """
    outer = _held_by_caller(address)
    if outer is not None:
        yield outer
        return
    made = _folders_to_be_made(address)
    try:
        lock = _acquired(address, doing)
    except BaseException:
        _remove_empty(made)
        raise
    lock.keep()
    token = _HELD.set((*_HELD.get(), lock))
    try:
        yield lock
    finally:
        _HELD.reset(token)
        lock.release()
        _remove_empty(made)


def confirm(address: str) -> None:
    """An error if the caller has held the store and another has taken it over."""
    lock = _held_by_caller(address)
    if lock is not None:
        lock.confirm()


def generation(address: str) -> str:
    """The generation of the lock by which the caller holds the store; empty if it does not."""
    lock = _held_by_caller(address)
    return "" if lock is None else lock.generation


def refuse_others(address: str) -> None:
    """An error if another process that is alive holds the store."""
    found = None if _held_by_caller(address) is not None else lock_owner.holder(address)
    if found is not None and not found.is_dead:
        raise _in_use(found)


def _in_use(by: Owner) -> StoreInUse:
    return StoreInUse(
        f"{by.address} is in use by {by.sentence()}. Two at once would write over each other: wait for it to end and "
        "run the same command again, or give another store. Should it have died, this is seen at once on its own "
        f"machine, and from others {lock_owner.told(lock_owner.DEAD_S)} after its last sign of life: then run again."
    )


def _acquired(address: str, doing: str) -> Lock:
    for _ in range(ROUNDS):
        known = lock_owner.numbers(address)
        found = lock_owner.read(address, known[-1]) if known else None
        if found is not None and not found.is_dead:
            raise _in_use(found)
        lock = _new(address, doing, known[-1] + 1 if known else 0)
        if not exclusive_create.create(address, lock.owner.name, lock.content):
            continue  # somebody was quicker, and holds now
        if _is_alone(lock.owner, known):
            for number in known:
                exclusive_create.remove(address, lock_owner.name_of(number))
            return lock
        exclusive_create.remove(address, lock.owner.name)
        time.sleep(random.uniform(0.1, 1))
    raise StorageError(f"{address} cannot be locked: others try the same again and again. Run again.")


def _is_alone(mine: Owner, known: list[int]) -> bool:
    """Whether nobody has come since the look at the ``known``: one that found none counts from 0 again."""
    others = [number for number in lock_owner.numbers(mine.address) if number != mine.number and number not in known]
    return all(lock_owner.read(mine.address, number).is_dead for number in others)


def _new(address: str, doing: str, number: int) -> Lock:
    now, token = datetime.now(UTC), uuid.uuid4().hex
    mine = Owner(address, number, this_process(), doing, now.isoformat(timespec="seconds"))
    assert mine.process is not None
    content = {**asdict(mine.process), "doing": doing, "since": mine.since, "token": token}
    return Lock(mine, sealed(content), _canonical(address), f"{now:%Y%m%dT%H%M%S.%fZ}-{token[:12]}")


def _held_by_caller(address: str) -> Lock | None:
    """The lock by which the caller holds a store or one that it lies in."""
    held_now = _HELD.get()
    place = _canonical(address) if held_now else ""
    for lock in held_now:
        if place == lock.place or place.startswith(f"{lock.place}/"):
            return lock
    return None


def _canonical(address: str) -> str:
    return address.rstrip("/") if is_remote(address) else str(Path(address.removeprefix("file://")).resolve())


def _folders_to_be_made(address: str) -> list[Path]:
    """The folders that a lock has to make, the innermost first."""
    if is_remote(address):
        return []
    place = Path(address.removeprefix("file://"))
    return [folder for folder in (place / "stages", place) if not folder.exists()]


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        if folder.name == "stages" and files_at(str(folder.parent)).get(groups.FILE) == groups.as_written({}):
            return  # an error came before the first stage was made: by this folder the store is known as ours
        with suppress(OSError):
            folder.rmdir()


def _clock() -> float:
    """Seconds that also pass while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()
