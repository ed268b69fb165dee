"""How long tests take: what is left out of a plain `pytest`, and what `make test` begins with.

`python -m tests.support.durations LOG` writes `tests/durations.txt` anew, from what `make test` printed with
PYTEST_ADDOPTS="--durations=0 --durations-min=0.05". The numbers need not be exact, and a test that is not in the file
counts as quick.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

FILE = Path(__file__).parents[1] / "durations.txt"
#: Shorter ones are not written down.
LEAST_S = 0.2
LINE = re.compile(r"^\s*([\d.]+)s (?:call|setup|teardown)\s+([^\s\[@]+)")


def read() -> dict[str, float]:
    """Seconds of each test function, over all of its parameters."""
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return {function: float(seconds) for seconds, function in (line.split() for line in lines)}


def in_log(text: str) -> dict[str, float]:
    """The same, from what pytest printed."""
    seconds: Counter[str] = Counter()
    for line in text.splitlines():
        if found := LINE.match(line):
            seconds[found[2]] += float(found[1])  # type: ignore[assignment]
    return dict(seconds)


def main() -> None:
    found = in_log(Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace"))
    kept = sorted((function, s) for function, s in found.items() if s >= LEAST_S)
    FILE.write_text("".join(f"{s:8.1f} {function}\n" for function, s in kept), encoding="utf-8")


if __name__ == "__main__":
    main()
