"""What a cluster file says: one small TOML file for each place to run, checked when it is read.

The first key is ``kind``; it decides which others there are. A *worker* is one process of one thread. Workers come in
jobs (of a queue), pods (of Kubernetes) or machines (of a cloud), each with ``cores`` workers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError, suggest
from dlcca.settings.fit import count_needed, is_count, is_number, read_toml

#: Queues that are served through dask-jobqueue.
QUEUES = ("slurm", "pbs", "lsf", "sge", "oar", "htcondor")
#: Distributed probes a silent peer ten times, a second apart, and asserts that there is time left before that.
LEAST_TCP_TIMEOUT_S = 10
#: Shorter jobs would be over before their workers had done anything.
LEAST_WALLTIME_MIN = 2.0
#: Who serves virtual machines through dask-cloudprovider.
PROVIDERS = ("aws", "azure", "gcp", "digitalocean", "hetzner", "openstack")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What every kind of cluster has."""

    kind: str
    tcp_timeout_s: float = 30
    """A worker that has been silent for so long counts as lost; more than 10."""

    def __post_init__(self) -> None:
        if not is_number(self.tcp_timeout_s) or not self.tcp_timeout_s > LEAST_TCP_TIMEOUT_S:
            raise SettingsError(
                f"tcp_timeout_s = {self.tcp_timeout_s!r}; more than {LEAST_TCP_TIMEOUT_S} s are needed, for Dask sends "
                "ten probes a second apart before it gives a worker up. 30 is usual."
            )


@dataclass(frozen=True, kw_only=True)
class Local(Profile):
    """Processes on this machine, which nobody else can reach."""

    workers: int | None = None
    """One for each core, if not said."""
    memory_gib: float | None = None
    """Of each worker; an equal share of what the machine has, if not said."""
    scratch: str | None = None
    """Folder for what does not fit the memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_counts(self, "workers")
        _check_positive(self, "memory_gib")


@dataclass(frozen=True, kw_only=True)
class Existing(Profile):
    """A scheduler that somebody else has started."""

    address: str
    """As tls://host:8786."""
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    """The three files of TLS: who signs, who we are, and the proof of it."""
    start_wait_min: float = 10
    """How long to wait for its first worker."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if "://" not in self.address:
            raise SettingsError(f"address = {self.address!r}; a protocol is needed, as tls://host:8786.")
        _check_positive(self, "start_wait_min")
        said = [name for name in ("ca_file", "cert_file", "key_file") if getattr(self, name) is not None]
        if said and len(said) < 3:
            raise SettingsError(f"{', '.join(said)} is said alone; TLS needs ca_file, cert_file and key_file.")


@dataclass(frozen=True, kw_only=True)
class Elastic(Profile):
    """What is started for a run: so many workers, or as many as there is work for between two bounds."""

    workers: int | None = None
    """So many, always; or instead of it min_workers and max_workers."""
    min_workers: int | None = None
    max_workers: int | None = None
    cores: int = 1
    """Of one job, pod or machine; there is one worker for each."""
    memory_gib: float = 4
    """Of each worker."""
    start_wait_min: float = 30
    """How long to wait for the first worker, and for a new one when all are lost."""
    if_all_lost: str = "wait"
    """When every worker is gone: "wait" for their replacements, or "stop" with exit code 4."""
    max_failures: int = 5
    """After so many jobs in a row that never gave a worker, stop."""
    dashboard: bool = False
    """Show the dashboard, on loopback of the machine where the scheduler is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_counts(self, "workers", "cores", "max_workers", "max_failures")
        _check_counts(self, "min_workers", least=0)
        _check_positive(self, "memory_gib", "start_wait_min")
        if self.if_all_lost not in ("wait", "stop"):
            raise SettingsError(f"if_all_lost = {self.if_all_lost!r}; it is 'wait' or 'stop'.")
        if not isinstance(self.dashboard, bool):
            raise SettingsError(f"dashboard = {self.dashboard!r}; it is true or false.")
        self._check_bounds()

    def _check_bounds(self) -> None:
        if self.workers is not None and (self.min_workers is not None or self.max_workers is not None):
            raise SettingsError("workers is a fixed number; say either it, or min_workers and max_workers.")
        if self.max_workers is None and self.min_workers is not None:
            raise SettingsError("min_workers is said without max_workers; both bounds are needed.")
        if self.workers is None and self.max_workers is None:
            raise SettingsError("neither workers nor max_workers is said; how many worker processes are wanted?")
        if self.max_workers is not None and self.max_workers < self.fewest:
            raise SettingsError(f"max_workers = {self.max_workers} is below min_workers = {self.min_workers}.")

    @property
    def is_adaptive(self) -> bool:
        return self.workers is None

    @property
    def fewest(self) -> int:
        """Workers that are wanted from the start."""
        return self.workers if self.workers is not None else (self.min_workers or 0)

    @property
    def most(self) -> int:
        """Workers that there may ever be."""
        return self.workers or self.max_workers or 1

    def jobs(self, workers: int) -> int:
        """How many jobs, pods or machines so many workers take."""
        return math.ceil(workers / self.cores)


