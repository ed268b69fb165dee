"""Settings files with wrong values: a valid file, of which a few keys get a random value of any type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime, time
from inspect import signature
from random import Random
from typing import Any

from dlcca.clusters import profile
from dlcca.pipelines import settings as pipelines
from dlcca.recordings.formats import csv_table, wav, zarr_arrays
from dlcca.settings import fit, recipe

#: Values of every TOML type, most of them wrong for every key.
SCALARS: tuple[Any, ...] = (
    *("", " ", "auto", "all", "time", "cca", "x" * 300, "ünïcødé 雪", "a/b", "../..", ".", "\0", "a\nb", "~", "*", "["),
    *("s3://", "://", "file://", "nan", "1", "/", "no-such-folder/run.zarr", "left.zarr", "sound.wav", "run.toml"),
    *(-1, 0, 1, 2, 3, 7, 300, 10**9, 2**31, 2**63 - 1, 2**64, 10**30, -(10**30), 10**400),
    *(0.5, -0.5, 1e-300, 1e300, -1e300, float("nan"), float("inf"), float("-inf"), 0.0, -0.0),
    *(True, False, date(2020, 2, 29), time(1, 2, 3), datetime(2020, 1, 1, 12)),
)

#: Section -> its keys. A key that is not known belongs to each of them.
STAGES = {name: [key.name for key in fields(stage)] for name, stage in fit.STAGES.items()}
VIEW = [field.name for field in fields(recipe.ViewRecipe)]
FEATURES = [field.name for field in fields(recipe.FeatureRecipe)]
READER = sorted({name for reader in (csv_table, wav, zarr_arrays) for name in signature(reader.open).parameters})
COMMON = {**STAGES, "cluster": ["workers", "memory_gib"]}

ARRAYS = {
    "store": {"path": "run.zarr", "seed": 3},
    "views": {"left": {"source": "left.zarr"}, "right": {"source": "right.zarr"}},
    "landmarks": {"count": 20},
    "cluster": {"workers": 1},
}
RECORDINGS = {
    "store": {"path": "made.zarr"},
    "views": {
        "left": {"source": "sound.wav", "channels": ["0"], "window_s": 0.05, "step_s": 0.05},
        "right": {"source": ["sound.wav"], "channels": "1", "features": {"kind": "bandpower"}},
    },
    "landmarks": {"count": 20},
    "cluster": {"workers": 1},
}
CONTAINERS = {
    "store": {"path": "made.zarr"},
    "views": {
        "left": {"source": "left.zarr", "window_s": 0.05, "reader": {"rate": 400}},
        "right": {"source": "right.csv", "reader": {"rate": 400}},
    },
    "landmarks": {"count": 20},
    "cluster": {"workers": 1},
}
NIGHTS = {
    "sources": {"files": "incoming/*.edf", "settle_s": 0},
    "views": {"left": {"channels": ["L1"], "window_s": 0.0625}, "right": {"channels": ["R1"]}},
    "landmarks": {"count": 20},
    "cluster": {"workers": 1},
}
CLUSTERS = {
    "local": {"workers": 2},
    "existing": {"address": "tls://host:8786"},
    **{queue: {"workers": 4, "cores": 2} for queue in profile.QUEUES},
    "kubernetes": {"image": "dlcca:latest", "workers": 3},
    "cloud": {"provider": "aws", "image": "dlcca:latest", "workers": 3, "options": {"vpc": "x"}},
}


def toml(content: Mapping[str, Any]) -> str:
    """A document of sections, as inline tables."""
    return "".join(f"{_text(key)} = {value(entry)}\n" for key, entry in content.items())


def value(entry: Any) -> str:
    """One value as TOML writes it."""
    if isinstance(entry, bool):
        return "true" if entry else "false"
    if isinstance(entry, str):
        return _text(entry)
    if isinstance(entry, float):
        return repr(entry)
    if isinstance(entry, date | time):
        return entry.isoformat()
    if isinstance(entry, Mapping):
        return "{" + ", ".join(f"{_text(key)} = {value(part)}" for key, part in entry.items()) + "}"
    if isinstance(entry, list | tuple):
        return "[" + ", ".join(map(value, entry)) + "]"
    return str(entry)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=True) if text.isascii() else json.dumps(text, ensure_ascii=False)


def odd(rng: Random, depth: int = 0) -> Any:
    """Any value: a scalar, a list or a table of them, or an empty one."""
    kind = rng.random() if depth < 3 else 0.0
    if kind < 0.6:
        return rng.choice(SCALARS)
    if kind < 0.85:
        return [odd(rng, depth + 1) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
    return {rng.choice(("kind", "bands", "a", "", "ü", "0")): odd(rng, depth + 1) for _ in range(rng.choice((0, 1, 2)))}


def run_file(rng: Random) -> str:
    """A run.toml in which one to three things are random."""
    content = _copy(rng.choice((ARRAYS, RECORDINGS, CONTAINERS)))
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(content, {"store": ["path", "seed"], **COMMON}, rng)
    return toml(content)


def pipeline_file(rng: Random) -> str:
    """A pipeline.toml in which one to three things are random."""
    own = {name: [field.name for field in fields(kind)] for name, kind in pipelines.OWN.items()}
    content = _copy(NIGHTS)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(content, {**own, "run": ["file", "seed"], **COMMON}, rng)
    return toml(content)


def cluster_file(rng: Random) -> str:
    """A cluster file in which one to three things are random."""
    kind = rng.choice(list(CLUSTERS))
    content = {"kind": kind, **_copy(CLUSTERS[kind])}
    keys = [field.name for field in fields(profile.KINDS[kind])]
    for _ in range(rng.choice((1, 1, 2, 3))):
        content[rng.choice((*keys, "no_key")) if rng.random() < 0.97 else "kind"] = odd(rng)
    return toml(content)


def _change(content: dict[str, Any], sections: Mapping[str, list[str]], rng: Random) -> None:
    where = rng.random()
    if where < 0.06:  # a section that is none
        content[rng.choice((*sections, "views", "no_section"))] = odd(rng)
    elif where < 0.4:
        _change_view(content, rng)
    else:
        name = rng.choice(list(sections))
        section = content.setdefault(name, {})
        if isinstance(section, dict):
            section[rng.choice((*sections[name], "no_key")) if rng.random() < 0.1 else rng.choice(sections[name])] = (
                odd(rng)
            )


def _change_view(content: dict[str, Any], rng: Random) -> None:
    views = content.get("views")
    if not isinstance(views, dict):
        return
    if rng.random() < 0.1:
        views[rng.choice(("left", "third", "", ".", "a/b", "ü", " "))] = odd(rng)
        return
    view = views.get(rng.choice(("left", "right")))
    if not isinstance(view, dict):
        return
    which = rng.random()
    if which < 0.3:
        kind = rng.choice(list(recipe.KINDS))
        view["features"] = {"kind": kind, rng.choice((*recipe.KINDS[kind], *FEATURES)): odd(rng)}
    elif which < 0.45:
        view["reader"] = {
            **(view.get("reader") if isinstance(view.get("reader"), dict) else {}),
            rng.choice(READER): odd(rng),
        }
    else:
        view[rng.choice((*VIEW, "no_key"))] = odd(rng)


def _copy(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(entry) if isinstance(entry, Mapping) else entry for key, entry in content.items()}
