"""The report of a run: one HTML file with everything in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from dlcca.errors import StorageError
from dlcca.report import comparison, figures
from dlcca.report.figures import Panel
from dlcca.settings import OPTIONS
from dlcca.stores.comparison import Comparison
from dlcca.stores.run import Run

#: How a file is known for a report of ours, which may be replaced.
_MARK = '<meta name="generator" content="dlcca">'


def render(
    run: Run,
    *,
    title: str = "dlcca report",
    lead: str = "",
    known: Sequence[Panel] = (),
    marks: Mapping[str, float] | None = None,
    compared: Comparison | None = None,
) -> str:
    """The page as text.

    Parameters
    ----------
    title : of the window and above the headline
    lead : a sentence more below the headline
    known : panels that compare with what is known from elsewhere, shown first
    marks : known frequencies by name, marked in the spectra
    compared : what the baselines find in the same views
    """
    template = Path(__file__).with_name("template.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(title),
        kicker=f"{escape(title)} · {escape(_moment(run))}",
        headline=escape(headline(run)),
        warnings=_warnings(run),
        lead="\n".join(f'<p class="lead">{escape(text)}</p>' for text in (evidence(run), lead) if text),
        facts=_facts(run),
        known=_beside(run, known, compared),
        panels=_figures(figures.panels(run, marks)),
        settings=_rows(_settings(run)),
        provenance=_rows(_provenance(run)),
    )


def write(path: str | Path, page: str) -> None:
    """Write a page, all of it or nothing; a report that is there already is replaced, another file is refused."""
    path = Path(path)
    try:
        refuse_foreign(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            scratch.write_text(page, encoding="utf-8")
            os.replace(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from error


def refuse_foreign(path: Path) -> None:
    """An error if something is there that is not a report of ours."""
    if os.path.lexists(path) and not _is_report(path):
        raise StorageError(f"{path} exists and is not a dlcca report; give another path, or remove it.")


def headline(run: Run) -> str:
    """What was found, in one plain sentence."""
    K = len(run.views)
    if K == 1:
        return f"One view, in {_counted(run.embedding.shape[1], 'coordinate')} of its own"
    if not _decidable(run):
        return f"It cannot be told yet whether these {K} views share anything"
    if run.n_common == 0:
        return f"Nothing common was found in these {K} views"
    found = f"These {K} views share {_counted(run.n_common, 'variable')}"
    return f"{found}, but do not trust this yet" if run.warnings else found


def evidence(run: Run) -> str:
    """The numbers behind the headline, in one sentence."""
    top, edge, share = (run.quality.get(name) for name in ("top_correlation", "null_edge", "landmarks_above_edge"))
    if len(run.views) == 1 or top is None or edge is None or share is None:
        return ""
    if not _decidable(run):
        return (
            f"The neighborhoods are so small that independent views would reach a correlation of {edge:.2f} by "
            f"chance; these reach {top:.2f} at the typical landmark. Widen window or n_neighbors to be sure."
        )
    return (
        f"At {100 * share:.0f} % of {len(run.landmarks)} landmarks the views move together more closely than "
        f"independent views would by chance: the correlation is {top:.2f} at the typical landmark, and chance "
        f"reaches {edge:.2f}."
    )


def _decidable(run: Run) -> bool:
    """Whether neighborhoods are large enough to tell common from chance; runs that do not say are taken to be."""
    return bool(run.quality.get("decidable", True))


def _warnings(run: Run) -> str:
    if not run.warnings:
        return ""
    reasons = "\n".join(f"<p>{escape(reason[:1].upper() + reason[1:])}</p>" for reason in run.warnings)
    return f'<div class="warning" role="alert">\n<strong>Do not trust this result.</strong>\n{reasons}\n</div>'


def _beside(run: Run, known: Sequence[Panel], compared: Comparison | None) -> str:
    """What the run is held against: what is known from elsewhere, and other methods."""
    first = f'<h2>Against what is known</h2>\n<div class="panels">\n{_figures(known)}\n</div>' if known else ""
    return first if compared is None else first + comparison.section(compared, run.time[compared.rows])


def _facts(run: Run) -> str:
    n, q = run.embedding.shape
    span = f"{run.time[-1] - run.time[0]:.4g} s" if run.time_unit == "s" and n > 1 else ""
    channels = ", ".join(f"{name}: {_counted(d, 'channel')}" for name, d in run.views.items())
    boxes = [
        ("views", str(len(run.views)), channels),
        ("samples", f"{n:,}".replace(",", "\u202f"), span),
        ("dimensions" if len(run.views) == 1 else "common dimensions", str(run.n_common), "at the typical landmark"),
        ("coordinates", str(q), "eigenvalues " + ", ".join(f"{value:.2f}" for value in run.eigenvalues[:4])),
        ("landmarks", f"{len(run.landmarks):,}".replace(",", "\u202f"), ""),
    ]
    return "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in boxes
    )


def _figures(panels: Iterable[Panel]) -> str:
    return "\n".join(
        f'<figure class="{"wide" if panel.wide else "narrow"}">\n<h3>{escape(panel.title)}</h3>\n{panel.picture}\n'
        f"<figcaption>{escape(panel.caption)}</figcaption>\n</figure>"
        for panel in panels
    )


def _settings(run: Run) -> Iterable[tuple[str, str, str]]:
    """Every option with its value, and the reason if the program chose it."""
    reasons = {}
    for line in run.choices:  # "landmarks = 400: every sample"
        option, _, rest = line.partition(" = ")
        reasons[option] = rest.partition(": ")[2]
    for option, (section, key) in OPTIONS.items():
        value = run.settings.get(section, {}).get(key, "")
        why = f"chosen: {reasons[option]}" if option in reasons else "as set"
        yield f"<code>{escape(option)}</code>", f"<code>{escape(str(value))}</code>", escape(why)


def _provenance(run: Run) -> Iterable[tuple[str, str]]:
    yield "made", escape(_moment(run))
    yield "fingerprint of inputs and settings", f'<code class="long">{escape(run.fingerprint)}</code>'
    yield "versions", escape(", ".join(f"{name} {number}" for name, number in run.versions.items()))
    for name, value in run.quality.items():
        yield escape(name.replace("_", " ")), escape(_shown(value))


def _moment(run: Run) -> str:
    return run.created.replace("T", " ").replace("+00:00", " UTC")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _is_report(path: Path) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return _MARK in file.read(2000)
    except (OSError, UnicodeDecodeError):
        return False
