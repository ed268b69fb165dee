"""Finished runs on disk with all that a report tells of: a model, gaps, a cost, events; of any length, in no time."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from dlcca.model import Model
from dlcca.storage import event_log, run
from dlcca.storage import model as model_store
from dlcca.storage.formats import seal
from dlcca.storage.manifest import checksum, put_group
from tests.support.runs import made_up

#: Channels of each of the two views.
CHANNELS = 6


def night(n: int = 1000, q: int = 3, *, landmarks: int = 200, **changed: Any) -> run.Run:
    """A run of a recording: one slow common variable, strong in the second third of the night, and a gap."""
    rng = np.random.default_rng(0)
    time = np.arange(n) * 28_800 / n  # eight hours
    z = slow(time)
    shapes = [z, 2 * z**2 - 1, 4 * z**3 - 3 * z, z**4]
    E = np.column_stack([shapes[i] + 0.02 * rng.standard_normal(n) for i in range(q)]) * np.sqrt(2)
    reason = np.zeros(n, np.uint8)
    reason[n // 10 : n // 10 + n // 50] = 1
    E[reason > 0] = np.nan
    rows = np.flatnonzero(reason == 0)[np.linspace(0, (reason == 0).sum() - 1, landmarks).astype(int)]
    strong = (time[rows] > 9600) & (time[rows] < 19_200)
    rho = np.where(strong, 0.95, 0.7) + 0.02 * rng.standard_normal(landmarks)
    rest = np.sort(rng.uniform(0, 0.4, (landmarks, 3)), axis=1)[:, ::-1]
    facts = {
        "embedding": E,
        "time": time,
        "reason": reason,
        "landmarks": rows,
        "correlations": np.column_stack([np.clip(rho, 0, 1), rest]),
        "start": "2024-03-01T22:30:00+01:00",
        "views": {"eeg": CHANNELS, "ecg": CHANNELS},
    }
    return made_up(n, q, **{**facts, **changed})


def slow(time: np.ndarray) -> np.ndarray:
    """The common variable, about a cycle in an hour and a half."""
    return np.sin(2 * np.pi * time / 5400 + 2 * np.sin(2 * np.pi * time / 28_800))


def stored(path: Path, found: run.Run, *, finished: bool = True) -> Path:
    """The run on disk, with a model whose first channels carry the common variable and whose last ones do not."""
    rng = np.random.default_rng(1)
    z, L = found.embedding[found.landmarks, 0], len(found.landmarks)
    share = np.linspace(1, 0, CHANNELS)
    points = [z[:, None] * share + (1.02 - share) * rng.standard_normal((L, CHANNELS)) for _ in found.views]
    model = Model(
        names=tuple(found.views),
        fusion="average",
        n_links=None,
        points=points,
        factors=[np.ones((L, CHANNELS, 1)) for _ in points],
        units=np.ones(len(points)),
        weights=[np.ones(L)],
        values=[np.ones((L, found.embedding.shape[1]))],
        scale=np.ones(found.embedding.shape[1]),
    )
    names = {name: {"feature_names": [f"{name.upper()}{i}" for i in range(1, CHANNELS + 1)]} for name in found.views}
    run.write(path, found, lambda group: model_store.write(group, model, {}, {"recordings": {"views": names}}))
    if finished:
        add_history(path)
    return path


def add_history(path: Path) -> None:
    """What the stages took, and what happened when, as `dlcca run` leaves it."""
    import zarr

    group = zarr.open_group(str(path), mode="a")
    header = dict(group.attrs)
    for name in ("checksum", "format", "version", "metadata"):
        header.pop(name)
    cost = {"metric": (12.5, 3 << 28, 8), "kernel": (40.0, 5 << 28, 16)}
    names = ("seconds", "peak_bytes", "tasks")
    header["cost"] = {name: dict(zip(names, took, strict=True)) for name, took in cost.items()}
    seal(group, run.FORM, header)
    happened = [
        {"event": "planned", "seconds": 50.0, "rates": "measured here", "workers": 2, "stages": _plans()},
        {"event": "stage started", "stage": "metric", "done": 0, "blocks": 8},
        {"event": "retry", "stage": "metric"},
        {"event": "stage finished", "stage": "metric", "blocks": 8},
        {"event": "finished", "seconds": 61.0, "retries": 1},
    ]
    moments = [f"2024-03-02T08:00:{7 * i:02d}.000+00:00" for i in range(len(happened))]
    told = [{"time": t, **event} for t, event in zip(moments, happened, strict=True)]
    text = "".join(f"{json.dumps(event)}\n" for event in told).encode()
    end = json.dumps({"event": "sealed", "crc": checksum(text)}).encode() + b"\n"
    put_group(f"{path}/{event_log.FOLDER}", {})
    (path / event_log.FILE).write_bytes(text + end)


def _plans() -> dict[str, dict[str, float]]:
    return {"metric": {"seconds": 10.0, "memory": 3e8}, "kernel": {"seconds": 35.0, "memory": 7e8}}
