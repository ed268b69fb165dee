"""Runs nights in processes of its own, each of which may be killed: at the n-th thing that it does to a disk, or after
some time, whatever it is doing then.

Started once, so that what takes long to import is imported once: every night is a fork. Asked by lines of JSON on
standard input: the pipeline file, and at which operation or after how many seconds of work to die (0 for never);
answers with how the night ended, and writes down how many operations it had come to, and how long it worked.
"""

import importlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from dlcca.fitting import transform
from dlcca.pipelines import catalog, nightly_run
from tests.pipelines.nights import morning_after

#: What a night imports when it needs it; here, before the forks.
EARLY = ("pipelines.models", "pipelines.page", "estimator", "recordings.recorded_views", "recordings.formats.edf")
EARLY += ("recordings.new_recordings",)

#: What Python tells of when something happens to a file.
WATCHED = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.symlink", "shutil.rmtree", "os.truncate"}


class Operations:
    """Counts what is done to the disk, and ends the process at a chosen one."""

    def __init__(self, die_at):
        self.count, self.die_at, self.lock = 0, die_at, threading.Lock()

    def tick(self, event="", arguments=()):
        if event and (event not in WATCHED or str(arguments[0]).endswith(".py")):
            return
        with self.lock:
            self.count += 1
            if self.count == self.die_at:
                os.kill(os.getpid(), signal.SIGKILL)


def one_night(file, die_at, die_after_s, count_file):
    """In the forked process: a night, with a note of every block of coordinates that was finished."""
    began = time.process_time()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends a process there and then, as SIGKILL does
    signal.setitimer(signal.ITIMER_PROF, die_after_s)  # of its own time: how busy the machine is does not matter
    operations = Operations(die_at)
    do, compute = catalog.Catalog.do, transform.compute
    done = Path(file).parent / "blocks.txt"

    def counted_do(self, *arguments):
        operations.tick()
        return do(self, *arguments)

    def noted(job, stage, block):
        compute(job, stage, block)
        with open(done, "a") as lines:
            lines.write(f"{Path(job.address).name} {block}\n")

    catalog.Catalog.do, transform.compute = counted_do, noted
    sys.addaudithook(operations.tick)
    code = nightly_run.run(file, clock=lambda: morning_after(1)).exit_code
    signal.setitimer(signal.ITIMER_PROF, 0)
    Path(count_file).write_text(f"{operations.count} {time.process_time() - began}")
    return code


def main():
    for name in EARLY:
        importlib.import_module(f"dlcca.{name}")
    importlib.import_module("pyarrow.parquet")
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                code = one_night(**asked)
                os._exit(code)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(99)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
