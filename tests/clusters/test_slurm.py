"""A real SLURM of two nodes: runs on it, and what happens when its jobs are cancelled, held, refused or die."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import zarr
from distributed import Client
from typer.testing import CliRunner

from dlcca import simulate
from dlcca.cli import app
from dlcca.clusters import client_of, job_monitor, jobqueue, keys, profile_for
from dlcca.clusters.profile import Existing, included_folder
from dlcca.errors import ClusterError
from dlcca.fitting import runner
from dlcca.settings import runfile
from tests.clusters.conftest import PROFILE

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Look at the queue more often than a real site would like."""
    monkeypatch.setattr(job_monitor, "EVERY_S", 1.0)
    monkeypatch.setattr(job_monitor, "FIRST_EVERY_S", 0.5)


def dlcca(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def profile_of(folder, **changed):
    return replace(profile_for(str(folder / "slurm.toml"), None, None), **changed)


def write_profile(folder, **changed):
    """slurm.toml with some keys said otherwise."""
    lines = (folder / "slurm.toml").read_text().splitlines()
    kept = [line for line in lines if line.partition(" = ")[0] not in changed]
    said = [f"{key} = {value}" for key, value in changed.items()]
    (folder / "slurm.toml").write_text("\n".join(kept + said))
    return folder / "slurm.toml"


@pytest.fixture
def like_local_run(pendulums, local_embedding):
    """Asserts that the run has what a local one has."""

    def compare():
        found = zarr.open_group(str(pendulums / "run.zarr"), mode="r")["embedding"][:]
        np.testing.assert_allclose(found, local_embedding, rtol=0, atol=1e-8)

    return compare


def prepared(folder):
    asked = runfile.read(folder / "run.toml")
    return runner.prepared(asked.store, asked.views, asked.settings, asked.seed)


def finished_blocks(folder):
    """When each finished block was marked as such, by its file."""
    return {file: file.stat().st_mtime_ns for file in (folder / "run.zarr").rglob("done/*.json")}


def keys_in(folder):
    return list((folder / "shared").glob("keys-*"))


def assert_one_paragraph(done, exit_code):
    """Ended with this code, and with one sentence after another on what is wrong, not with a traceback."""
    assert done.exit_code == exit_code, done.output
    said = done.stderr.strip()
    assert said.startswith("dlcca: ")
    assert "\n" not in said
    assert len(said.split()) >= 15


def assert_both_nodes_with_tls(folder):
    """Workers were on both nodes, and every one of them spoke TLS."""
    assert set((folder / "shared" / "nodes").read_text().split()) == {"n1", "n2"}
    logs = [file.read_text() for file in (folder / "shared" / "logs").iterdir()]
    listened = [line for log in logs for line in log.splitlines() if "Start worker at:" in line]
    assert len(listened) >= 2
    assert all("tls://" in line for line in listened)


@pytest.fixture
def in_the_middle(monkeypatch):
    """Has `dlcca run` do something once, when the first block of a stage is done: it is given the client."""

    def hook(do):
        run, told = runner.run, []

        def running_with_it(job, choices, client, *rest, **named):
            def on_progress(stage, done, blocks):
                if stage == "metric" and done == 1 and not told:
                    told.append(stage)
                    do(client)

            result = run(job, choices, client, on_progress)
            assert told
            return result

        monkeypatch.setattr(runner, "run", running_with_it)

    return hook


def test_a_run_on_two_nodes_leaves_what_a_local_run_does_and_nothing_else(submitting, pendulums, like_local_run):
    done = dlcca("run", pendulums / "run.toml", "--cluster", pendulums / "slurm.toml")
    assert done.exit_code in (0, 5), done.output
    assert_both_nodes_with_tls(pendulums)
    assert submitting.jobs() == []
    assert keys_in(pendulums) == []
    like_local_run()


def test_while_it_is_up_its_keys_are_ours_alone_and_strangers_are_refused(submitting, pendulums, tmp_path):
    (tmp_path / "others").mkdir()
    with client_of(profile_of(pendulums, workers=1)) as client:
        (folder,) = keys_in(pendulums)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
        address = client.scheduler.address
        assert address.startswith("tls://")
        secret = (folder / "key.pem").read_text().splitlines()[1]
        logs = "".join(file.read_text() for file in (pendulums / "shared" / "logs").iterdir())
        assert secret not in client.cluster.job_script() + logs
        with pytest.raises(OSError, match=r"(?s)."):
            Client(address.replace("tls", "tcp"), timeout="5s")
        ca, certificate, key = keys.write_keys(tmp_path / "others")
        others = {"ca_file": str(ca), "cert_file": str(certificate), "key_file": str(key)}
        stranger = Existing(kind="existing", address=address, **others)
        with pytest.raises(ClusterError, match="the certificates do not belong together"), client_of(stranger):
            pass


def test_a_job_that_is_cancelled_in_the_middle_of_a_stage_is_replaced(
    submitting, pendulums, like_local_run, in_the_middle
):
    cancelled = []

    def cancel_one(client):
        before = awaited(client, lambda now: len(now) == 2)
        cancelled.append(submitting.jobs()[0])
        submitting.cancel(cancelled[0])
        awaited(client, lambda now: len(now) == 2 and now != before)

    in_the_middle(cancel_one)
    done = dlcca("run", pendulums / "run.toml", "--cluster", pendulums / "slurm.toml")
    assert done.exit_code in (0, 5), done.output
    assert f"job {cancelled[0]} is gone; 1 submitted instead, 1 in all so far." in done.stderr
    like_local_run()


def until(happens, patience_s=120):
    end = time.monotonic() + patience_s
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.2)


