"""The paper's experiments (Section VII) with the baselines, in one go and from fixed seeds."""

from collections.abc import Callable
from pathlib import Path

from dlcca.reproduce.results import Row

__all__ = ["Row", "run"]


def run(out: Path, say: Callable[[str], None] = print) -> list[Row]:
    """Run every experiment and write PNG figures, ``table.md``, ``table.json`` and ``index.html`` in ``out``.

    The folder has to be new, empty, or one of an earlier call.
    """
    from time import perf_counter

    from threadpoolctl import threadpool_limits

    from dlcca.reproduce import icons, pendulums, results, square

    out = Path(out)
    results.prepare(out)
    start = perf_counter()
    # Thousands of small decompositions: on a busy machine BLAS threads wait for each other, thrice as long.
    with threadpool_limits(1):
        sections = [experiment.run(say) for experiment in (square, pendulums, icons)]
    rows = [row for section in sections for row in section.rows]
    results.write_table(rows, out)
    results.write_page(sections, out)
    held = [row.met for row in rows if row.met is not None]
    say(f"{sum(held)} of {len(held)} expectations met, {perf_counter() - start:.0f} s; see {out / 'index.html'}")
    return rows
