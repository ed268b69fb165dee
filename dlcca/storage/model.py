"""A fitted model in a Zarr group: arrays with checksums, everything else as JSON; never pickle.

::

    MODEL                attributes: facts (settings, quality, and of a model of recordings how its views were made),
    │                    and what every header has (`formats`)
    ├── points_V ...     the arrays of `dlcca.model.Model`
    ├── embedding ...    what the fit found; a model within a run has the embedding of the run
    └── scaling/NAME     of a model of recordings: center, scale, mean, ... as in a store of views, so that new
                         recordings can be scaled from here
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dlcca.errors import ModelFileError
from dlcca.model import Axes, Model
from dlcca.storage import formats
from dlcca.storage.formats import Format, is_form, open_sealed, read_array, seal, write_array
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
    import zarr

    with replacing(Path(path), FORM) as place:
        write(zarr.create_group(str(place), zarr_format=3), model, arrays, facts)


def write(group: Any, model: Model, arrays: Mapping[str, NDArray], facts: Mapping[str, Any]) -> str:
    """Write a model into an empty group, its header last, and return the checksum of the header."""
    held: dict[str, NDArray] = {name: getattr(model, name) for name in ALWAYS}
    for kind in ("points", "factors", "weights", "values"):
        held |= {f"{kind}_{i}": X for i, X in enumerate(getattr(model, kind))}
    for i, axes in enumerate(model.axes):
        if axes is not None:
            held |= {f"centre_{i}": axes.centre, f"turn_{i}": axes.turn}
    held |= {**model.readout, **{name: X for name in SOMETIMES if (X := getattr(model, name)) is not None}, **arrays}
    digests = {name: write_array(group, name, X) for name, X in held.items()}
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
    group, header = open_sealed(path, FORM)
    arrays = {name: read_array(group, name, digest, path, FORM) for name, digest in header["manifest"].items()}
    facts = header["facts"]
    return _model_of(facts.pop("model"), arrays), arrays, facts


def _model_of(facts: dict[str, Any], arrays: dict[str, NDArray]) -> Model:
    """The model out of the arrays, which lose what belongs to it."""
    views, kernels = len(facts["names"]), facts["kernels"]

    def axes(i: int) -> Axes | None:
        return Axes(arrays.pop(f"centre_{i}"), arrays.pop(f"turn_{i}")) if f"turn_{i}" in arrays else None

    lengths = {"points": views, "factors": views, "weights": kernels, "values": kernels}
    lists: dict[str, Any] = {
        kind: [arrays.pop(f"{kind}_{i}") for i in range(length)] for kind, length in lengths.items()
    }
    whole: dict[str, Any] = {name: arrays.pop(name) for name in (*ALWAYS, *SOMETIMES) if name in arrays}
    return Model(
        names=tuple(facts["names"]),
        fusion=facts["fusion"],
        n_links=facts["n_links"],
        axes=[axes(i) for i in range(views)],
        reading=facts["coordinates"],
        readout={name: arrays.pop(name) for name in facts["readout"]},
        **lists,
        **whole,
    )
