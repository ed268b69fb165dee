"""The end of a cluster that does not end in order."""

import asyncio
import sys
import time
from types import SimpleNamespace

import pytest

from dlcca.clusters import jobqueue, keys
from dlcca.clusters.profile import of


class Stubborn:
    """Something that cannot be closed, with a job that is cancelled by a command of our own."""

    def __init__(self, error, cancel):
        self.error, self.stopped = error, []
        self.workers = {"1": SimpleNamespace(job_id="17", cancel_command=cancel, left_behind=None)}
        self._loop_runner = SimpleNamespace(stop=lambda: self.stopped.append(True))

    def close(self, timeout):
        raise self.error


def noting(file):
    return f"{sys.executable} -c \"import sys; open('{file}', 'w').write(sys.argv[1])\""


@pytest.mark.parametrize("error", [KeyError("tls://n1:1"), AssertionError(), TimeoutError(), asyncio.CancelledError()])
def test_what_goes_wrong_at_the_end_is_said_and_the_jobs_are_cancelled_all_the_same(tmp_path, error):
    said = []
    made = Stubborn(error, noting(tmp_path / "cancelled"))
    with jobqueue.closing_cluster(made, said.append), jobqueue.closing_client(made, said.append):
        pass
    assert (tmp_path / "cancelled").read_text() == "17"
    assert made.stopped
    assert type(error).__name__ in said[0]
    assert said[1].endswith("They are cancelled.")


def test_it_does_not_take_the_place_of_what_ended_the_run(tmp_path):
    made = Stubborn(AssertionError("closing"), "no-such-command-here")
    said = []
    with pytest.raises(ZeroDivisionError), jobqueue.closing_cluster(made, said.append):
        1 / 0  # noqa: B018
    assert said == [
        "the workers did not end cleanly (AssertionError: closing). They end by themselves soon; to cancel them now: "
        "no-such-command-here 17"
    ]


def test_whoever_interrupts_is_obeyed():
    with pytest.raises(KeyboardInterrupt), jobqueue.closing_client(Stubborn(KeyboardInterrupt(), "true"), print):
        pass


@pytest.mark.cluster
def test_the_end_of_a_worker_that_was_not_known_spoils_nothing(tmp_path):
    """As it comes when workers leave while Dask counts them."""
    profile = of({"kind": "slurm", "workers": 1, "interface": "lo"})
    stranger, known = "tls://127.0.0.1:9", "tls://127.0.0.1:10"
    said = []
    with keys.keys_of_run(tmp_path) as security:
        made = jobqueue.new_cluster(profile, tmp_path, security)
        with jobqueue.closing_cluster(made, said.append):
            on_progress = made.scheduler.plugins["worker-status"].bcomm.send
            for message in (["remove", stranger], ["add", {"workers": {known: {"name": "n"}}}]):
                made.loop.add_callback(on_progress, message)
            while known not in made.scheduler_info["workers"]:  # it still listens
                time.sleep(0.01)
    assert said == []
