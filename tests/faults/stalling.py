"""Loaded by a Dask worker: it stops itself once, at a chosen point of a block, as a node that stalls does.

The test names stage, block and point in the environment (`tests.faults.late.Stall`). A file says that the worker has
stopped, another one that the block is over, whatever came of it.
"""

import os
import signal
from pathlib import Path

from dlcca.engine import work
from dlcca.storage import blocks, chunks, files
from dlcca.storage.retrying_store import RetryingStore

STAGE, BLOCK, POINT = (os.environ[f"DLCCA_STALL_{key}"] for key in ("STAGE", "BLOCK", "POINT"))
MARKS = Path(os.environ["DLCCA_STALL_MARKS"])

do, write, put_local, put_remote = work._do, blocks.Blocks.write, files.LocalFiles.put, files.RemoteFiles.put
lay, replace, send = chunks.Writer.write, os.replace, RetryingStore.set
conditional = files.RemoteFiles._put_if_absent
#: Stages whose chosen block this worker computes, the last one innermost.
at_hand = []


def stop_at(point):
    if point == POINT and at_hand and not (MARKS / "stopped").exists():
        (MARKS / "stopped").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)


def stalling_do(compute, job, stage, block):
    if stage.name.partition("/")[0] != STAGE or block != int(BLOCK):
        return do(compute, job, stage, block)
    at_hand.append(stage)
    try:
        stop_at("begin")
        return do(compute, job, stage, block)
    except BaseException as error:
        (MARKS / "error").write_text(f"{type(error).__name__}: {error}")
        raise
    finally:
        at_hand.pop()
        if (MARKS / "stopped").exists():
            (MARKS / "over").touch()


def stalling_write(stage, block, parts, facts):
    stop_at("computed")
    write(stage, block, parts, facts)


def stalling_lay(self, *options):
    stop_at("chunk")
    return lay(self, *options)


def stalling_replace(source, target):
    if "/c/" in str(target):
        stop_at("moved")
    replace(source, target)


def stalling_pipe(self, name, content):
    stop_at("moved")
    return conditional(self, name, content)


async def stalling_send(self, key, *options, **named):
    if "/c/" in key:
        stop_at("moved")
    await send(self, key, *options, **named)


def stalling_put(put):
    def stalled(self, name, content):
        if "/done/" in name:
            stop_at("record")
        put(self, name, content)

    return stalled


def dask_setup(worker):
    """Called by Dask when the worker has started; the module itself is loaded twice."""
    blocks.SETTLE_S = 1.0  # only how long it looks whether the file system shows it an old file
    work._do, blocks.Blocks.write, chunks.Writer.write = stalling_do, stalling_write, stalling_lay
    os.replace, RetryingStore.set, files.RemoteFiles._put_if_absent = stalling_replace, stalling_send, stalling_pipe
    files.LocalFiles.put, files.RemoteFiles.put = stalling_put(put_local), stalling_put(put_remote)
