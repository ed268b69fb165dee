"""Many late workers, and what came of each.

PYTHONPATH=. python tests/faults/late_table.py [--seeds 20] [--first 0] [--storage local|object]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

from tests.faults.late import Stall, survive, undisturbed
from tests.storage.buckets import forget_storages
from tests.storage.object_server import ObjectServer


def main() -> int:
    """Stall and wake; 1 if a run was not as it should be."""
    asked = arguments()
    unharmed = 0
    with tempfile.TemporaryDirectory(prefix="dlcca-late-") as scratch, stores(asked.storage, Path(scratch)) as root:
        reference = undisturbed(_made(Path(scratch) / "undisturbed"))
        for seed in range(asked.first, asked.first + asked.seeds):
            folder = _made(Path(scratch) / str(seed))
            outcome = survive(Stall.of(seed), reference, folder, f"{root}/{seed}/run.zarr")
            unharmed += outcome.is_unharmed
            print(outcome.line(), flush=True)
    print(f"\n{asked.storage}: {unharmed} of {asked.seeds} tries equal to a clean run")
    return int(unharmed < asked.seeds)


@contextmanager
def stores(storage: str, scratch: Path) -> Iterator[str]:
    """Where stores are put: a folder, or a bucket on a server of our own, on loopback."""
    if storage == "local":
        yield str(scratch)
        return
    import fsspec

    known = {"ACCESS_KEY_ID": "testing", "SECRET_ACCESS_KEY": "testing", "DEFAULT_REGION": "us-east-1"}
    known |= dict.fromkeys(("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"), str(scratch / "none"))
    forget_storages()
    with (
        ObjectServer() as (host, port),
        mock.patch.dict(os.environ, {f"AWS_{key}": value for key, value in known.items()}),
    ):
        os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
        with suppress(FileExistsError):  # servers of one process share their buckets
            fsspec.filesystem("s3").mkdir("late")
        try:
            yield "s3://late"
        finally:
            forget_storages()  # else a later test would be connected to this server, which is gone


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--storage", choices=("local", "object"), default="local")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
