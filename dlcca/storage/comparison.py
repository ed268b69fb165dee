"""A comparison with the baselines, kept with the run that it is about.

::

    run.zarr/compare     attributes: run (the fingerprint of what was compared), table, facts, and what every header
    │                    has (`formats`)
    ├── rows             (m,) the rows of the run that were compared
    ├── truth            (m,) a known variable, if the user gave one; NaN where it is not known
    └── coordinates/0    (m, q) of the first method of the table, and so on

It has its own header, so that a comparison can be added to a finished run, or replaced, without changing the run.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dlcca.errors import StoreFileError
from dlcca.storage import formats, lock
from dlcca.storage.blocks import storing
from dlcca.storage.files import files_at, zarr_store
from dlcca.storage.formats import Format, plain, read_all, seal, write_array
from dlcca.storage.manifest import ZARR_JSON, group_attributes

FORM = Format("dlcca-comparison", 1, noun="comparison", error=StoreFileError, renew="run dlcca compare again")
GROUP = "compare"


@dataclass(frozen=True)
class Comparison:
    """The results of local CCA and the baselines on the same rows."""

    run: str  # fingerprint of the run
    rows: NDArray  # (m,) of the run
    table: list[dict[str, Any]]  # one entry for each method, ours first: see `dlcca.report.comparison.COLUMNS`
    coordinates: list[NDArray | None]  # (m, q) of each method; None where it has none
    facts: dict[str, Any] = field(default_factory=dict)  # how it was made
    truth: NDArray | None = None  # (m,)


def place_of(store: str | Path) -> str:
    """The address of the comparison in a run."""
    return f"{str(store).rstrip('/')}/{GROUP}"


def write(store: str | Path, comparison: Comparison) -> None:
    """Write a comparison into a run; an earlier one is replaced."""
    import zarr

    with lock.held(str(store), "dlcca compare"), storing(f"the comparison in {store}"):
        files_at(str(store)).remove(GROUP)
        group = zarr.create_group(zarr_store(place_of(store)), zarr_format=3)
        held = {f"coordinates/{i}": E for i, E in enumerate(comparison.coordinates)}
        held |= {"rows": comparison.rows, "truth": comparison.truth}
        manifest = {name: write_array(group, name, X) for name, X in held.items() if X is not None}
        facts = {"run": comparison.run, "table": comparison.table, "facts": comparison.facts}
        seal(group, FORM, {**plain(facts), "manifest": manifest})


def has_one(store: str | Path) -> bool:
    """Whether a run has a finished comparison; a damaged header is an error."""
    found = files_at(place_of(store)).get(ZARR_JSON)
    try:
        return found is not None and bool(group_attributes(found))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreFileError(f"the header of the comparison in {store} is damaged: {FORM.renew}.") from error


def read(store: str | Path) -> Comparison:
    """The comparison in a run with every array checked; a `StoreFileError` says what is wrong."""
    header, arrays = read_all(place_of(store), FORM)
    run, table, facts = (header[name] for name in ("run", "table", "facts"))
    coordinates = [arrays.get(f"coordinates/{i}") for i in range(len(table))]
    return Comparison(run, arrays["rows"], table, coordinates, facts, arrays.get("truth"))


def of_run(store: str | Path, fingerprint: str) -> Comparison | None:
    """The comparison in a run, if there is one and its fingerprint is that of the run."""
    if not has_one(store):
        return None
    found = read(store)
    return found if found.run == fingerprint else None


def damages(store: str | Path) -> dict[str, str | None]:
    """What is wrong with the comparison in a run, None if nothing is, by its name in the run; empty without one."""
    try:
        found = formats.damages(place_of(store), FORM, ["rows"]) if has_one(store) else None
    except StoreFileError as error:
        return {GROUP: str(error)}
    return {} if found is None else {GROUP: next(filter(None, found.values()), None)}
