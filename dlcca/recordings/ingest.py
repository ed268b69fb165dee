"""Recordings into aligned, windowed views in Zarr: look at the files, do what is missing, seal the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dlcca.engine.fingerprint import fingerprint
from dlcca.engine.work import Tell
from dlcca.errors import StaleStage
from dlcca.recordings import unscaled_features, validity, view_features
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.ingest_job import IngestJob, make_job
from dlcca.recordings.timeline import File, Opener, Timeline, found
from dlcca.settings.recipe import ViewRecipe
from dlcca.storage import groups, lock, places
from dlcca.storage import run as run_store
from dlcca.storage import views as store
from dlcca.storage.arrays import plain, seal, write_array
from dlcca.storage.block_manifest import known_stage
from dlcca.storage.blocks import storing
from dlcca.storage.files import files_at, zarr_store
from dlcca.storage.views import Reason

#: In the order in which they are done.
STAGES = (unscaled_features.run, validity.run, view_features.run)


def opener() -> Opener:
    """What opens recordings of every known format."""
    from dlcca.recordings.formats.opening import open_recording

    return open_recording


def prepared(
    address: str,
    recipes: Mapping[str, ViewRecipe],
    open_recording: Opener | None = None,
    *,
    lenient: bool = False,
    scaling_from: str = "",
) -> tuple[IngestJob, Timeline]:
    """The job and the files on their clock; reads headers and a few samples.

    ``lenient`` overlooks channels that are flat or saturated throughout; ``scaling_from`` is a store of views whose
    scaling is used, instead of that of these recordings.
    """
    job, line = make_job(address, recipes, open_recording or opener(), scaling_from)
    if lenient:
        job = replace(job, lenient=True, inputs=fingerprint(job.inputs, "lenient"))
    return job, line


def run(job: IngestJob, line: Timeline, client: Any = None, tell: Tell | None = None) -> dict[str, Any]:
    """Do what is missing, and seal the store; its header. A store that is finished is left as it is."""
    _refuse_other(job)
    with lock.held(job.address, "an ingestion"):
        if store.is_views(job.address):
            unscaled_features.confirm(job)
        else:
            for stage in STAGES:
                stage(job, client, tell)
            with storing(f"the header of {job.address}"):
                _seal(job, line)
        _remove_drafts(job)  # also if it was stopped between the seal and this
        return store.describe(job.address)


def _remove_drafts(job: IngestJob) -> None:
    """Those that views were made of: they are of no use any more, and as large as the views."""
    for v in view_features.made_here(job):
        files_at(job.address).remove(unscaled_features.stage_of(job).path(unscaled_features.place_of(job, v)))


def _refuse_other(job: IngestJob) -> None:
    """An error if something else is there: other files, other settings, or no views at all."""
    places.refuse_store(job.address, store.FORM, setting="store")
    begun = known_stage(job.address, "drafts") or known_stage(job.address, "clock")
    if begun is not None:
        known = begun["fingerprint"]
    elif store.is_views(job.address):
        known = store.describe(job.address)["fingerprint"]
    else:
        return
    if known != job.inputs:
        raise StaleStage(
            f"{job.address} was made from other files, or with other settings. Give another store, or remove this one "
            "(dlcca run: --from ingest)."
        )


def _seal(job: IngestJob, line: Timeline) -> None:
    import zarr

    groups.put(job.address, {})
    group = zarr.open_group(zarr_store(job.address), mode="a", zarr_format=3)
    clock = validity.stage_of(job)
    counts = Counter(clock.read("/reason", 0).tolist())
    rows = clock.read("/rows", 0)
    content = {
        "start": None if line.start is None else line.start.isoformat(),
        "time_unit": "s",
        "time_of": "start of the window",
        "window_s": job.window_s,
        "step_s": job.step_s,
        "windows": job.n,
        "rows": len(rows),
        "segments": int(clock.read("/segment", 0).max()) + 1,
        "reasons": {reason.name.lower(): counts.get(reason.value, 0) for reason in Reason},
        "reason_codes": {reason.name.lower(): reason.value for reason in Reason},
        "views": {view.name: _described(job, v) for v, view in enumerate(job.views)},
        "files": _files(job),
        "annotations": [list(mark) for mark in line.marks[:MOST_ANNOTATIONS]],
        "notes": [*line.notes, *_overlooked(job)],
        "fingerprint": job.inputs,
        "versions": run_store.versions(),
    }
    seal(group, store.FORM, plain(content))


#: Kept in the header; more would make it slow to open. Of more features than this, samples one after another, the
#: names are not worth it.
MOST_ANNOTATIONS, MOST_NAMES = 20_000, 2048


def _described(job: IngestJob, v: int) -> dict[str, Any]:
    view, clock = job.views[v], validity.stage_of(job)
    place = validity.place_of(view.name)
    channels = [channel for track in view.tracks for channel in track.channels]
    names = _feature_names(job, v) if view_features.width(job, v) <= MOST_NAMES else []
    return {
        "channels": [channel.name for channel in channels],
        "units": [channel.unit for channel in channels],
        "kinds": [channel.kind for channel in channels],
        "rates": [track.rate for track in view.tracks for _ in track.channels],
        "features": view.recipe.features.to_dict(),
        "width": view_features.width(job, v),
        "feature_names": names,
        "recipe": view.recipe.to_dict(),
        "scaling": view.recipe.scaling,
        "finished": not job.is_finished_when_read(v),
        "center": clock.read(f"{place}/center", 0).tolist(),
        "scale": clock.read(f"{place}/scale", 0).tolist(),
    }


def _feature_names(job: IngestJob, v: int) -> list[str]:
    view = job.views[v]
    if view.recipe.pca_components:
        return [f"principal component {number}" for number in range(1, view.recipe.pca_components + 1)]
    return [name for track, f in zip(view.tracks, job.features[v], strict=True) for name in f.names(track.names)]


def _overlooked(job: IngestJob) -> list[str]:
    names = validity.overlooked(job)
    told = f"{', '.join(names[:10])}{' and more' if len(names) > 10 else ''}"
    return [f"flat or saturated throughout, and used all the same: {told}."] if names else []


def _files(job: IngestJob) -> list[dict[str, Any]]:
    """Every file once: what it holds, and when it began on the clock."""
    told: dict[str, dict[str, Any]] = {}
    for _v, _k, track in job.tracks:
        for piece in track.pieces:
            recording = piece.file.open(job.opener)
            signal = recording.signals[piece.signal]
            told.setdefault(piece.file.path, _told(recording, piece.start_s - signal.start_s))
    return list(told.values())


def _told(recording: Recording, start_s: float) -> dict[str, Any]:
    signals = [
        {
            "channels": signal.names,
            "rate": signal.rate,
            "samples": signal.n,
            "start_s": signal.start_s,
            "drift_ppm": signal.drift_ppm,
            "duration_s": signal.duration_s,
        }
        for signal in recording.signals
    ]
    return {
        "path": recording.path,
        "format": recording.format,
        "start_s": start_s,  # on the clock
        "signals": signals,
        "annotations": len(recording.annotations),
    }


def only_annotations(address: str, files: Sequence[str], open_recording: Opener | None = None) -> dict[str, Any]:
    """A store without views, for files that hold annotations and nothing else; its header."""
    import zarr

    opening = open_recording or opener()
    held = [File.at(path, {}) for path in found(files, "the command line")]
    inputs = fingerprint("annotations", [[file.path, file.stamp] for file in held])
    places.refuse_store(address, store.FORM, inputs=[file.path for file in held], setting="--out")
    if store.is_views(address):
        if store.describe(address)["fingerprint"] != inputs:
            raise StaleStage(f"{address} was made from other files. Give another store, or remove this one.")
        return store.describe(address)
    recordings = [file.open(opening) for file in held]
    starts = [recording.start for recording in recordings if recording.start is not None]
    marks = [[m.onset_s, m.onset_s + m.duration_s, m.text] for recording in recordings for m in recording.annotations]
    content = {
        "start": min(starts).isoformat() if len(held) == len(starts) == 1 else None,
        "windows": 0,
        "rows": 0,
        "segments": 0,
        "reasons": {},
        "views": {},
        "files": [_told(recording, 0.0) for recording in recordings],
        "annotations": marks[:MOST_ANNOTATIONS],
        "notes": [note for recording in recordings for note in recording.notes],
        "fingerprint": inputs,
        "versions": run_store.versions(),
    }
    with storing(f"the header of {address}"):
        group = zarr.create_group(zarr_store(address), zarr_format=3)
        empty = {"time": "float64", "reason": "uint8", "segment": "int64", "rows": "int64"}
        manifest = {name: write_array(group, name, np.empty(0, dtype)) for name, dtype in empty.items()}
        seal(group, store.FORM, {**plain(content), "manifest": manifest})
    return store.describe(address)


def summary(header: Mapping[str, Any]) -> list[str]:
    """What came of it, a line each."""
    if not header["views"]:
        return [f"no channels, {len(header['annotations'])} annotations."]
    bad = {name: count for name, count in header["reasons"].items() if count and name != "valid"}
    told = f" ({', '.join(f'{count} {name}' for name, count in bad.items())} left out)" if bad else ""
    lines = [
        f"{header['rows']} of {header['windows']} windows of {header['window_s']:g} s are valid{told}, "
        f"in {header['segments']} unbroken stretch{'es' * (header['segments'] != 1)}."
    ]
    for name, view in header["views"].items():
        rates = ", ".join(f"{rate:g}" for rate in sorted(set(view["rates"])))
        lines.append(
            f"  {name}: {len(view['channels'])} channels at {rates} Hz, {view['width']} numbers a row "
            f"({view['features']['kind']})"
        )
    return lines + [f"  note: {note}" for note in header["notes"]]