def awaited(client, fit, patience_s=120):
    """The workers, as soon as they are as they should be; asked for once in each look, for they come and go."""
    seen = []

    def look():
        seen.append(set(client.nthreads()))
        return fit(seen[-1])

    until(look, patience_s)
    return seen[-1]


def test_when_all_jobs_are_cancelled_the_run_waits_for_others(submitting, pendulums, like_local_run, in_the_middle):
    in_the_middle(lambda client: submitting.cancel(*submitting.jobs()))
    done = dlcca("run", pendulums / "run.toml", "--cluster", write_profile(pendulums, if_all_lost='"wait"'))
    assert done.exit_code in (0, 5), done.output
    like_local_run()


def test_or_stops_and_goes_on_when_it_is_run_again(submitting, pendulums, like_local_run, in_the_middle):
    def cancel_all(client):
        submitting.cancel(*submitting.jobs())
        awaited(client, lambda now: not now)

    in_the_middle(cancel_all)
    ended = dlcca("run", pendulums / "run.toml", "--cluster", write_profile(pendulums, if_all_lost='"stop"'))
    assert ended.exit_code == 4, ended.output
    assert "all workers are gone, and if_all_lost = 'stop'. What was finished is kept: run" in ended.stderr
    before = finished_blocks(pendulums)
    assert before
    assert keys_in(pendulums) == []
    again = dlcca("run", pendulums / "run.toml", "--cluster", pendulums / "slurm.toml", "--quiet")
    assert again.exit_code in (0, 5), again.output
    after = finished_blocks(pendulums)
    assert {file: after[file] for file in before} == before
    like_local_run()


def test_between_bounds_there_are_as_many_workers_as_there_is_work_for(submitting, pendulums):
    profile = profile_of(pendulums, workers=None, min_workers=1, max_workers=2)
    with client_of(profile) as client:
        assert len(client.nthreads()) == 1
        tasks = client.map(time.sleep, [0.5] * 200, pure=False)
        awaited(client, lambda now: len(now) == 2)
        client.cancel(tasks)


def test_a_cancelled_job_of_an_adaptive_cluster_is_replaced_too(submitting, pendulums):
    profile = profile_of(pendulums, workers=None, min_workers=1, max_workers=2)
    with client_of(profile) as client:
        before = awaited(client, lambda now: len(now) == 1)
        submitting.cancel(*submitting.jobs())
        awaited(client, lambda now: now and not now & before)


def test_a_job_of_several_workers_is_replaced_as_a_whole(submitting, pendulums):
    with client_of(profile_of(pendulums, workers=2, cores=2)) as client:
        before = awaited(client, lambda now: len(now) == 2)
        submitting.cancel(*submitting.jobs())
        awaited(client, lambda now: len(now) == 2 and not now & before)
        assert len(submitting.jobs()) == 1


