"""The report of a result: one HTML file with everything in it."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from dlcca.errors import StorageError
from dlcca.report import comparison, explorer, overview, panels, provenance, sentences
from dlcca.report.figures import Panel, data_block
from dlcca.report.overview import Overview
from dlcca.report.words import counted, number
from dlcca.storage import places
from dlcca.storage.comparison import Comparison
from dlcca.storage.run import Run

#: How a file is known for a report of ours, which may be replaced.
_MARK = '<meta name="generator" content="dlcca">'


def render(
    found: Run | Overview,
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
    found : a run in memory, or the overview of one that was read some rows at a time
    title : of the window and above the headline
    lead : a sentence more below the headline
    known : panels that compare with what is known from elsewhere, shown first
    marks : known frequencies by name, marked in the spectra
    compared : what the baselines find in the same views; an overview has to have picked its rows
    """
    if isinstance(found, Run):
        found = overview.of_run(found, also=() if compared is None else compared.rows)
    script = explorer.script()
    folder = Path(__file__).parent
    leads = (sentences.explained(found), sentences.evidence(found), lead)
    return Template((folder / "template.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        policy=f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src '{_digest(script)}'",
        style=(folder / "style.css").read_text(encoding="utf-8"),
        kicker=f"{escape(title)} · {escape(provenance.moment(found))}",
        headline=escape(sentences.headline(found)),
        warnings=_warnings(found),
        lead="\n".join(f'<p class="lead">{escape(text)}</p>' for text in leads if text),
        notes=_notes(found),
        facts=_facts(found),
        known=_known(known),
        explorer=explorer.section(found),
        panels=_figures(panels.panels(found, marks)),
        compared=_compared(found, compared),
        provenance=provenance.sections(found),
        moments=data_block(explorer.moments(found), "moments"),
        script=script,
    )


def write(path: str | Path, page: str) -> None:
    """Write a page, all of it or nothing; a report that is there already is replaced, another file is refused."""
    path = Path(path)
    try:
        refuse_foreign(path)
        path = Path(os.path.realpath(path))  # a link stays, and what it points to is replaced
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


def refuse_foreign(path: Path, inputs: Iterable[str | Path] = ()) -> None:
    """An error if a report cannot be written there: something is there that is not a report of ours, or an input."""
    places.refuse_file(path, _is_report, "a dlcca report", inputs=inputs)


def headline(found: Run | Overview) -> str:
    """What was found, in one plain sentence, without its full stop."""
    return sentences.headline(overview.of_run(found) if isinstance(found, Run) else found)


def _digest(script: str) -> str:
    """By which a browser knows the one script that may run: nothing in the names of channels can add another."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _warnings(found: Overview) -> str:
    if not found.warnings:
        return ""
    reasons = "\n".join(f"<p>{escape(reason[:1].upper() + reason[1:])}</p>" for reason in found.warnings)
    return f'<div class="warning" role="alert">\n<strong>Do not trust this result.</strong>\n{reasons}\n</div>'


def _notes(found: Overview) -> str:
    """What does not spoil the result, but should be known."""
    notes = found.quality.get("notes") or []
    if not notes:
        return ""
    items = "\n".join(f"<li>{escape(note[:1].upper() + note[1:])}</li>" for note in notes)
    return f'<div class="notes">\n<strong>Good to know</strong>\n<ul>\n{items}\n</ul>\n</div>'


def _known(made: Sequence[Panel]) -> str:
    """What the result is held against that is known from elsewhere."""
    return f'<h2>Against what is known</h2>\n<div class="panels">\n{_figures(made)}\n</div>' if made else ""


def _compared(found: Overview, compared: Comparison | None) -> str:
    """Other methods beside ours."""
    if compared is None:
        return ""
    sample = found.rows.sample
    return comparison.section(compared, sample.time[sample.at(compared.rows)])


def _facts(found: Overview) -> str:
    channels = ", ".join(f"{name}: {counted(d, 'channel')}" for name, d in found.views.items())
    spectrum = ", ".join(f"{value:.2f}" for value in found.eigenvalues[:4])
    common = (str(found.n_common), "at the typical landmark") if len(found.views) > 1 else ("not tested", "one view")
    left_out = int(found.rows.stretches.reasons[:, 1:].sum())
    about = [found.moments.duration(), f"{number(left_out)} left out" if left_out else ""]
    boxes = [
        ("views", str(len(found.views)), channels),
        ("rows", number(found.n), ", ".join(text for text in about if text)),
        ("common dimensions", *common),
        ("coordinates", str(found.q), f"eigenvalues {spectrum}" if spectrum else ""),
        ("landmarks", number(len(found.landmarks)), ""),
    ]
    return "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in boxes
    )


def _figures(made: Iterable[Panel]) -> str:
    return "\n".join(
        f'<figure class="{"wide" if panel.wide else "narrow"}{" still" if panel.still else ""}">\n'
        f'<h3>{escape(panel.title)}</h3>\n<div class="{"scroll" if panel.wide else "fit"}">\n{panel.picture}\n</div>\n'
        f"<figcaption>{escape(panel.caption)}</figcaption>\n</figure>"
        for panel in made
    )


def _is_report(path: Path) -> bool:
    return _MARK.encode() in places.starts_with(path, 4000)