@dataclass(frozen=True, kw_only=True)
class Queue(Elastic):
    """Jobs of a queue."""

    queue: str | None = None
    """Partition, in SLURM's words; the site's default if not said."""
    account: str | None = None
    """Who pays; project, in the words of some queues."""
    walltime_min: float = 60
    """Of each job. Its workers hand over their work before that, and new jobs take their place."""
    scratch: str | None = None
    """Folder on the node for what does not fit the memory; $VARIABLES of the job are allowed."""
    shared: str = "~/.dlcca"
    """Folder that this machine and all nodes see, for the keys of a run (mode 700, removed at the end) and logs."""
    interface: str | None = None
    """Network that leads to the nodes, as ib0; found by itself if not said."""
    setup: tuple[str, ...] = ()
    """Lines of shell that a job runs first: modules, environments."""
    directives: tuple[str, ...] = ()
    """Lines for the queue itself, without their prefix, as --constraint=skylake."""
    python: str | None = None
    """Of the workers; the one that runs this if not said."""
    image: str | None = None
    """Container image that workers run in, by apptainer; it must hold the same dlcca."""
    job_name: str = "dlcca-worker"
    disk_gib: float = 10
    """Of each job; HTCondor alone asks for it."""
    memory_property: str = "not_applicable"
    """Name of the property for memory of a core; OAR alone has it, by site."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive(self, "disk_gib")
        if not is_number(self.walltime_min) or self.walltime_min < LEAST_WALLTIME_MIN:
            raise SettingsError(
                f"walltime_min = {self.walltime_min!r}; at least {LEAST_WALLTIME_MIN:.0f} minutes are needed."
            )
        _check_lines(self, "setup", "directives")
        _check_words(self, "queue", "account", "scratch", "shared", "interface", "image", "job_name", "memory_property")


@dataclass(frozen=True, kw_only=True)
class Kubernetes(Elastic):
    """Pods of the Dask operator of Kubernetes."""

    image: str
    """With dlcca in it; see Containerfile."""
    namespace: str = "default"
    pull_secret: str | None = None
    """Name of the secret that lets the cluster fetch the image."""
    service_account: str | None = None
    scratch: str | None = "/scratch"
    """Where an empty folder of the node is mounted, for what does not fit the memory."""
    store_secret: str | None = None
    """Name of a secret whose entries become environment variables of the workers, for the object storage."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_words(self, "image", "namespace", "pull_secret", "service_account", "scratch", "store_secret")