def test_a_queue_that_does_not_exist_is_refused_in_its_own_words(submitting, pendulums):
    done = dlcca("run", pendulums / "run.toml", "--cluster", write_profile(pendulums, queue='"nosuch"'))
    assert_one_paragraph(done, 4)
    assert "the queue refuses the job" in done.output
    assert "invalid partition specified: nosuch" in done.output
    assert keys_in(pendulums) == []


@pytest.mark.parametrize("verb", ["run", "cluster check"])
def test_a_refused_job_leaves_one_sentence_on_stderr(submitting, pendulums, verb):
    """In a process of its own: what Dask logs from its event loop goes past the stderr of a CliRunner."""
    file = str(write_profile(pendulums, queue='"nosuch"'))
    arguments = ["cluster", "check", file] if verb != "run" else ["run", str(pendulums / "run.toml"), "--cluster", file]
    done = subprocess.run([sys.executable, "-m", "dlcca", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("dlcca: the queue refuses the job: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_job_that_never_starts_is_given_up_with_the_reason_of_the_queue(submitting, pendulums):
    file = write_profile(pendulums, directives='["--hold"]', start_wait_min=0.1)
    done = dlcca("run", pendulums / "run.toml", "--cluster", file)
    assert_one_paragraph(done, 4)
    assert "no worker came within start_wait_min = 0.1 minutes" in done.output
    assert "PENDING (JobHeldUser)" in done.output
    assert submitting.jobs() == []


def test_an_adaptive_cluster_whose_first_job_never_starts_is_given_up_too(submitting, pendulums):
    profile = profile_of(pendulums, workers=None, max_workers=1, directives=("--hold",), start_wait_min=0.05)
    with pytest.raises(ClusterError, match=r"JobHeldUser"), client_of(profile) as client:
        client.submit(sum, [1]).result()


def test_a_queue_that_takes_only_some_jobs_is_asked_again_later_and_the_run_goes_on(submitting, pendulums, monkeypatch):
    monkeypatch.setattr(job_monitor, "ASK_AGAIN_S", (1.0, 1.0))
    said = []
    try:
        with client_of(profile_of(pendulums, workers=1), said.append) as client:
            submitting.call("scontrol", "update", "PartitionName=debug", "State=INACTIVE")  # refuses what is new
            client.cluster.scale(jobs=2)
            until(lambda: any("refuses a further job" in text for text in said))
            assert client.submit(sum, [1, 2]).result(timeout=60) == 3
    finally:
        submitting.call("scontrol", "update", "PartitionName=debug", "State=UP")


def test_jobs_that_die_at_once_are_given_up_with_their_last_words(submitting, pendulums):
    file = write_profile(pendulums, setup='["echo no such module >&2", "exit 3"]', max_failures=2)
    done = dlcca("run", pendulums / "run.toml", "--cluster", file)
    assert_one_paragraph(done, 4)
    assert "jobs in a row ended without a worker" in done.output
    assert "no such module" in done.output


def test_a_check_says_that_all_is_well(submitting, pendulums):
    done = dlcca("cluster", "check", pendulums / "slurm.toml", "--store", pendulums / "tried.zarr")
    assert done.exit_code == 0, done.output
    assert "2 workers on" in done.output
    assert f"every worker reads and writes {pendulums / 'tried.zarr'}" in done.output
    assert not (pendulums / "tried.zarr").exists()


def test_sigterm_ends_the_run_its_jobs_and_its_keys(submitting, pendulums):
    command = [sys.executable, "-m", "dlcca", "run", str(pendulums / "run.toml")]
    with subprocess.Popen([*command, "--cluster", str(pendulums / "slurm.toml")], stderr=subprocess.PIPE) as run:
        until(lambda: submitting.nodes_in_use())
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 4
        assert b"ended by SIGTERM" in run.stderr.read()
    assert submitting.jobs() == []
    assert keys_in(pendulums) == []


def test_the_jobs_of_a_run_that_was_killed_end_by_themselves(submitting, pendulums, like_local_run):
    command = [sys.executable, "-m", "dlcca", "run", str(pendulums / "run.toml")]
    with subprocess.Popen([*command, "--cluster", str(pendulums / "slurm.toml")], stderr=subprocess.PIPE) as run:
        until(lambda: (pendulums / "run.zarr" / "stages" / "scan").exists())
        run.kill()
    until(lambda: submitting.jobs() == [], patience_s=180)
    assert len(keys_in(pendulums)) == 1  # nobody was left to remove them; the next run does
    again = dlcca("run", pendulums / "run.toml", "--cluster", pendulums / "slurm.toml", "--quiet")
    assert again.exit_code in (0, 5), again.output
    assert keys_in(pendulums) == []
    like_local_run()


def test_workers_leave_before_the_walltime_and_others_take_their_place(submitting, pendulums, monkeypatch):
    monkeypatch.setattr(jobqueue, "GRACE_S", (95.0, 300.0))  # of two minutes
    with client_of(profile_of(pendulums, workers=1, walltime_min=2.0)) as client:
        before, job = awaited(client, lambda now: len(now) == 1), submitting.jobs()
        awaited(client, lambda now: now and not now & before, patience_s=150)
        assert submitting.jobs() != job
        assert "TIMEOUT" not in submitting.call("squeue", "-h", "-t", "all", "-o", "%T")


def test_jobs_that_cannot_be_cancelled_at_the_end_spoil_nothing(submitting, pendulums, monkeypatch):
    monkeypatch.setattr(jobqueue, "ORPHANED_S", 5)
    said = []
    profile = profile_of(pendulums, workers=1)
    with pytest.MonkeyPatch.context() as patched, client_of(profile, said.append) as client:
        (job,) = submitting.jobs()
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        patched.setenv("PATH", str(pendulums))  # where there is no scancel
    (told,) = said
    assert "jobs could not be cancelled" in told
    assert f"to cancel them now: scancel {job}" in told
    assert keys_in(pendulums) == []
    until(lambda: submitting.jobs() == [])


def test_the_whole_run_inside_one_allocation_leaves_the_same_result(submitting, pendulums, like_local_run):
    script = str(included_folder() / "one-allocation.sh")
    home = {"DLCCA_SHARED": str(pendulums / "shared"), "DLCCA_INTERFACE": "lo", "DLCCA_WORKER_MEMORY": "1GiB"}
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    exported = ",".join(["ALL", *(f"{name}={value}" for name, value in {**home, "PATH": path}.items())])
    said = pendulums / "said.txt"
    options = [f"--export={exported}", "--ntasks=3", "--mem-per-cpu=1200M", f"--output={said}"]
    job = submitting.call("sbatch", "--parsable", *options, script, str(pendulums / "run.toml")).strip()
    until(lambda: job not in submitting.jobs(), patience_s=240)
    assert " samples: " in said.read_text(), said.read_text()
    assert keys_in(pendulums) == []
    like_local_run()


LONG_RUN = """
[store]
path = "{store}"

[views.left]
source = "left.zarr"

[views.right]
source = "right.zarr"

[landmarks]
count = 300
"""


def test_a_long_recording_is_done_by_both_nodes_as_it_is_here(submitting, tmp_path):
    views, _truth = simulate.torus(60_000, common="big", random_state=0)
    for name, X in zip(("left", "right"), views, strict=True):
        zarr.create_array(str(tmp_path / f"{name}.zarr"), data=X, chunks=(6_000, X.shape[1]))
    (tmp_path / "slurm.toml").write_text(PROFILE.format(shared=tmp_path / "shared"))
    for store in ("slurm", "local"):
        (tmp_path / f"{store}-run.toml").write_text(LONG_RUN.format(store=f"{store}.zarr"))
    there = dlcca("run", tmp_path / "slurm-run.toml", "--cluster", tmp_path / "slurm.toml", "--quiet")
    here = dlcca("run", tmp_path / "local-run.toml", "--quiet")
    assert (there.exit_code, here.exit_code) in [(0, 0), (5, 5)], there.output + here.output
    assert_both_nodes_with_tls(tmp_path)
    found, expected = (
        zarr.open_group(str(tmp_path / f"{s}.zarr"), mode="r")["embedding"][:] for s in ("slurm", "local")
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
