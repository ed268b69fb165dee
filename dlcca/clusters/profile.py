"""Cluster files: one small TOML file for each place to run, checked when it is read; and those that come with dlcca.

The first key is ``kind``; it decides which others there are. A *worker* is one process of one thread. Workers come in
jobs (of a queue), pods (of Kubernetes) or machines (of a cloud), each with ``cores`` workers.
"""

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from dlcca.errors import SettingsError
from dlcca.settings import schema
from dlcca.settings.schema import FLAG, LINES, POSITIVE, Section, choice, count, number, setting, text
from dlcca.storage.files import installed_folder, storage_errors

#: Queues that are served through dask-jobqueue.
QUEUES = ("slurm", "pbs", "lsf", "sge", "oar", "htcondor")
#: Distributed probes a silent peer ten times, a second apart, and asserts that there is time left before that.
LEAST_TCP_TIMEOUT_S = 10
TCP_NEEDED = (
    f"more than {LEAST_TCP_TIMEOUT_S} s are needed, for Dask sends ten probes a second apart before a worker counts "
    "as lost. 30 is usual."
)
#: Providers of virtual machines in dask-cloudprovider.
PROVIDERS = ("aws", "azure", "gcp", "digitalocean", "hetzner", "openstack")
#: It goes into a script unquoted.
WORD = text("one word without blanks, quotes or signs of the shell is needed.", without=r"""[\s'"`;&|<>]""")


@dataclass(frozen=True, kw_only=True)
class Profile(Section):
    """Settings of every kind of cluster."""

    kind: str = setting(lambda: choice(*KINDS), MISSING)
    tcp_timeout_s: float = setting(number(TCP_NEEDED, above=LEAST_TCP_TIMEOUT_S), 30)
    """A worker that has been silent for so long counts as lost; more than 10."""


@dataclass(frozen=True, kw_only=True)
class Local(Profile):
    """Processes on this machine, which other users cannot reach."""

    workers: int | None = setting(count(1))
    """Worker processes; by default one for each core."""
    memory_gib: float | None = setting(POSITIVE)
    """Memory of each worker; by default an equal share of the memory of the machine."""
    scratch: str | None = setting(text())
    """Folder for data that does not fit in memory."""


@dataclass(frozen=True, kw_only=True)
class Existing(Profile):
    """A scheduler that is already running."""

    address: str = setting(text(), MISSING)
    """Address of the scheduler, such as tls://host:8786."""
    ca_file: str | None = setting(text())
    cert_file: str | None = setting(text())
    key_file: str | None = setting(text())
    """The files for TLS: certificate authority, own certificate and private key."""
    start_wait_min: float = setting(POSITIVE, 10)
    """How long to wait for its first worker."""

    def check(self) -> None:
        if "://" not in self.address:
            raise SettingsError(f"address = {self.address!r}; a protocol is needed, such as tls://host:8786.")
        given = [name for name in ("ca_file", "cert_file", "key_file") if getattr(self, name) is not None]
        if given and len(given) < 3:
            raise SettingsError(f"only {', '.join(given)} is set; TLS needs ca_file, cert_file and key_file.")


@dataclass(frozen=True, kw_only=True)
class Elastic(Profile):
    """Workers that are started for a run: a fixed number, or as many as there is work for between two bounds."""

    workers: int | None = setting(count(1))
    """A fixed number of workers; alternatively, set min_workers and max_workers."""
    min_workers: int | None = setting(count(0))
    max_workers: int | None = setting(count(1))
    cores: int = setting(count(1), 1)
    """Cores of one job, pod or machine; there is one worker for each core."""
    memory_gib: float = setting(POSITIVE, 4)
    """Memory of each worker."""
    start_wait_min: float = setting(POSITIVE, 30)
    """How long to wait for the first worker, and for a new one when all are lost."""
    if_all_lost: str = setting(choice("wait", "stop"), "wait")
    """When every worker is gone: "wait" for their replacements, or "stop" with exit code 4."""
    max_failures: int = setting(count(1), 5)
    """Stop after this many jobs in a row that ended without a worker."""
    dashboard: bool = setting(FLAG, False)
    """Show the dashboard, on loopback of the machine where the scheduler is."""

    def check(self) -> None:
        if self.workers is not None and (self.min_workers is not None or self.max_workers is not None):
            raise SettingsError("workers is a fixed number; set either it, or min_workers and max_workers.")
        if self.max_workers is None and self.min_workers is not None:
            raise SettingsError("min_workers is set without max_workers; both bounds are needed.")
        if self.workers is None and self.max_workers is None:
            raise SettingsError("neither workers nor max_workers is set; give a number of worker processes.")
        if self.max_workers is not None and self.max_workers < self.fewest:
            raise SettingsError(f"max_workers = {self.max_workers} is below min_workers = {self.min_workers}.")

    @property
    def is_adaptive(self) -> bool:
        return self.workers is None

    @property
    def fewest(self) -> int:
        """Workers that are requested at the start."""
        return self.workers if self.workers is not None else (self.min_workers or 0)

    @property
    def most(self) -> int:
        """The largest number of workers."""
        return self.workers or self.max_workers or 1

    def jobs(self, workers: int) -> int:
        """The number of jobs, pods or machines for this many workers."""
        return math.ceil(workers / self.cores)


