"""Local CCA and the baselines on the same rows of a finished run: scored, each beside a control, and written."""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca import baselines
from dlcca.baselines.interface import DENSE_LIMIT
from dlcca.compare.truth import SCORES, Truth, folds_of
from dlcca.engine.stage import fingerprint
from dlcca.errors import DataError, DlccaError, SettingsError, StaleStage, Untrusted
from dlcca.fitting import runner
from dlcca.fitting.in_memory import Fit, fit_views
from dlcca.fitting.job import Job
from dlcca.numerics.windows import chosen, unbroken
from dlcca.report import comparison as shown
from dlcca.report import overview, page
from dlcca.settings.runfile import RunFile
from dlcca.storage import comparison, places, run
from dlcca.storage.comparison import Comparison
from dlcca.storage.files import atomic_file
from dlcca.storage.formats import plain
from dlcca.trust import scores
from dlcca.views import check_varies, checked

#: Rows that are compared by default: kernel CCA takes half a minute for so many, and 1.2 GB.
ROWS = 5000
LEAST_ROWS = 50
#: With windows of time, rows are taken in stretches of so many windows.
WINDOWS_IN_A_STRETCH = 4
#: Files in the folder of the results.
PAGE, TABLE = "compare.html", "compare.json"
#: The name of the method itself in tables and figures.
LOCAL_CCA = "local CCA"
#: With fewer rows than this for each channel, canonical correlations without a ridge are mostly chance.
ROWS_PER_CHANNEL = 10
RIDGE = 0.03

Rows = NDArray[np.int64]
Say = Callable[[str], None]
#: The scores of one method, by the keys of `dlcca.report.comparison.COLUMNS`; None where there is none.
Entry = dict[str, Any]
#: From views by name to a result with coordinates, ``embedding`` (n, q).
Method = Callable[[dict[str, NDArray]], Any]


def compare(
    requested: RunFile,
    *,
    rows: int = ROWS,
    truth: Truth | None = None,
    folds: str = "auto",
    say: Say = lambda text: None,
) -> Comparison:
    """Run the baselines on the views of a finished run, score all methods, and keep the comparison in the run.

    Parameters
    ----------
    requested : the run file of the run
    rows : the most rows that are compared
    truth : a known variable, if any: a value for each window of the recording, or for each valid one
    folds : "blocked" if the order of the rows means something, "random" if not, or "auto": "random" if the truth is
        labels and one of them occurs in one stretch only, so that the rows seem to be sorted
    say : called with the name of the method that runs
    """
    job, found = _finished(requested)
    moments = np.arange(job.n) if job.moments is None else job.moments.rows
    taken = _rows_to_compare(job, rows)
    truth = None if truth is None else _truth_of_rows(truth, job, taken)
    unordered = folds == "random" or (folds == "auto" and truth is not None and truth.is_sorted)
    embedding = found.embedding[moments[taken]]
    scorer = _Scorer(job, taken, embedding, truth, ordered=not unordered)
    table, coordinates = [], []
    own: tuple[str, Method] = LOCAL_CCA, partial(_refit, requested, scorer.segments)
    for name, method in (own, *baseline_methods(job, len(taken), embedding.shape[1])):
        say(name)
        entry, E = scorer.scored(name, method)
        table.append(entry)
        coordinates.append(E)
    facts: dict[str, Any] = {"rows": len(taken), "of_rows": job.n, "truth": None, "truth_kind": None, "score": None}
    facts |= {} if truth is None else {"truth": truth.name, "truth_kind": truth.kind, "score": SCORES[truth.kind]}
    facts |= {"folds": scorer.folds, "control": "shuffled" if unordered else "shifted"}
    facts |= {"coordinates": embedding.shape[1], "neighbors": scores.NEIGHBORS}
    known = None if truth is None else truth.numbers
    made = Comparison(found.fingerprint, moments[taken], table, coordinates, facts, known)
    comparison.write(requested.store, made)
    return made


def baseline_methods(job: Job, n: int, q: int) -> Iterator[tuple[str, Method]]:
    """Every baseline that applies to the views of a job, with q coordinates or as many as it has, for n rows."""
    for source in job.sources:
        yield f"diffusion maps of {source.name}", partial(baselines.diffusion_maps, n_components=q, view=source.name)
    if job.K == 1:
        return
    # Without names, because a view may be named "all".
    yield "diffusion maps of all views", lambda views: baselines.diffusion_maps(list(views.values()), q, view="all")
    yield "kernel CCA", partial(baselines.kernel_cca, n_components=q)
    yield "alternating diffusion", partial(baselines.alternating_diffusion, n_components=q)
    few = n < ROWS_PER_CHANNEL * sum(job.dims)
    most = min(q, sorted(job.dims)[-2])  # a variate needs a direction in two views
    name, ridge = (f"linear CCA (ridge {RIDGE})", RIDGE) if few else ("linear CCA", 0.0)
    yield name, partial(baselines.linear_cca, n_components=most, ridge=ridge)


