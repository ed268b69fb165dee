"""Recordings into aligned, windowed views in Zarr: read the headers, run the stages, seal the store; and its status."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dlcca.engine.stage import Progress, fingerprint, progress_of, stages_on_disk
from dlcca.engine.work import OnProgress
from dlcca.errors import StaleStage
from dlcca.recordings import extract_windows, scaling, validity
from dlcca.recordings.formats.recording import Recording
from dlcca.recordings.ingest_job import IngestJob, WindowedView
from dlcca.recordings.ingest_job import prepared as prepared
from dlcca.recordings.timeline import File, Opener, Timeline, found
from dlcca.storage import lock, places
from dlcca.storage import run as run_store
from dlcca.storage import views as store
from dlcca.storage.blocks import Blocks, storing
from dlcca.storage.files import files_at, zarr_store
from dlcca.storage.formats import plain, seal, write_array
from dlcca.storage.manifest import known_stage, put_group
from dlcca.storage.views import Reason

#: What runs the stages, in their order; and the names of the stages on disk.
STAGES = (extract_windows.run, validity.run, scaling.run)
ON_DISK = ("drafts", "clock", "pca", "views")
#: Annotations in the header; more would make it slow to open. Views of more features than this have no names of them.
MOST_ANNOTATIONS, MOST_NAMES = 20_000, 2048


def run(job: IngestJob, line: Timeline, client: Any = None, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Compute what is missing and seal the store; return its header. A finished store is left as it is."""
    places.refuse_store(job.address, store.FORM, setting="store")
    begun = known_stage(job.address, "drafts") or known_stage(job.address, "clock")
    if begun is None and store.is_views(job.address):
        begun = store.describe(job.address)
    if begun is not None and begun["fingerprint"] != job.inputs:
        raise StaleStage(
            f"{job.address} was made from other files, or with other settings. Give another store, or remove this one "
            "(dlcca run: --from ingest)."
        )
    with lock.held(job.address, "an ingestion"):
        if store.is_views(job.address):
            extract_windows.confirm(job)
        else:
            for stage in STAGES:
                stage(job, client, on_progress)
            with storing(f"the header of {job.address}"):
                _seal(job, line)
        for view in job.scaled_later:  # as large as the views; also if it was stopped between the seal and this
            files_at(job.address).remove(job.stage("drafts").path(view.drafts))
        return store.describe(job.address)


def _seal(job: IngestJob, line: Timeline) -> None:
    import zarr

    put_group(job.address, {})
    group = zarr.open_group(zarr_store(job.address), mode="a", zarr_format=3)
    clock = job.stage("clock")
    counts = Counter(clock.read("/reason", 0).tolist())
    names = clock.facts(0)["overlooked"]
    listed = f"{', '.join(names[:10])}{' and more' if len(names) > 10 else ''}"
    ignored = [f"flat or saturated throughout, and used all the same: {listed}."] if names else []
    content = {
        "start": None if line.start is None else line.start.isoformat(),
        "time_unit": "s",
        "time_of": "start of the window",
        "window_s": job.window_s,
        "step_s": job.step_s,
        "windows": job.n,
        "rows": len(clock.read("/rows", 0)),
        "segments": int(clock.read("/segment", 0).max()) + 1,
        "reasons": {reason.name.lower(): counts.get(reason.value, 0) for reason in Reason},
        "reason_codes": {reason.name.lower(): reason.value for reason in Reason},
        "views": {view.name: _described(view, clock) for view in job.views},
        "files": _files(job),
        "annotations": [list(mark) for mark in line.marks[:MOST_ANNOTATIONS]],
        "notes": [*line.notes, *ignored],
        "fingerprint": job.inputs,
        "versions": run_store.versions(),
    }
    seal(group, store.FORM, plain(content))


def _described(view: WindowedView, clock: Blocks) -> dict[str, Any]:
    """The header of a view."""
    names: list[str] = []
    if view.width <= MOST_NAMES:
        components = [f"principal component {number + 1}" for number in range(view.recipe.pca_components)]
        names = components or [name for track in view.tracks for name in track.feature.names(track.names)]
    return {
        **view.of_channels,
        "features": view.recipe.features.to_dict(),
        "width": view.width,
        "feature_names": names,
        "recipe": view.recipe.to_dict(),
        "scaling": view.recipe.scaling,
        "finished": not view.is_scaled_when_read,
        "center": clock.read(view.scaling("center"), 0).tolist(),
        "scale": clock.read(view.scaling("scale"), 0).tolist(),
    }


