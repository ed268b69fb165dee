"""`dlcca.tune`: window or neighbours, ridge, bandwidth, links and fusion chosen by a criterion that needs no truth.

Options are tried one after the other; `tuning_trials` computes the criterion of a choice of them. `tune_run` and
`with_options` are for a ``run.toml``.
"""

import json
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SettingsError
from dlcca.fitting import runner
from dlcca.fitting.in_memory import settle
from dlcca.inspection.tuning_trials import Options, StateTrials, TimeTrials, Trials
from dlcca.numerics.windows import chosen as some_rows
from dlcca.numerics.windows import unbroken
from dlcca.settings.auto import matched_rows
from dlcca.settings.fit import OPTIONS, Settings
from dlcca.settings.runfile import RunFile
from dlcca.trust.lags import paired, settled_lags
from dlcca.views import Views, check_varies, checked, named

#: Rows that are read, at most: nearest neighbours are searched among all of them.
MOST_ROWS = 20_000
#: Rows of a stretch, where not all are read: of nearest neighbours, and of windows of time.
STRETCH, WINDOWED_STRETCH = 10, 2000
#: The fewest rows that can be halved.
FEWEST_ROWS = 64

#: What is tried besides what the user began with. The first is the default; of fusions, the one that "auto" becomes.
STATE = {
    "fusion": ("alternating", "average"),
    "n_neighbors": (64, 24, 160),
    "ridge": (0.03, 0.003, 0.2),
    "n_links": (32, 16, 64),
    "bandwidth": ("quantile", "median", "slope"),
}
TIME = {
    "ridge": (0.03, 0.1, 0.2),
    "fusion": ("auto",),
    "n_links": (32, 64),
    "bandwidth": ("quantile", "median"),
}
#: How much more than a default another value has to be worth: what halves of so many rows differ by, by chance. It
#: falls with the root of the rows.
STATE_MARGIN, TIME_MARGIN = 0.02, 0.1
MARGIN_ROWS = 2000
#: Alternating kernels are sparse, and the few landmarks of a trial hold them together less well than the others.
FUSION_MARGIN = 0.05


@dataclass(frozen=True)
class Curve:
    """One option: what was tried, what each was worth, and what was taken."""

    option: str
    candidates: tuple[Any, ...]
    criterion: tuple[float, ...]
    chosen: Any
    reason: str

    def lines(self) -> list[str]:
        """A line for each candidate, the chosen one marked."""
        return [
            f"  {self.option:<12} {value!s:<12} {worth:8.3f}{'  <- chosen' * (value == self.chosen)}"
            for value, worth in zip(self.candidates, self.criterion, strict=True)
        ]


