"""A private SLURM of a few nodes on this machine, all of its state in one folder; gone when its block is over.

Needs the Debian packages slurm-wlm and munge. Each node is a slurmd of its own name and port on loopback. Without
cgroups, so that neither systemd nor privileges over the machine are needed; memory is counted but not enforced.
"""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")

CONFIGURATION = """\
ClusterName=dlcca
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=100000
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=30
KillWait=5
MailProg=/bin/true
SlurmdParameters=config_overrides
{nodes}
PartitionName=debug Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


def missing_programs() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin"


@dataclass(frozen=True)
class Slurm:
    """A SLURM that is up; ``configuration`` goes into SLURM_CONF of whoever uses it."""

    folder: Path
    configuration: Path

    def call(self, *command: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.configuration), "PATH": _path()}
        called = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
        if called.returncode:
            raise RuntimeError(f"{' '.join(command)}: {called.stderr.strip()}")
        return called.stdout

    def jobs(self) -> list[str]:
        """Numbers of the jobs that wait or run."""
        return self.call("squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%A").split()

    def cancel(self, *jobs: str) -> None:
        if jobs:
            self.call("scancel", *jobs)

    def nodes_in_use(self) -> set[str]:
        return set(self.call("squeue", "-h", "-t", "RUNNING", "-o", "%N").split())


@contextmanager
def private_slurm(folder: Path, nodes: int = 2, cpus: int = 2) -> Iterator[Slurm]:
    """A SLURM of so many nodes, each of which offers ``cpus`` cores, whatever this machine has."""
    for part in ("state", "spool", "log", "munge"):
        (folder / part).mkdir(parents=True)
    for part in (folder, folder / "munge"):
        part.chmod(0o755)  # munged asks for folders that none but their owner can write
    slurm = Slurm(folder, folder / "slurm.conf")
    started: list[subprocess.Popen] = []
    try:
        _start(slurm, nodes, cpus, started)
        yield slurm
    finally:
        _stop(slurm, started)


def _start(slurm: Slurm, nodes: int, cpus: int, started: list[subprocess.Popen]) -> None:
    folder, munge = slurm.folder, slurm.folder / "munge"
    key = munge / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    names = [f"n{i + 1}" for i in range(nodes)]
    port, *node_ports = _free_ports(nodes + 1)
    slurm.configuration.write_text(_configuration(folder, port, dict(zip(names, node_ports, strict=True)), cpus))

    def daemon(*command: str) -> None:
        """In the foreground, so that it is a child of ours and ends by its number."""
        log = (folder / "log" / f"{command[0]}-{len(started)}.txt").open("w")
        environment = {**os.environ, "SLURM_CONF": str(slurm.configuration), "PATH": _path()}
        started.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True))
        log.close()

    socket_file = munge / "socket"
    files = {"socket": socket_file, "key-file": key, "seed-file": munge / "seed"}
    files |= {"pid-file": folder / "munged.pid", "log-file": folder / "log" / "munged.log"}
    daemon("munged", "--foreground", "--force", *(f"--{option}={file}" for option, file in files.items()))
    _await(socket_file.exists, "socket of munge")
    daemon("slurmctld", "-D", "-f", str(slurm.configuration))
    for name in names:
        (folder / "spool" / name).mkdir()
        daemon("slurmd", "-D", "-f", str(slurm.configuration), "-N", name)

    def are_idle() -> bool:
        with suppress(RuntimeError):  # the controller does not answer yet
            return len(slurm.call("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()) == nodes
        return False

    _await(are_idle, "idle nodes")


def _configuration(folder: Path, port: int, nodes: dict[str, int], cpus: int) -> str:
    host = socket.gethostname().split(".")[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 * 9 // 10 // len(nodes)
    lines = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={at} CPUs={cpus} RealMemory={memory}"
        for name, at in nodes.items()
    ]
    return CONFIGURATION.format(
        host=host, user=getpass.getuser(), folder=folder, port=port, nodes="\n".join(lines), names=",".join(nodes)
    )


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _await(happens, what: str, patience_s: float = 60) -> None:
    end = time.monotonic() + patience_s
    while not happens():
        if time.monotonic() > end:
            raise TimeoutError(f"SLURM: no {what} within {patience_s:g} s")
        time.sleep(0.1)


def _stop(slurm: Slurm, started: list[subprocess.Popen]) -> None:
    """Cancel what is left, and end the daemons that were started, and only those."""
    with suppress(Exception):  # the daemons must end whatever happens
        slurm.cancel(*slurm.jobs())
        _await(lambda: not slurm.call("squeue", "-h"), "empty queue", 20)
    for process in reversed(started):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