def _files(job: IngestJob) -> list[dict[str, Any]]:
    """Every file once: what it holds, and when it began on the clock."""
    files: dict[str, dict[str, Any]] = {}
    for piece in (piece for track in job.tracks for piece in track.pieces):
        recording = piece.file.recording
        start_s = piece.start_s - recording.signals[piece.signal].start_s
        files.setdefault(piece.file.path, _file(recording, start_s))
    return list(files.values())


def _file(recording: Recording, start_s: float) -> dict[str, Any]:
    times = ("start_s", "drift_ppm", "duration_s")
    signals = [
        {"channels": s.names, "rate": s.rate, "samples": s.n} | {key: getattr(s, key) for key in times}
        for s in recording.signals
    ]
    return {
        "path": recording.path,
        "format": recording.format,
        "start_s": start_s,  # on the clock
        "signals": signals,
        "annotations": len(recording.annotations),
    }


def only_annotations(address: str, files: Sequence[str], opener: Opener | None = None) -> dict[str, Any]:
    """A store without views, for files that hold annotations and nothing else; its header."""
    import zarr

    held = [File.at(path, {}, opener) for path in found(files, "the command line")]
    inputs = fingerprint("annotations", [[file.path, file.stamp] for file in held])
    places.refuse_store(address, store.FORM, inputs=[file.path for file in held], setting="--out")
    if store.is_views(address):
        if store.describe(address)["fingerprint"] != inputs:
            raise StaleStage(f"{address} was made from other files. Give another store, or remove this one.")
        return store.describe(address)
    recordings = [file.recording for file in held]
    starts = [recording.start for recording in recordings if recording.start is not None]
    marks = [[m.onset_s, m.onset_s + m.duration_s, m.text] for recording in recordings for m in recording.annotations]
    content = {
        "start": min(starts).isoformat() if len(held) == len(starts) == 1 else None,
        "windows": 0,
        "rows": 0,
        "segments": 0,
        "reasons": {},
        "views": {},
        "files": [_file(recording, 0.0) for recording in recordings],
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
    """The result in lines for the console."""
    if not header["views"]:
        return [f"no channels, {len(header['annotations'])} annotations."]
    bad = {name: count for name, count in header["reasons"].items() if count and name != "valid"}
    left_out = f" ({', '.join(f'{count} {name}' for name, count in bad.items())} left out)" if bad else ""
    lines = [
        f"{header['rows']} of {header['windows']} windows of {header['window_s']:g} s are valid{left_out}, "
        f"in {header['segments']} unbroken segment{'s' * (header['segments'] != 1)}."
    ]
    for name, view in header["views"].items():
        rates = ", ".join(f"{rate:g}" for rate in sorted(set(view["rates"])))
        features = f"{view['width']} features a row ({view['features']['kind']})"
        lines.append(f"  {name}: {len(view['channels'])} channels at {rates} Hz, {features}")
    return lines + [f"  note: {note}" for note in header["notes"]]


def begun(address: str) -> list[Blocks]:
    """The stages of an ingestion that have been begun, as they are on disk; none if there is no store of views."""
    return stages_on_disk(address, ON_DISK) if files_at(address).get("stages/drafts/stage.json") is not None else []


def progress(address: str) -> list[Progress]:
    """The stages that have been begun, each with its finished blocks."""
    return progress_of(begun(address))


def gone(finished: bool) -> Callable[[str], bool]:
    """Whether an array was removed: unscaled features are, when views have been made of them."""
    return lambda array: finished and array.startswith("draft_")


def needed(header: Mapping[str, Any]) -> list[str]:
    """The stages that a finished store of views was made by."""
    views = list(header["views"].values())
    if not views:
        return []
    later = any(view["finished"] for view in views)
    components = any(view["recipe"].get("pca_components") for view in views)
    return ["drafts", "clock", *["pca"] * components, *["views"] * later]