@dataclass(frozen=True, kw_only=True)
class Queue(Elastic):
    """Jobs of a queue."""

    queue: str | None = setting(WORD)
    """Queue (the partition of SLURM); by default that of the site."""
    account: str | None = setting(WORD)
    """Account that is charged; some queues call it a project."""
    walltime_min: float = setting(number("at least 2 minutes are needed.", least=2), 60)
    """Time limit of each job. Its workers move their data to others before it, and new jobs replace them."""
    scratch: str | None = setting(WORD)
    """Folder on the node for data that does not fit in memory; $VARIABLES of the job are allowed."""
    shared: str = setting(WORD, "~/.dlcca")
    """Folder that this machine and all nodes see, for the keys of a run (mode 700, removed at the end) and logs."""
    interface: str | None = setting(WORD)
    """Network interface to the nodes, such as ib0; by default it is detected."""
    setup: tuple[str, ...] = setting(LINES, ())
    """Lines of shell that a job runs first: modules, environments."""
    directives: tuple[str, ...] = setting(LINES, ())
    """Lines for the queue itself, without their prefix, such as --constraint=skylake."""
    python: str | None = setting(text())
    """Python of the workers; by default the one that runs dlcca."""
    image: str | None = setting(WORD)
    """Container image that workers run in, by apptainer; it must hold the same dlcca."""
    job_name: str = setting(WORD, "dlcca-worker")
    disk_gib: float = setting(POSITIVE, 10)
    """Disk space of each job; only for HTCondor."""
    memory_property: str = setting(WORD, "not_applicable")
    """Name of the property for the memory of a core, which differs between sites; only for OAR."""


@dataclass(frozen=True, kw_only=True)
class Kubernetes(Elastic):
    """Pods of the Dask operator of Kubernetes."""

    image: str = setting(WORD, MISSING)
    """With dlcca in it; see Containerfile."""
    namespace: str = setting(WORD, "default")
    pull_secret: str | None = setting(WORD)
    """Name of the secret that lets the cluster fetch the image."""
    service_account: str | None = setting(WORD)
    scratch: str | None = setting(WORD, "/scratch")
    """Where an empty folder of the node is mounted, for data that does not fit in memory."""
    store_secret: str | None = setting(WORD)
    """Name of a secret whose entries become environment variables of the workers, for the object storage."""


@dataclass(frozen=True, kw_only=True)
class Cloud(Elastic):
    """Virtual machines of a cloud."""

    provider: str = setting(choice(*PROVIDERS), MISSING)
    """aws, azure, gcp, digitalocean, hetzner or openstack."""
    image: str = setting(WORD, MISSING)
    """Container image with dlcca in it; see Containerfile."""
    region: str | None = setting(WORD)
    machine: str | None = setting(WORD)
    """Type of machine, by the provider's name; it must have the cores and the memory that are set."""
    options: Mapping[str, Any] = setting(schema.table("a table of the provider's options is needed."), dict)
    """Further options of the provider's class in dask-cloudprovider."""


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
    content = schema.read_toml(path, f"the cluster file {path}")
    try:
        return of(content, folder=path.parent)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def of(content: Mapping[str, Any], folder: Path | None = None) -> Profile:
    """A profile of the keys of a file; files that it names are relative to ``folder``."""
    kind = content.get("kind")
    if kind is None:
        raise SettingsError(f"kind is missing; it is one of {', '.join(KINDS)}.")
    choice(*KINDS).check("kind", kind, " = ")
    made = schema.from_table(KINDS[kind], content, "", called=f"a key of a {kind} cluster")
    if folder is None or not isinstance(made, Existing):
        return made
    files = {key: content[key] for key in ("ca_file", "cert_file", "key_file") if key in content}
    paths: dict[str, Any] = {key: str((folder / Path(file).expanduser()).resolve()) for key, file in files.items()}
    return replace(made, **paths)


def cluster_schema() -> schema.Json:
    """The JSON Schema of cluster files: a table for each class of profiles, distinguished by its kinds."""
    tables = [
        schema.json_schema(made, kind={"enum": [kind for kind in KINDS if KINDS[kind] is made]})
        for made in dict.fromkeys(KINDS.values())
    ]
    return schema.file_schema("dlcca cluster file", {"type": "object", "oneOf": tables})


def included_folder() -> Path:
    """The folder of ready cluster files."""
    return installed_folder("cluster", "cluster", "slurm.toml")


def files_below(origin: Path) -> list[Path]:
    """All files that are for users."""
    found = (file for file in origin.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return sorted(file for file in found if file.name != "README.md")


def copy_files(origin: Path, out: Path) -> list[Path]:
    """Copy the files of a folder to another; existing ones stay as they are, because they may have been edited."""
    made = []
    for file in files_below(origin):
        place = out / file.relative_to(origin)
        with storage_errors(place, "written"):
            place.parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(place):
                shutil.copyfile(file, place)
        made.append(place)
    return made


def first_words(file: Path) -> str:
    """The first comment of a file, or the first line of its docstring."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(("# ", '"""')):
            return line.removeprefix("# ").strip('" ')
    return ""
