"""The output of the experiments: a table of results against expectations, and a page with the figures."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from matplotlib.figure import Figure

from dlcca import __version__
from dlcca.storage import places
from dlcca.storage.files import storage_errors

HEADINGS = ("figure", "expected", "got", "met")
#: Of the figures.
DPI = 130


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
    """A figure, the name of its file, and what it shows."""

    file: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """One experiment of the paper: its results and figures."""

    title: str
    text: str
    rows: list[Row] = field(default_factory=list)
    plates: list[Plate] = field(default_factory=list)


TITLE = "Local CCA: the paper's experiments"
PAGE = "index.html"


def prepare(out: Path) -> None:
    """Make the folder, with a page in it by which it is known again; one that holds other files is refused."""
    title = f"<title>{TITLE}</title>".encode()
    is_ours = lambda folder: title in places.starts_with(folder / PAGE, 4000)  # noqa: E731
    places.refuse_folder(out, is_ours=is_ours, noun="a folder written by dlcca reproduce")
    with storage_errors(out, "written"):
        out.mkdir(parents=True, exist_ok=True)
        if not (out / PAGE).exists():
            write_page([], out)


def write_page(sections: Sequence[Section], out: Path) -> None:
    """Write the figures into a folder, and ``index.html`` with all results."""
    from jinja2 import StrictUndefined, Template

    met = Counter(row.met for section in sections for row in section.rows)
    source = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    template = Template(source, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    html = template.render(
        title=TITLE,
        version=__version__,
        headings=HEADINGS,
        sections=sections,
        met=met[True],
        held=met[True] + met[False],
        reported=met[None],
    )
    for plate in (plate for section in sections for plate in section.plates):
        # Without the version of matplotlib: the same bytes by any.
        plate.figure.savefig(out / plate.file, dpi=DPI, metadata={"Software": None})
    (out / PAGE).write_text(html, encoding="utf-8")


def write_table(rows: Sequence[Row], out: Path) -> None:
    """Write ``table.md`` and ``table.json`` into a folder."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for row in rows:  # a bare bar, as in |corr|, would end the cell
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells) + " |")
    (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    content = json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False)
    (out / "table.json").write_text(content + "\n", encoding="utf-8")
