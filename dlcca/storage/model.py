"""A fitted model in a Zarr group: arrays with checksums, everything else as JSON; never pickle.

::

    MODEL                attributes: facts (settings, quality, and of a model of recordings how its views were made),
    │                    and what every header has (`formats`)
    ├── points_V ...     the arrays of `dlcca.model.Model`
    ├── embedding ...    what the fit found; a model within a run has the embedding of the run
    └── scaling/NAME     of a model of recordings: center, scale, mean, ... as in a store of views, so that new
                         recordings can be scaled from here
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dlcca.errors import ModelFileError
from dlcca.model import Axes, Model
from dlcca.storage import formats
from dlcca.storage.formats import Format, is_form, read_all, seal, write_array
from dlcca.storage.places import replacing

FORM = Format("dlcca-model", 1, noun="model", error=ModelFileError, renew="fit anew")
#: Whether a model is at an address, whole or not, and what is wrong with each of its arrays.
is_model, damages = partial(is_form, form=FORM), partial(formats.damages, form=FORM)

#: Arrays that all models have, and those that not all of them have.
ALWAYS, SOMETIMES = ("units", "scale"), ("reach", "rotation")


def save(path: str | Path, model: Model, arrays: Mapping[str, NDArray], facts: Mapping[str, Any]) -> None:
    """Write a model, more arrays by name, and facts (plain JSON values), all of it or nothing.

    The group is written beside its place and then moved there; a model that is there already is replaced.
    """
    with replacing(Path(path), FORM) as group:
        write(group, model, arrays, facts)


def write(group: Any, model: Model, arrays: Mapping[str, NDArray], facts: Mapping[str, Any]) -> str:
    """Write a model into an empty group, its header last, and return the checksum of the header."""
    held = {name: getattr(model, name) for name in (*ALWAYS, *SOMETIMES)}
    for kind in ("points", "factors", "weights", "values"):
        held |= {f"{kind}_{i}": X for i, X in enumerate(getattr(model, kind))}
    for i, axes in enumerate(model.axes):
        held |= {} if axes is None else {f"centre_{i}": axes.centre, f"turn_{i}": axes.turn}
    held |= {**model.readout, **arrays}
    digests = {name: write_array(group, name, X) for name, X in held.items() if X is not None}
    about = {
        "names": list(model.names),
        "fusion": model.fusion,
        "n_links": model.n_links,
        "kernels": len(model.values),
        "coordinates": model.reading,
        "readout": list(model.readout),
    }
    return seal(group, FORM, {"manifest": digests, "facts": {"model": about, **facts}})


def load(path: str | Path) -> tuple[Model, dict[str, NDArray], dict[str, Any]]:
    """The model, the other arrays and the facts of `save`, or a `ModelFileError`."""
    header, arrays = read_all(path, FORM)
    facts = header["facts"]
    about: dict[str, Any] = facts.pop("model")
    views, kernels = len(about["names"]), about["kernels"]

    def axes(i: int) -> Axes | None:
        return Axes(arrays.pop(f"centre_{i}"), arrays.pop(f"turn_{i}")) if f"turn_{i}" in arrays else None

    lengths = {"points": views, "factors": views, "weights": kernels, "values": kernels}
    held: dict[str, Any] = {kind: [arrays.pop(f"{kind}_{i}") for i in range(n)] for kind, n in lengths.items()}
    held |= {name: arrays.pop(name) for name in (*ALWAYS, *SOMETIMES) if name in arrays}
    model = Model(
        names=tuple(about["names"]),
        fusion=about["fusion"],
        n_links=about["n_links"],
        axes=[axes(i) for i in range(views)],
        reading=about["coordinates"],
        readout={name: arrays.pop(name) for name in about["readout"]},
        **held,
    )
    return model, arrays, facts
