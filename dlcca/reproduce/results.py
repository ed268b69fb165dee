"""The output of the experiments: a table of results against expectations, and a page with the figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

from dlcca import __version__
from dlcca.errors import StorageError
from dlcca.storage import places

HEADINGS = ("figure", "expected", "got", "met")


@dataclass(frozen=True)
class Row:
    """One result of the paper's experiments, and what is expected of it."""

    figure: str
    expected: str
    got: str
    met: bool | None  # None where a result is only reported

    @property
    def cells(self) -> tuple[str, ...]:
        """Under the `HEADINGS` of a table."""
        return self.figure, self.expected, self.got, {True: "yes", False: "NO", None: "–"}[self.met]


def at_least(figure: str, value: float, bound: float) -> Row:
    return Row(figure, f"≥ {bound:g}", f"{value:.3f}", value >= bound)


def at_most(figure: str, value: float, bound: float) -> Row:
    return Row(figure, f"≤ {bound:g}", f"{value:.3f}", value <= bound)


def reported(figure: str, got: str) -> Row:
    return Row(figure, "reported", got, None)


@dataclass(frozen=True)
class Plate:
    """A figure in the output folder, and what it shows."""

    file: str
    caption: str


@dataclass(frozen=True)
class Section:
    """One experiment of the paper: its results and figures."""

    title: str
    text: str
    rows: list[Row] = field(default_factory=list)
    plates: list[Plate] = field(default_factory=list)


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; width: 100%; font-size: 15px; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
tr.missed td { background: #fde8e6; font-weight: 600; }
tr.reported td { color: #555; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; height: auto; }
figcaption { font-size: 15px; color: #444; }
"""


TITLE = "Local CCA: the paper's experiments"
PAGE = "index.html"


def prepare(out: Path) -> None:
    """Make the folder, with a page in it by which it is known again; one that holds other files is refused."""
    title = f"<title>{TITLE}</title>".encode()
    is_ours = lambda folder: title in places.starts_with(folder / PAGE, 4000)  # noqa: E731
    places.refuse_folder(out, is_ours=is_ours, noun="a folder written by dlcca reproduce")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not (out / PAGE).exists():
            write_page([], out)
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error.strerror or error}.") from error


def write_page(sections: Sequence[Section], out: Path) -> None:
    """Write ``index.html`` into the folder that holds the figures."""
    rows = [row for section in sections for row in section.rows]
    held, met = sum(row.met is not None for row in rows), sum(row.met is True for row in rows)
    summary = (
        "<p>The experiments of Section VII of Yair and Talmon's paper on local canonical correlation analysis, with "
        f"its baselines, by dlcca {__version__}, from fixed seeds. {met} of {held} expectations are met; "
        f"{len(rows) - held} further results are reported without one. The same table is in "
        '<a href="table.md">table.md</a> and <a href="table.json">table.json</a>.</p>'
    )
    body = "\n".join(map(_section, sections))
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{TITLE}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{TITLE}</h1>\n{summary}\n{body}\n</body>\n</html>\n"
    )
    (out / PAGE).write_text(html, encoding="utf-8")


def write_table(rows: Sequence[Row], out: Path) -> None:
    """Write ``table.md`` and ``table.json`` into a folder."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for row in rows:  # a bare bar, as in |corr|, would end the cell
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells) + " |")
    (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    content = json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False)
    (out / "table.json").write_text(content + "\n", encoding="utf-8")


def _section(section: Section) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    kinds = {True: "met", False: "missed", None: "reported"}
    lines = [f"<tr>{head}</tr>"]
    for row in section.rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row.cells)
        lines.append(f'<tr class="{kinds[row.met]}">{cells}</tr>')
    table = "<table>\n" + "\n".join(lines) + "\n</table>"
    plates = "\n".join(
        f'<figure><img src="{escape(plate.file)}" alt="{escape(plate.caption)}">\n'
        f"<figcaption>{escape(plate.caption)}</figcaption></figure>"
        for plate in section.plates
    )
    return f"<h2>{escape(section.title)}</h2>\n<p>{escape(section.text)}</p>\n{table}\n{plates}"
