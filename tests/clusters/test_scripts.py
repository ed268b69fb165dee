"""The job scripts that queues get: what must be in each, in the words of the queue."""

import re
import subprocess

import pytest

from dlcca.clusters import jobqueue, keys
from dlcca.clusters.jobqueue import hours_minutes, hours_minutes_seconds, lifetime_of
from dlcca.clusters.profile import QUEUES, included_folder, of, read
from dlcca.errors import ClusterError

CONTENT = {
    "workers": 8,
    "cores": 4,
    "memory_gib": 3,
    "walltime_min": 90,
    "account": "lab7",
    "interface": "lo",
    "scratch": "${TMPDIR:-/tmp}",
    "setup": ["module load python"],
    "python": "/shared/env/bin/python",
}
#: 4 workers of 3 GiB, and a quarter more for each: 13 GiB.
EXPECTED = {
    "slurm": ["#SBATCH -p long", "#SBATCH -A lab7", "--cpus-per-task=4", "--mem=13312M", "-t 01:30:00", "--qos=x"],
    "pbs": ["#PBS -q long", "#PBS -A lab7", "#PBS -l select=1:ncpus=4:mem=13GB", "#PBS -l walltime=01:30:00", "-j oe"],
    "lsf": ["#BSUB -q long", '#BSUB -P "lab7"', "#BSUB -n 4", 'span[hosts=1]"', "#BSUB -M", "#BSUB -W 01:30", "-x"],
    "sge": ["#$ -q long", "#$ -P lab7", "#$ -l h_rt=01:30:00", "#$ -pe smp 4"],
    "oar": [
        "#OAR -q long",
        "--project lab7",
        "#OAR -l /nodes=1/core=4,walltime=01:30:00",
        "#OAR -p mem>=3328",
        "-t be",
    ],
    "htcondor": ["DaskWorkerCores = 4", f"DaskWorkerMemory = {13 * 2**30}", "accounting_group = lab7", "rank = Mips"],
}
OF_KIND = {
    "slurm": {"queue": "long", "directives": ["--qos=x"]},
    "pbs": {"queue": "long", "directives": ["-j oe"]},
    "lsf": {"queue": "long", "directives": ["-x"]},
    "sge": {"queue": "long", "directives": ["-pe smp 4"]},
    "oar": {"queue": "long", "directives": ["-t be"], "memory_property": "mem"},
    "htcondor": {"directives": ["rank = Mips"]},
}


def script_of(profile, tmp_path):
    """The script that a job of the profile would be submitted with, and the secret that must not be in it."""
    with keys.keys_of_run(tmp_path) as security:
        secret = (tmp_path / security.tls_worker_key).read_text().splitlines()[1]
        with jobqueue.new_cluster(profile, tmp_path, security) as cluster:
            return cluster.job_script(), secret


@pytest.mark.parametrize("kind", QUEUES)
def test_a_script_asks_its_queue_for_what_the_profile_says(kind, tmp_path):
    script, _ = script_of(of({"kind": kind, **CONTENT, **OF_KIND[kind]}), tmp_path)
    assert [fact for fact in EXPECTED[kind] if fact not in script] == []


@pytest.mark.parametrize("kind", QUEUES)
def test_workers_are_started_as_the_profile_says(kind, tmp_path):
    script, secret = script_of(of({"kind": kind, **CONTENT, **OF_KIND[kind]}), tmp_path)
    command = re.search(r"(?m)^.*distributed\.cli\.dask_worker.*$", script).group().replace('""', '"')
    facts = [
        "/shared/env/bin/python -m distributed.cli.dask_worker tls://127.0.0.1:",
        "--nthreads 1 --memory-limit 3GiB --nworkers 4 --nanny",
        "--death-timeout 60",
        '--local-directory "${TMPDIR:-/tmp}"',
        "--lifetime 4800s --lifetime-stagger 300s",
        "--no-dashboard --dashboard-address 127.0.0.1:0",
        "--protocol tls://",
        "authority.pem --tls-cert",
    ]
    if kind == "htcondor":
        facts.remove("/shared/env/bin/python -m distributed.cli.dask_worker tls://127.0.0.1:")
    assert [fact for fact in facts if fact not in command] == []
    assert script.index("module load python") < script.index("export OMP_NUM_THREADS=1") < script.index("dask_worker")
    assert "export DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP=30s" in script
    assert secret not in script
    assert "PRIVATE KEY" not in script