@dataclass(frozen=True)
class Tuned:
    """Options that were chosen without any truth, as `dlcca.tune` finds them."""

    options: dict[str, Any]  # for LocalCCA(**options)
    curves: dict[str, Curve]  # by option
    rule: str  # the criterion, in words
    by_chance: float  # what views that share nothing reach with the chosen options
    rows: int  # that were read
    of_rows: int
    trials: int  # pairs of fits to halves
    cost: float  # about, in fits of the size that is tuned for

    @property
    def settings(self) -> Settings:
        return Settings.from_options(**self.options)

    def __str__(self) -> str:
        curves = self.curves.values()
        lines = [f"Options were tried on {self.rows} of {self.of_rows} rows, which cost about {self.cost:.1f} fits."]
        lines += [f"The criterion: {self.rule}", *(line for curve in curves for line in curve.lines())]
        return "\n".join([*lines, *(f"{curve.option} = {curve.chosen!r}: {curve.reason}" for curve in curves)])

    def plot(self, option: str, ax: Any = None) -> Any:
        """The curve of one option on matplotlib axes, which are returned."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        curve = self.curves[option]
        labels, at = [str(value) for value in curve.candidates], curve.candidates.index(curve.chosen)
        ax.plot(labels, curve.criterion, "o-", color="0.4")
        ax.plot(labels[at : at + 1], curve.criterion[at : at + 1], "o", color="C3", label="chosen")
        ax.set(xlabel=option, ylabel="criterion")
        ax.legend()
        return ax


def tune(views: Any, *, start: Any = None, random_state: Any = 0) -> Tuned:
    """Options that suit the views, chosen without any truth.

    The kind of neighborhoods is kept, because it says what "common" means, and so is every option that is not tuned.
    One option after the other is tried, by fits with few landmarks to halves of the rows: the defaults, what ``start``
    has, and values around them. A default is replaced only by what is clearly better. The cost is about two to five
    fits.

    Parameters
    ----------
    views : as for `LocalCCA.fit`; of arrays on disk, and of more than 20 000 rows, stretches spread over them are read
    start : a `LocalCCA`, `Settings` or a dict of options to begin with; the defaults if not given
    random_state : seed of the halves

    Returns
    -------
    Tuned, with ``options`` for ``LocalCCA(**options)``, ``settings``, ``curves``, ``cost`` and `Tuned.plot`
    """
    if hasattr(start, "get_params"):
        start = {name: value for name, value in start.get_params().items() if name in OPTIONS}
    settings = start if isinstance(start, Settings) else Settings.from_options(**(start or {}))
    in_step = isinstance(views, Views)
    given: dict[str, Any] = dict(zip(views.names, views.arrays, strict=True)) if in_step else named(views)
    n = min((np.shape(X)[0] for X in given.values()), default=0)
    rows = rows_to_read(n, settings)
    if len(rows) < n:  # else all are given, because views of different lengths are refused
        # Zarr, tables, others.
        given = {name: np.asarray(getattr(X, "oindex", getattr(X, "iloc", X))[rows]) for name, X in given.items()}
    return tune_sample(given, unbroken([rows], getattr(views, "segments", None)), n, settings, random_state)


def tune_sample(views: Any, segments: NDArray[np.int64], n: int, start: Settings, random_state: Any = 0) -> Tuned:
    """The same from some of n rows, read before; ``segments`` number the unbroken stretches that they are of."""
    began = time.process_time()
    sample = checked(views)
    if start.neighborhoods.lags is not None:
        sample, _, segments = paired(sample, settled_lags(sample, start).rows, segments)  # type: ignore[assignment]
    check_varies(sample)
    if len(sample.present) < 2:
        raise DataError("one view has nothing in common with another: tune needs two views or more.")
    if sample.n < FEWEST_ROWS:
        raise DataError(f"{sample.n} samples cannot be halved; tune needs at least {FEWEST_ROWS}.")
    rng = np.random.default_rng(random_state)
    search = _search_by_state if start.neighborhoods.kind == "knn" else _search_in_time
    trials, curves = search(sample, start, n, segments, rng)
    chosen = {name: curve.chosen for name, curve in curves.items()}
    by_chance, seconds = trials.by_chance(chosen), time.process_time() - began
    kept = {name: value for name, value in start.options().items() if name not in ("window", "n_neighbors")}
    options, cost = {**kept, **chosen, **_matched(trials, chosen, n)}, seconds / trials.fit_seconds(chosen)
    return Tuned(options, curves, trials.RULE, by_chance, sample.n, n, trials.count, cost)


def rows_to_read(n: int, settings: Settings) -> NDArray[np.int64]:
    """All of n rows, or stretches spread over them; an error if neighborhoods were given as rows."""
    if not isinstance(settings.neighborhoods.kind, str):
        raise SettingsError("neighborhoods were given as row numbers; tune is for neighborhoods='time' or 'knn'.")
    return some_rows(n, MOST_ROWS, WINDOWED_STRETCH if settings.neighborhoods.kind == "time" else STRETCH)


def _matched(trials: Trials, chosen: dict[str, Any], n: int) -> dict[str, Any]:
    """Rows among which the chosen number of neighbours is searched, so that they match the reach of the kernel."""
    if "n_neighbors" not in chosen or trials.settings.neighborhoods.neighbor_rows != "auto":
        return {}
    settled = trials.settled(chosen)
    rows = matched_rows(int(chosen["n_neighbors"]), trials.n_landmarks(settled), int(settled.kernel.n_links))
    return {"neighbor_rows": rows if rows < n else "all"}


def _search_by_state(
    views: Views, start: Settings, n: int, _segments: NDArray, rng: np.random.Generator
) -> tuple[StateTrials | TimeTrials, dict[str, Curve]]:
    first = {name: values[0] for name, values in STATE.items()} | {"window": 8, "fusion": "auto"}
    default = settle(start.with_options(**first), views.present).settings.kernel.fusion
    fusions = (default, *(fusion for fusion in STATE["fusion"] if fusion != default))
    tried = _candidates({**STATE, "fusion": fusions}, start)
    usual, *others = tried["n_neighbors"]
    tried["n_neighbors"] = (min(usual, views.n // 2), *(k for k in others if k <= views.n // 4))
    trials = StateTrials(views, start.with_options(window=8), n, max(tried["n_neighbors"]), rng)
    margins = dict.fromkeys(tried, margin_of(STATE_MARGIN, views.n)) | {"fusion": margin_of(FUSION_MARGIN, views.n)}
    return trials, descent(tried, trials.criterion, margins)


def _search_in_time(
    views: Views, start: Settings, n: int, segments: NDArray, rng: np.random.Generator
) -> tuple[StateTrials | TimeTrials, dict[str, Curve]]:
    usual = start.with_options(window="auto", **{name: values[0] for name, values in TIME.items()})
    choices = settle(usual, views.present, segments)
    window, why = int(choices.settings.neighborhoods.window), choices.reasons["window"]
    tried = _candidates(TIME, start)
    trials = TimeTrials(views, start.with_options(window=window), n, segments, rng)
    if trials.settled({name: values[0] for name, values in tried.items()}).kernel.kind == "dense":
        tried["n_links"] = tried["n_links"][:1]
    curves = descent(tried, trials.criterion, dict.fromkeys(tried, margin_of(TIME_MARGIN, views.n)))
    return trials, {"window": Curve("window", (window,), (max(curves["ridge"].criterion),), window, why), **curves}


def margin_of(margin: float, n: int) -> float:
    """The margin for n rows."""
    return margin * max(1.0, (MARGIN_ROWS / n) ** 0.5)


def _candidates(usual: Mapping[str, tuple[Any, ...]], start: Settings) -> dict[str, tuple[Any, ...]]:
    """The default of every option first, then others, and what the user began with."""
    begun = start.options()
    added = {name: () if begun[name] in (*values, "auto") else (begun[name],) for name, values in usual.items()}
    return {name: (*values, *added[name]) for name, values in usual.items()}


def descent(
    tried: Mapping[str, tuple[Any, ...]], criterion: Callable[[Options], float], margins: Mapping[str, float]
) -> dict[str, Curve]:
    """The curve of each option, one after the other; the rest are as chosen before, or at their defaults."""
    best, curves = {name: values[0] for name, values in tried.items()}, {}
    worth = cache(lambda *values: criterion(dict(zip(tried, values, strict=True))))
    for name, values in tried.items():
        found = [worth(*{**best, name: value}.values()) for value in values]
        curves[name] = _chosen(name, values, found, margins[name])
        best[name] = curves[name].chosen
    return curves


def _chosen(name: str, values: tuple[Any, ...], worth: list[float], margin: float) -> Curve:
    """The best, or the default (the first) if that is as good but for the margin."""
    at = int(np.argmax(worth))
    if len(values) == 1:
        reason = "the default; nothing else was tried"
    elif at == 0:
        reason = "the default, and the best of these"
    elif worth[at] - worth[0] <= margin:
        at, reason = 0, f"the default: {values[at]!r} is not better by more than {margin:.2g}"
    else:
        reason = f"better than the default {values[0]!r} by {worth[at] - worth[0]:.3f}"
    return Curve(name, values, tuple(worth), values[at], reason)


def tune_run(requested: RunFile) -> Tuned:
    """Options for the views of a run file, of which some rows are read."""
    rows_of = Settings.from_options(neighborhoods=requested.settings.neighborhoods.kind)
    job, _ = runner.prepared_run(requested, rows_of)
    rows = rows_to_read(job.n, requested.settings)
    views = {source.name: job.read(v, rows) for v, source in enumerate(job.sources)}
    return tune_sample(views, unbroken([rows], job.segments), job.n, requested.settings, requested.seed)


def with_options(text: str, options: Mapping[str, Any], store: str | None = None) -> str:
    """The text of a run file with some options changed, and the store; all else, comments too, as it was."""
    entries = [(*OPTIONS[name], value) for name, value in options.items()]
    if store is not None:
        entries.append(("store", "path", store))
    made, wanted, changes = text, tomllib.loads(text), []
    for section, key, value in entries:
        wanted.setdefault(section, {})[key] = value
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        made = _with_line(made, section, line)
        changes.append(f"[{section}] {line}")
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(made) == wanted:
            return made
    # A section that is written in one line, for example.
    said = ", ".join(changes)
    raise SettingsError(f"the settings of this run file cannot be changed line by line; write into it {said}.")


def _with_line(text: str, section: str, line: str) -> str:
    """The text with a line ``key = value`` in a section: in place of that of its key, or as its first."""
    head = re.search(rf"^[ \t]*\[[ \t]*{section}[ \t]*\][^\n]*(?:\n|\Z)", text, re.MULTILINE)
    if head is None:
        return f"{text.rstrip()}\n\n[{section}]\n{line}\n"
    following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, head.end())
    end = following.start() if following else len(text)
    body, key = text[head.end() : end], line.split(" = ", maxsplit=1)[0]
    known = re.compile(
        rf"^[ \t]*{key}[ \t]*=[ \t]*(?:\"[^\"\n]*\"|'[^'\n]*'|[^#\n]*?)(?=[ \t]*(?:#[^\n]*)?$)", re.MULTILINE
    )
    body = known.sub(lambda _: line, body, count=1) if known.search(body) else f"{line}\n{body}"
    before = text[: head.end()]
    return f"{before}{'' if before.endswith(chr(10)) else chr(10)}{body}{text[end:]}"