def shifted(rows: Rows, n: int, views: int) -> list[Rows]:
    """The rows of each view in the control: view v is n v / K rows ahead, so that no two are of one moment.

    Of two views, the second is shifted by half the recording, circularly.
    """
    return [(rows + v * n // views) % n for v in range(views)]


def shuffled(rows: Rows, views: int) -> list[Rows]:
    """The rows of each view in the control where their order means nothing: the first as it is, others at random.

    Sorted rows, as by a label, would be aligned again after a shift: one label always with the same other one.
    """
    rng = np.random.default_rng(0)
    return [rows, *(rng.permutation(rows) for _ in range(views - 1))]


class _Scorer:
    """Scores coordinates of the compared rows, beside a control: the same views, misaligned."""

    def __init__(self, job: Job, rows: Rows, embedding: NDArray, truth: Truth | None, *, ordered: bool) -> None:
        apart = shifted(rows, job.n, job.K) if ordered else shuffled(rows, job.K)
        self.views = {source.name: job.read(v, rows) for v, source in enumerate(job.sources)}
        self.control = {source.name: job.read(v, apart[v]) for v, source in enumerate(job.sources)}
        self.segments = unbroken(apart, job.segments)  # of the control
        self.truth, self.embedding = truth, embedding
        self.folds = "blocked" if ordered else "random"
        self.fold = folds_of(np.zeros(len(rows)), self.folds)
        self.truth_fold = self.fold if truth is None else truth.folds(self.folds)
        # Neighbours in each view, aligned and not.
        self.near, self.near_control = (
            [scores.held_out_neighbors(X, self.fold, scores.NEIGHBORS) for X in views.values()]
            for views in (self.views, self.control)
        )

    def scored(self, name: str, method: Method) -> tuple[Entry, NDArray | None]:
        """The scores and the coordinates of a method; those of local CCA are of the run itself."""
        entry: Entry = {"method": name, **dict.fromkeys(key for key, _, _ in shown.COLUMNS), "note": ""}
        try:
            E = self.embedding if name == LOCAL_CCA else method(self.views).embedding
        except DlccaError as error:  # a method that cannot handle these views must not prevent the others
            return {**entry, "note": str(error)}, None
        control = None
        try:
            if len(self.views) > 1:
                control = method(self.control).embedding
            else:
                entry["note"] = "one view cannot be shifted against another"
        except DlccaError as error:
            entry["note"] = f"no control: {error}"
        if E.shape[1] < self.embedding.shape[1]:
            few = f"{E.shape[1]} coordinates: the views have no more channels in common."
            entry["note"] = f"{few} {entry['note']}".rstrip()
        for Z, near, score, end in ((E, self.near, "score", ""), (control, self.near_control, "control", "_control")):
            if Z is not None and self.truth is not None:
                entry[score] = self.truth.score(Z, self.truth_fold)
            if Z is not None:
                entry[f"min_view_r2{end}"], entry[f"shared_bits{end}"] = _of_views(Z, near)
        if control is not None:
            entry["gain"] = entry["min_view_r2"] - entry["min_view_r2_control"]
        if name != LOCAL_CCA:
            Z, Y = map(scores.at_unit_variance, (E, self.embedding))
            entry["r2_to_local_cca"] = max(0.0, scores.variable_score(Z, Y, self.fold))
            entry["r2_from_local_cca"] = max(0.0, scores.variable_score(Y, Z, self.fold))
        return entry, E


def _refit(requested: RunFile, segments: NDArray | None, views: dict[str, NDArray]) -> Fit:
    """A fit with the settings of a run, as far as they suit so few rows.

    There are no more landmarks or neighbours than rows, and no row numbers of the recording.
    """
    given, options = checked(views), requested.settings.options()
    check_varies(given)
    changed: dict[str, Any] = {
        name: "auto" if np.ndim(options[name]) else min(options[name], given.n)  # of neighbor_rows, at most n are used
        for name in ("n_neighbors", "landmarks")
        if not isinstance(options[name], str)
    }
    if np.ndim(options["neighborhoods"]):
        changed["neighborhoods"] = "knn"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Untrusted)  # expected of the control
        return fit_views(given, requested.settings.with_options(**changed), requested.seed, segments=segments)


def _of_views(E: NDArray, near: list[Rows]) -> tuple[float | None, float | None]:
    """R² of coordinates (n, q) predicted from the view with the lowest R², and `shared_bits`; None for a single view.

    What is common can be predicted from each view, what is private from one only.
    """
    if len(near) < 2:
        return None, None
    Z = scores.at_unit_variance(E)
    missed = max(((Z - Z[rows].mean(axis=1)) ** 2).sum() for rows in near)
    total = (Z**2).sum()
    return max(0.0, float(1 - missed / total)) if total else 0.0, shared_bits(E, near)


def shared_bits(E: NDArray, near: list[Rows]) -> float:
    r"""Information on coordinates E (n, q) that every view has, in bits per row: a lower bound if they are Gaussian.

    :math:`-\frac12 \sum_j \log_2 (1 - R_j^2)` over uncorrelated coordinates (principal components of E), with
    :math:`R_j^2` of component j predicted from the view that predicts it worst, by the mean over the rows of other
    folds that are ``near`` (n, k) in this view.
    """
    U, s, _ = np.linalg.svd(scores.at_unit_variance(E), full_matrices=False)
    r2 = scores.min_view_r2(U[:, s > 1e-9 * s.max()], near)
    return float(-0.5 * np.log2(np.maximum(1 - r2, np.finfo(float).eps)).sum()) + 0.0


def _finished(requested: RunFile) -> tuple[Job, run.Run]:
    """The job and what it found; an error if it is not done, or was done with other settings than these."""
    if not run.is_finished(requested.store):
        raise DataError(f"there is no finished run at {requested.store}; first do dlcca run with the same run.toml.")
    job, _ = runner.prepared_run(requested)
    found = run.read(requested.store)
    if found.fingerprint != fingerprint(job.inputs, job.settings.to_dict(), job.seed):
        raise StaleStage(
            f"{requested.store} was made of other views or with other settings than run.toml has now. Do dlcca run "
            "with this run.toml, with --from scan if the views have changed, or point [store] path at a new folder."
        )
    return job, found


def _rows_to_compare(job: Job, most: int) -> Rows:
    """The rows that are compared: spread over the recording, and few enough for n x n matrices."""
    if most < LEAST_ROWS:
        raise SettingsError(f"--rows {most}; at least {LEAST_ROWS} are needed to compare anything.")
    if most > DENSE_LIMIT:
        raise SettingsError(f"--rows {most}; baselines hold n x n matrices and take {DENSE_LIMIT} rows at most.")
    if job.n < LEAST_ROWS:
        raise DataError(f"the views have {job.n} rows; at least {LEAST_ROWS} are needed to compare anything.")
    timed = isinstance(job.options["neighborhoods"], str) and job.options["neighborhoods"] == "time"
    return chosen(job.n, most, WINDOWS_IN_A_STRETCH * int(job.options["window"]) if timed else 1)


def _truth_of_rows(truth: Truth, job: Job, rows: Rows) -> Truth:
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
        raise DataError(f"--truth {truth.name} has one value in all compared rows; there is nothing to predict.")
    return truth


# The results: a page, a JSON document, and a table for the terminal.


def refuse_occupied(out: Path, inputs: Iterable[str | Path] = ()) -> None:
    """An error, before anything is computed, if the results cannot be written there."""

    def is_table(path: Path) -> bool:
        try:
            return all("method" in entry for entry in json.loads(path.read_bytes())["methods"])
        except (OSError, ValueError, KeyError, TypeError):
            return False

    places.refuse_folder(out)
    page.refuse_foreign(out / PAGE, inputs)
    places.refuse_file(out / TABLE, is_table, "a table written by dlcca compare", inputs=inputs)


def write(out: Path, store: str, made: Comparison) -> None:
    """The report of the run with the comparison in it, and the table as a document."""
    found = overview.of_store(store, also=made.rows)
    name = f"dlcca comparison of {Path(store).name}"
    page.write(out / PAGE, page.render(found, title=name, compared=made))
    with atomic_file(out / TABLE) as temporary:
        temporary.write_text(json.dumps(document(made), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def document(made: Comparison) -> dict[str, Any]:
    """The comparison for machines."""
    return plain({**made.facts, "methods": made.table})


def lines(made: Comparison) -> list[str]:
    """The comparison for a terminal."""
    columns = shown.columns(made)
    wide = max(len(entry["method"]) for entry in made.table) + 2
    rows = [("", [heading for _, heading, _ in columns])]
    rows += [(entry["method"], [shown.cell(entry[key]) for key, _, _ in columns]) for entry in made.table]
    widths = [max(10, len(heading) + 2) for _, heading, _ in columns]
    found = [name.ljust(wide) + "".join(map(str.rjust, cells, widths)) for name, cells in rows]
    found += [f"  {entry['method']}: {entry['note']}" for entry in made.table if entry["note"]]
    return [*found, *(f"  {heading:<18} {why}" for _, heading, why in columns), shown.description(made.facts)]