WORD, PATH, CLOCK = r"\S+", r"/\S+", r"\d+:\d\d:\d\d"
#: What a queue takes for each option that dask-jobqueue or we write, by the manuals of qsub, bsub, oarsub and sbatch.
SCHEMAS = {
    "slurm": (
        "#SBATCH",
        {"-J": WORD, "-e": PATH, "-o": PATH, "-p": WORD, "-A": WORD, "-n": r"\d+", "-t": CLOCK}
        | {"--cpus-per-task": r"\d+", "--mem": r"\d+[KMGT]?", "--qos": WORD, "--constraint": WORD, "--exclusive": ""},
    ),
    "pbs": (
        "#PBS",
        {"-N": r"[A-Za-z]\S{0,229}", "-q": WORD, "-A": WORD, "-e": PATH, "-o": PATH, "-j": "oe|eo|n"}
        | {"-l": rf"select=\d+(:\w+=\d+[kmgt]?b?)*|walltime={CLOCK}|place=\w+", "-W": r"\w+=\S+"},
    ),
    "lsf": (
        "#BSUB",
        {"-J": WORD, "-e": PATH, "-o": PATH, "-q": WORD, "-P": r'"\S+"', "-n": r"\d+", "-M": r"\d+", "-W": r"\d+:\d\d"}
        | {"-R": r'"(span|select|rusage)\[[^]]+\]"', "-x": ""},
    ),
    "sge": (
        "#$",
        {"-N": r"[A-Za-z]\S*", "-q": WORD, "-P": WORD, "-e": PATH, "-o": PATH, "-cwd": "", "-j": "y|n"}
        | {"-l": rf"h_rt={CLOCK}|\w+=\S+", "-pe": r"\w+ \d+"},
    ),
    "oar": (
        "#OAR",
        {"-n": WORD, "-q": WORD, "--project": WORD, "-l": rf"/nodes=\d+/core=\d+,walltime={CLOCK}", "-t": WORD}
        | {"-p": r".+"},
    ),
}
#: Commands of a submit description, in small letters; whatever begins with + or MY. is the job's own.
OF_CONDOR = {"accounting_group", "arguments", "batch_name", "error", "executable", "log", "output", "queue", "rank"}
OF_CONDOR |= {"requestcpus", "requestdisk", "requestmemory", "requirements", "stream_error", "stream_output"}
OF_CONDOR |= {"logdirectory"}  # a macro, used by others in the description


def misfits(kind, script):
    """The directives of a script that its queue would not understand."""
    mark, schema = SCHEMAS[kind]
    found = []
    for line in (line for line in script.splitlines() if line.startswith(mark)):
        option, _, value = re.sub(r"^(--[\w-]+)=", r"\1 ", line.removeprefix(mark).strip()).partition(" ")
        if option not in schema or not re.fullmatch(schema[option], value, flags=re.IGNORECASE):
            found.append(line)
    return found


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_directive_fits_what_the_manual_of_the_queue_says_and_the_shell_reads_the_rest(kind, tmp_path):
    for profile in (of({"kind": kind, **CONTENT, **OF_KIND[kind]}), read(included_folder() / f"{kind}.toml")):
        script, _ = script_of(profile, tmp_path)
        assert misfits(kind, script) == []
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_directive_that_does_not_fit_is_found():
    assert misfits("pbs", "#PBS -l walltime=90\n#PBS -q long") == ["#PBS -l walltime=90"]
    assert misfits("lsf", "#BSUB -W 01:30:00") == ["#BSUB -W 01:30:00"]
    assert misfits("slurm", "#SBATCH --men=4G") == ["#SBATCH --men=4G"]


def test_the_description_for_condor_has_known_commands_and_an_argument_that_the_shell_reads(tmp_path):
    for profile in (
        of({"kind": "htcondor", **CONTENT, **OF_KIND["htcondor"]}),
        read(included_folder() / "htcondor.toml"),
    ):
        script, _ = script_of(profile, tmp_path)
        lines = [line for line in script.splitlines() if line and not line.startswith("#")]
        names = [line.partition("=")[0].strip().lower() for line in lines]
        assert [name for name in names if name not in OF_CONDOR and not name.startswith(("+", "my."))] == []
        assert lines[-1] == "Queue"
        (said,) = re.findall(r"Arguments = \"-c '(.*)'\"", script)
        assert "'" not in said.replace("''", "")  # quotes are doubled
        subprocess.run(["sh", "-n"], input=said.replace("''", "'").replace('""', '"'), text=True, check=True)


@pytest.mark.parametrize("kind", QUEUES)
def test_the_ready_file_of_a_queue_makes_a_script(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    script, _ = script_of(read(included_folder() / f"{kind}.toml"), tmp_path)
    assert "--nworkers 4" in script


def test_a_network_that_is_not_there_is_told(tmp_path):
    profile = of({"kind": "slurm", "workers": 1, "interface": "nosuch0"})
    with pytest.raises(ClusterError, match="Is interface right in the cluster file"):
        script_of(profile, tmp_path)


def test_every_queue_is_submitted_to_by_the_command_that_dask_jobqueue_calls():
    known = {"slurm": "sbatch", "pbs": "qsub", "lsf": "bsub", "sge": "qsub", "oar": "oarsub"}
    classes = {kind: jobqueue.cluster_class(of({"kind": kind, "workers": 1})) for kind in QUEUES}
    found = {kind: cluster_class.job_cls.submit_command for kind, cluster_class in classes.items()}
    assert found == {**known, "htcondor": "condor_submit"}


def test_a_container_runs_the_workers_and_sees_keys_and_scratch(tmp_path):
    profile = of({"kind": "slurm", "workers": 1, "interface": "lo", "image": "/i.sif", "scratch": "/local"})
    script, _ = script_of(profile, tmp_path)
    assert f"apptainer exec --bind {tmp_path} --bind /local /i.sif python3 -m distributed.cli.dask_worker" in script


@pytest.mark.parametrize("walltime_min", [2, 3, 10, 60, 90, 24 * 60, 7 * 24 * 60])
def test_the_last_worker_leaves_a_minute_to_five_before_the_walltime(walltime_min):
    lifetime_s, stagger_s = lifetime_of(walltime_min)
    left = 60 * walltime_min - (lifetime_s + stagger_s)
    assert 60 <= left <= 302
    assert 0 < stagger_s < lifetime_s


def test_walltimes_are_written_as_queues_read_them():
    assert [hours_minutes_seconds(m) for m in (2, 90, 1500.5)] == ["00:02:00", "01:30:00", "25:00:30"]
    assert [hours_minutes(m) for m in (2, 90, 1500.5)] == ["00:02", "01:30", "25:00"]
