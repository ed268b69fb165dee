"""The tables of docs/explanation/real-data.md, as Markdown: ``python -m tests.realdata.table``."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from dlcca.report.comparison import cell
from dlcca.storage.comparison import Comparison
from tests.realdata.problems import bidmc, compared, gait, mfeat, mouse, strongest_frequency


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        print("### How well the truth is told, and how well with the second view shifted by half the recording\n")
        found = {
            "BIDMC 20": compared(bidmc(folder / "20", 20)),
            "BIDMC 42": compared(bidmc(folder / "42", 42)),
            "gait": compared(gait(folder / "gait")),
            "digits": compared(mfeat(folder / "digits")),
            "digits, alternating": compared(mfeat(folder / "alternating", fusion="alternating")),
        }
        print(_lines(found, ("score", "control")))
        found["mouse"] = compared(mouse(folder / "mouse"))
        print("\n### How much of the coordinates every view sees, and how much when they are shifted\n")
        print(_lines(found, ("min_view_r2", "min_view_r2_control")))
        print("\n### Mouse: strongest frequency of the leading coordinate\n")
        made = found["mouse"]
        for entry, E in zip(made.table, made.coordinates, strict=True):
            if E is not None:
                print(f"| {entry['method']} | {strongest_frequency(E[:, 0].astype(float), 250.0):.2f} Hz |")


def _lines(found: dict[str, Comparison], keys: tuple[str, str]) -> str:
    """A line for each method, a column for each problem, as "score / control"."""
    columns = {name: {_general(e["method"], made): e for e in made.table} for name, made in found.items()}
    methods = list(dict.fromkeys(method for entries in columns.values() for method in entries))
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for method in methods:
        entries = [entries.get(method) for entries in columns.values()]
        cells = ["" if entry is None else " / ".join(cell(entry[key]) for key in keys) for entry in entries]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _general(method: str, made: Comparison) -> str:
    """A name that fits every problem: the first and the second view have other names in each."""
    alone = [entry["method"] for entry in made.table if re.match("diffusion maps of (?!all views)", entry["method"])]
    if method in alone:
        return f"diffusion maps of the {('first', 'second')[alone.index(method)]} view"
    return re.sub(r" \(ridge .*\)", "", method)


if __name__ == "__main__":
    main()
