"""A run of a job that kills its own process at a chosen place."""

import os
import signal
import warnings

from dlcca.fitting import pipeline
from dlcca.fitting.job import Job
from dlcca.storage import blocks, chunks, files


def until(place: str, job: Job) -> None:
    """Run the job, and die just before a small file is put in its place, or (after "in ") when the first array of that
    block has been written."""
    warnings.simplefilter("error")
    put, write, lay = files.LocalFiles.put, blocks.Blocks.write, chunks.Writer.write

    def dying_put(self, name, content):
        die() if name == place else put(self, name, content)

    def laid_and_dead(self, first, X):
        lay(self, first, X)
        die()

    def dying_write(stage, block, parts, facts):
        here = place == f"in {stage.folder}/done/{block:05d}.json"
        chunks.Writer.write = laid_and_dead if here else lay
        write(stage, block, parts, facts)

    files.LocalFiles.put, blocks.Blocks.write = dying_put, dying_write
    pipeline.run(job)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
