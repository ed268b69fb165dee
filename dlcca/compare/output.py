"""The results of a comparison: a page, a JSON document, and a table for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dlcca.report import comparison as shown
from dlcca.report import overview, page
from dlcca.storage import places
from dlcca.storage.comparison import Comparison
from dlcca.storage.files import atomic_file
from dlcca.storage.formats import plain

PAGE, TABLE = "compare.html", "compare.json"


def refuse_occupied(out: Path, inputs: Iterable[str | Path] = ()) -> None:
    """An error, before anything is computed, if the results cannot be written there."""
    places.refuse_folder(out)
    page.refuse_foreign(out / PAGE, inputs)
    places.refuse_file(out / TABLE, _is_table, "a table written by dlcca compare", inputs=inputs)


def _is_table(path: Path) -> bool:
    try:
        found = json.loads(path.read_bytes())
        return all("method" in entry for entry in found["methods"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


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
    widths = [max(10, len(heading) + 2) for _, heading, _ in columns]
    found = ["".ljust(wide) + "".join(h.rjust(w) for (_, h, _), w in zip(columns, widths, strict=True))]
    for entry in made.table:
        cells = "".join(shown.cell(entry[key]).rjust(w) for (key, _, _), w in zip(columns, widths, strict=True))
        found.append(f"{entry['method']:<{wide}}{cells}")
    found += [f"  {entry['method']}: {entry['note']}" for entry in made.table if entry["note"]]
    return [*found, *(f"  {heading:<18} {why}" for _, heading, why in columns), shown.description(made.facts)]
