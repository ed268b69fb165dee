"""The table of figures against expectations: its rows, and how they are written and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HEADINGS = ("figure", "expected", "got", "met")


@dataclass(frozen=True)
class Row:
    """One figure of the paper's experiments, held against what is expected of it."""

    figure: str
    expected: str
    got: str
    met: bool | None  # None where a result is only reported


def at_least(figure: str, value: float, bound: float) -> Row:
    return Row(figure, f"≥ {bound:g}", f"{value:.3f}", value >= bound)


def at_most(figure: str, value: float, bound: float) -> Row:
    return Row(figure, f"≤ {bound:g}", f"{value:.3f}", value <= bound)


def verdict(met: bool | None) -> str:
    return {True: "yes", False: "NO", None: "–"}[met]


def write(rows: Sequence[Row], out: Path) -> None:
    """Leave ``table.md`` and ``table.json`` in a folder."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for row in rows:
        cells = (row.figure, row.expected, row.got, verdict(row.met))
        # A bare bar, as in |corr|, would end the cell.
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    content = json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False)
    (out / "table.json").write_text(content + "\n", encoding="utf-8")


def read(path: Path) -> list[Row]:
    """The rows of a ``table.json``."""
    return [Row(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
