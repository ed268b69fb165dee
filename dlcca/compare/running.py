"""A comparison from a run.toml: read some rows, have each method look at them, and at the control, and score it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.baselines.inputs import DENSE_LIMIT
from dlcca.compare import methods, table
from dlcca.compare.rows import Rows, shifted, shuffled
from dlcca.compare.truth import SCORES, Truth, folds_of
from dlcca.engine.fingerprint import fingerprint
from dlcca.errors import DataError, DlccaError, SettingsError, StaleStage
from dlcca.fitting import runner
from dlcca.fitting.job import Job
from dlcca.numerics.stretches import chosen, unbroken
from dlcca.settings.runfile import RunFile
from dlcca.storage import comparison, run
from dlcca.storage.comparison import Comparison
from dlcca.trust import scores

#: Rows that are compared unless said otherwise: kernel CCA takes half a minute for so many, and 1.2 GB.
ROWS = 5000
LEAST_ROWS = 50
#: With windows of time, rows are taken in stretches of so many windows.
WINDOWS_IN_A_STRETCH = 4

Say = Callable[[str], None]


def compare(
    asked: RunFile, *, rows: int = ROWS, truth: Truth | None = None, folds: str = "auto", say: Say = lambda text: None
) -> Comparison:
    """Run the baselines on the views of a finished run, score all methods, and keep the comparison in the run.

    Parameters
    ----------
    asked : the run file of the run
    rows : at most so many rows are compared
    truth : what is known of each row, if anything: of all windows of a recording, or of the valid ones
    folds : "blocked" if the order of the rows means something, "random" if not, or "auto": "random" if the truth is
        labels and one of them lies in one stretch alone, so that rows seem to be sorted
    say : told what is being done
    """
    job, found = _finished(asked)
    embedding = found.embedding if job.moments is None else found.embedding[job.moments.rows]
    taken = _taken(job, rows)
    known = None if truth is None else _fitted_truth(truth, job, taken)
    unordered = folds == "random" or (folds == "auto" and known is not None and known.is_sorted)
    scene = _scene(job, asked, taken, ordered=not unordered)
    judge = _Judge(scene, known, embedding[taken])
    entries = [judge.ours(say)]
    coordinates: list[NDArray | None] = [judge.embedding]
    for name, method in methods.baseline_methods(scene.dims, len(scene.rows), embedding.shape[1]):
        say(name)
        entry, E = judge.baseline(name, method)
        entries.append(entry)
        coordinates.append(E)
    made = Comparison(
        run=found.fingerprint,
        rows=scene.rows if job.moments is None else job.moments.rows[scene.rows],
        table=[entry.to_dict() for entry in entries],
        coordinates=coordinates,
        facts=_facts(job, scene, known, found.embedding.shape[1]),
        truth=None if known is None else known.numbers,
    )
    comparison.write(asked.store, made)
    return made


@dataclass(frozen=True)
class _Scene:
    """The views at the rows that are compared, and the control: views of different moments, in step."""

    rows: Rows  # of the views
    views: dict[str, NDArray]
    control: dict[str, NDArray] | None  # None for one view: it cannot be shifted against another
    segments: Rows  # unbroken stretches of the control
    settings: Any
    seed: int
    ordered: bool  # whether the order of the rows means something

    @property
    def folds(self) -> str:
        return "blocked" if self.ordered else "random"

    @property
    def dims(self) -> dict[str, int]:
        return {name: X.shape[1] for name, X in self.views.items()}


class _Judge:
    """Scores coordinates of the rows that are compared."""

    def __init__(self, scene: _Scene, truth: Truth | None, ours: NDArray) -> None:
        self.scene, self.truth, self.embedding = scene, truth, ours
        self.fold = folds_of(np.zeros(len(scene.rows)), scene.folds)
        self.truth_fold = self.fold if truth is None else truth.folds(scene.folds)

    def ours(self, say: Say) -> table.Entry:
        say(methods.OURS)
        scene = self.scene

        def refit(views: dict[str, NDArray]) -> NDArray:
            return methods.ours(views, scene.settings, scene.seed, scene.segments)

        return self._entry(methods.OURS, self.embedding, *self._control(refit))

    def baseline(self, name: str, method: methods.Method) -> tuple[table.Entry, NDArray | None]:
        try:
            E = method(self.scene.views)
        except DlccaError as error:  # one method that cannot do with these views is no reason to lose the others
            return table.Entry(name, note=str(error)), None
        control, note = self._control(method)
        if E.shape[1] < self.embedding.shape[1]:
            note = f"{E.shape[1]} coordinates: the views have no more channels in common. {note}".rstrip()
        return self._entry(name, E, control, note), E

    def _control(self, method: methods.Method) -> tuple[NDArray | None, str]:
        """Coordinates of views of different moments, or why there are none."""
        if self.scene.control is None:
            return None, "one view cannot be shifted against another"
        try:
            return method(self.scene.control), ""
        except DlccaError as error:
            return None, f"no control: {error}"

    def _entry(self, name: str, E: NDArray, control: NDArray | None, note: str) -> table.Entry:
        seen = table.seen_by_every_view(E, list(self.scene.views.values()), self.fold)
        shown = None
        if control is not None and self.scene.control is not None:
            shown = table.seen_by_every_view(control, list(self.scene.control.values()), self.fold)
        tells, told = (None, None) if name == methods.OURS else table.agreement(self.embedding, E, self.fold)
        return table.Entry(
            method=name,
            score=self._score(E),
            control=None if control is None else self._score(control),
            seen=seen,
            seen_control=shown,
            gain=None if seen is None or shown is None else seen - shown,
            tells_ours=tells,
            told_by_ours=told,
            note=note,
        )

    def _score(self, E: NDArray) -> float | None:
        return None if self.truth is None else self.truth.score(E, self.truth_fold)


def _finished(asked: RunFile) -> tuple[Job, run.Run]:
    """The job and what it found; an error if it is not done, or was done with other settings than these."""
    if not run.is_finished(asked.store):
        raise DataError(f"there is no finished run at {asked.store}; first do dlcca run with the same run.toml.")
    clock = asked.ingested if asked.recordings else ""
    job, _ = runner.prepared(asked.store, asked.views, asked.settings, asked.seed, clock, asked.missing_chunks)
    found = run.read(asked.store)
    if found.fingerprint != fingerprint(job.inputs, job.settings.to_dict(), job.seed):
        raise StaleStage(
            f"{asked.store} was made of other views or with other settings than run.toml has now. Do dlcca run with "
            "this run.toml, with --from scan if the views have changed, or point [store] path at a new folder."
        )
    return job, found


def _taken(job: Job, most: int) -> Rows:
    """The rows that are compared."""
    if most < LEAST_ROWS:
        raise SettingsError(f"--rows {most}; at least {LEAST_ROWS} are needed to compare anything.")
    if most > DENSE_LIMIT:
        raise SettingsError(f"--rows {most}; baselines hold n x n matrices and take {DENSE_LIMIT} rows at most.")
    if job.n < LEAST_ROWS:
        raise DataError(f"the views have {job.n} rows; at least {LEAST_ROWS} are needed to compare anything.")
    timed = isinstance(job.options["neighborhoods"], str) and job.options["neighborhoods"] == "time"
    return chosen(job.n, most, WINDOWS_IN_A_STRETCH * int(job.options["window"]) if timed else 1)


def _scene(job: Job, asked: RunFile, rows: Rows, *, ordered: bool) -> _Scene:
    apart = shifted(rows, job.n, job.K) if ordered else shuffled(rows, job.K)
    names = [source.name for source in job.sources]
    views = {name: job.read(v, rows) for v, name in enumerate(names)}
    control = {name: job.read(v, apart[v]) for v, name in enumerate(names)} if job.K > 1 else None
    return _Scene(rows, views, control, unbroken(apart, job.segments), asked.settings, asked.seed, ordered)


def _fitted_truth(truth: Truth, job: Job, rows: Rows) -> Truth:
    """The truth of the rows that are compared, given for those of the views or for all windows of the recording."""
    if len(truth.values) == job.n_moments and job.moments is not None:
        truth = truth.at(job.moments.rows)
    if len(truth.values) != job.n:
        lengths = {job.n_moments: "windows", job.n: "valid windows"} if job.moments is not None else {job.n: "rows"}
        needed = " or ".join(f"{count} {noun}" for count, noun in lengths.items())
        raise DataError(f"--truth {truth.name} has {len(truth.values)} values; the run has {needed}, one for each.")
    truth = truth.at(rows)
    count = int(truth.known.sum())
    if count < LEAST_ROWS:
        raise DataError(f"--truth {truth.name} is known in {count} of the compared rows; {LEAST_ROWS} are needed.")
    if len(np.unique(truth.values[truth.known])) < 2:
        raise DataError(f"--truth {truth.name} has one value in all rows that are compared; there is nothing to tell.")
    return truth


def _facts(job: Job, scene: _Scene, known: Truth | None, q: int) -> dict[str, Any]:
    """How the comparison was made."""
    return {
        "rows": len(scene.rows),
        "of_rows": job.n,
        "coordinates": q,
        "neighbors": scores.NEIGHBORS,
        "truth": None if known is None else known.name,
        "truth_kind": None if known is None else known.kind,
        "score": None if known is None else SCORES[known.kind],
        "folds": scene.folds,
        "control": "shifted" if scene.ordered else "shuffled",
    }