@dataclass(frozen=True, kw_only=True)
class Cloud(Elastic):
    """Virtual machines of a cloud."""

    provider: str
    """aws, azure, gcp, digitalocean, hetzner or openstack."""
    image: str
    """Container image with dlcca in it; see Containerfile."""
    region: str | None = None
    machine: str | None = None
    """Type of machine, in the provider's words; it must have the cores and the memory asked for."""
    options: Mapping[str, Any]
    """Whatever else the provider's class of dask-cloudprovider takes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.provider not in PROVIDERS:
            raise SettingsError(f"provider = {self.provider!r} is not known; {suggest(self.provider, PROVIDERS)}")
        if not isinstance(self.options, Mapping):
            raise SettingsError(f"[options] is {self.options!r}; a table of the provider's options is needed.")
        _check_words(self, "image", "region", "machine")


KINDS: dict[str, type[Profile]] = {
    "local": Local,
    "existing": Existing,
    **dict.fromkeys(QUEUES, Queue),
    "kubernetes": Kubernetes,
    "cloud": Cloud,
}


def read(path: str | Path) -> Profile:
    """The cluster file at ``path``, checked."""
    path = Path(path)
    content = read_toml(path, f"the cluster file {path}")
    try:
        return of(content, folder=path.parent)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def of(content: Mapping[str, Any], folder: Path | None = None) -> Profile:
    """A profile of the keys of a file; files that it names are relative to ``folder``."""
    kind = content.get("kind")
    if kind is None:
        raise SettingsError(f"kind is missing; it is one of {', '.join(KINDS)}.")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SettingsError(f"kind = {kind!r} is not known; {suggest(kind, KINDS)}")
    made = KINDS[kind]
    known = [field.name for field in fields(made)]
    for key in content:
        if key not in known:
            raise SettingsError(f"{key} is not a key of a {kind} cluster; {suggest(key, known)}")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    if made is Cloud:
        values.setdefault("options", {})
    needed = [field.name for field in fields(made) if field.default is MISSING and field.name not in values]
    if needed:
        raise SettingsError(f"{', '.join(needed)} is missing, which a {kind} cluster needs.")
    _check_texts(made, values)
    for key in ("ca_file", "cert_file", "key_file"):
        if key in values and folder is not None:
            values[key] = str((folder / Path(values[key]).expanduser()).resolve())
    return made(**values)


def _check_texts(made: type[Profile], values: Mapping[str, Any]) -> None:
    """Keys that are texts must be texts; the checks of the classes rely on it."""
    texts = [field.name for field in fields(made) if field.type in ("str", "str | None")]
    for key in texts:
        if key in values and (not isinstance(values[key], str) or not values[key].strip() or "\0" in values[key]):
            raise SettingsError(f"{key} = {values[key]!r}; a text is needed; leave the key out if there is none.")


def _check_counts(profile: Profile, *names: str, least: int = 1) -> None:
    for name in names:
        value = getattr(profile, name)
        if value is not None and not is_count(value, least):
            raise SettingsError(f"{name} = {value!r}; {count_needed(value, least)}")


def _check_positive(profile: Profile, *names: str) -> None:
    for name in names:
        value = getattr(profile, name)
        if value is not None and (not is_number(value) or value <= 0):
            raise SettingsError(f"{name} = {value!r}; a number above 0 is needed.")


def _check_lines(profile: Profile, *names: str) -> None:
    for name in names:
        value = getattr(profile, name)
        if not isinstance(value, tuple) or not all(isinstance(line, str) and "\n" not in line for line in value):
            raise SettingsError(f"{name} = {value!r}; a list of single lines is needed, as ['module load python'].")


def _check_words(profile: Profile, *names: str) -> None:
    """What goes into a job script unquoted must be one word, or the rest would become another argument."""
    for name in names:
        value = getattr(profile, name)
        if value is not None and (any(c.isspace() for c in value) or any(c in value for c in "'\"`;&|<>")):
            raise SettingsError(f"{name} = {value!r}; one word without blanks, quotes or signs of the shell is needed.")
