"""A finished run in a Zarr group: the coordinates, how far to trust them, and where they come from.

::

    run.zarr             attributes: settings, choices, views, fingerprint, versions, created, time_unit, cost, and
    │                    what every header has (`formats`); its manifest also has "quality" and "model"
    ├── embedding        (n, q)
    ├── time             (n,) in samples; of recordings, in seconds since `start`
    ├── reason           (n,) of recordings only: why a row of the embedding is NaN, see `dlcca.storage.views.Reason`
    ├── strength         (n,) of several views only: how much they share around each row beyond chance, 0 to 1
    ├── eigenvalues      (q,)
    ├── landmarks        (L,)
    ├── model            what new recordings need, see `dlcca.storage.model`
    ├── compare          optional results of the baselines, see `dlcca.storage.comparison`
    └── quality          attributes: the measures, n_common, warnings
        ├── correlations (L, r)
        └── ...          of each landmark, where it is known: see `LOCAL`
"""

import hashlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dlcca.errors import DataError, StoreFileError
from dlcca.storage import comparison, formats
from dlcca.storage import model as model_store
from dlcca.storage.files import files_at
from dlcca.storage.formats import Format, open_sealed, plain, read_array, seal, write_array
from dlcca.storage.manifest import digest, digest_of_facts
from dlcca.storage.places import replacing

FORM = Format("dlcca-run", 1, noun="run", error=StoreFileError, renew="run again")

#: Arrays of every run, and those of some runs only; the last part of a name is the field of `Run`.
ARRAYS = ("embedding", "time", "eigenvalues", "landmarks", "quality/correlations")
SOMETIMES = ("reason", "strength")
#: What may be known of each landmark, (L,) or (L, K), in the group "quality".
LOCAL = ("n_common", "p_value", "strength", "null_edge", "rank", "radius", "condition")
#: Whether a run at an address has been sealed.
is_finished = partial(formats.is_form, form=FORM)
_FACTS = ("views", "settings", "choices", "fingerprint", "time_unit", "versions", "created")
PACKAGES = ("dlcca", "numpy", "scipy", "scikit-learn", "zarr", "dask")


def versions() -> dict[str, str]:
    """The packages that a result may depend on, each with its version."""
    return {package: version(package) for package in PACKAGES}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Run:
    """The results of a run, with measures of their quality."""

    embedding: NDArray  # (n, q)
    time: NDArray  # (n,) in time_unit
    eigenvalues: NDArray  # (q,) without the trivial 1
    landmarks: NDArray  # (L,) row numbers
    correlations: NDArray  # (L, r) local canonical correlations, falling
    n_common: int
    quality: dict[str, Any]  # measures of trust
    warnings: list[str]  # why not to trust the result; empty if it may be trusted
    views: dict[str, int]  # names and channels
    settings: dict[str, Any]  # as used, in sections
    choices: list[str]  # a sentence for each "auto"
    fingerprint: str  # see `fingerprint`
    time_unit: str = "sample"  # or "s"
    versions: dict[str, str] = field(default_factory=versions)
    created: str = field(default_factory=_now)
    reason: NDArray | None = None  # (n,) why a row is NaN; 0 where it is not
    start: str | None = None  # ISO: when the time of recordings is 0
    strength: NDArray | None = None  # (n,) how much the views share around each row beyond chance, 0 to 1
    local: dict[str, NDArray] = field(default_factory=dict)  # of each landmark, by the names in `LOCAL`

    def __post_init__(self) -> None:
        n, q, L = self.time.shape[0], len(self.eigenvalues), len(self.landmarks)
        if self.embedding.shape != (n, q) or self.time.ndim != 1 or self.correlations.shape[:1] != (L,):
            raise DataError(
                f"embedding {self.embedding.shape}, time {self.time.shape}, eigenvalues {self.eigenvalues.shape}, "
                f"landmarks {self.landmarks.shape} and correlations {self.correlations.shape} do not fit together; "
                "(n, q), (n,), (q,), (L,) and (L, r) are needed."
            )


def fingerprint(views: Mapping[str, NDArray], settings: Mapping[str, Any]) -> str:
    """SHA-256 of the views, their names and the settings: equal if and only if the inputs were."""
    made = hashlib.sha256(digest_of_facts(settings).encode())
    for name, X in views.items():
        made.update(digest_of_facts({"name": name, "array": digest(X)}).encode())
    return made.hexdigest()


def write(path: str | Path, run: Run, write_model: Callable[[Any], str] | None = None) -> None:
    """Write a run as a whole; one that was written so before is replaced, anything else is refused.

    ``write_model`` writes the model into a group and returns the checksum of its header.
    """
    with replacing(Path(path), FORM) as group:
        quality = plain({**run.quality, "n_common": run.n_common, "warnings": run.warnings})
        group.create_group("quality").attrs.update(quality)
        held = {name: getattr(run, name.rpartition("/")[2]) for name in (*ARRAYS, *SOMETIMES)}
        held |= {f"quality/{name}": X for name, X in run.local.items()}
        manifest = {name: write_array(group, name, X) for name, X in held.items() if X is not None}
        manifest["quality"] = digest_of_facts(quality)
        if write_model is not None:
            manifest["model"] = write_model(group.create_group("model"))
        facts = {fact: plain(getattr(run, fact)) for fact in (*_FACTS, "start")}
        seal(group, FORM, {**facts, "manifest": manifest})


def read(path: str | Path, *, lazy: Container[str] = ()) -> Run:
    """The run at ``path`` with every array checked; a `StoreFileError` says what is wrong.

    Arrays in ``lazy`` are those of the store, not read and not checked.
    """
    group, header = open_sealed(path, FORM)
    facts = _facts(group, header, path)
    names = [name for name in dict.fromkeys((*ARRAYS, *header["manifest"])) if name not in ("quality", "model")]
    known = {name: _expected(header, name, path) for name in names}
    arrays = {
        name: group[name] if name in lazy else read_array(group, name, expected, path, FORM)
        for name, expected in known.items()
    }
    fields: dict[str, Any] = {name.rpartition("/")[2]: arrays.get(name) for name in (*ARRAYS, *SOMETIMES)}
    local = {name: arrays[f"quality/{name}"] for name in LOCAL if f"quality/{name}" in arrays}
    return Run(**fields, local=local, start=header.get("start"), **facts)


def damages(path: str | Path) -> dict[str, str | None]:
    """For every entry of the manifest what is wrong with it, None if nothing is; a damaged header is an error."""
    found = formats.damages(path, FORM, (*ARRAYS, "quality"), {"quality": _quality, "model": _check_model})
    return found | comparison.damages(path)


def model_of(path: str | Path) -> str:
    """The address of the model in a run."""
    return f"{str(path).rstrip('/')}/model"


def lazy_embedding(path: str | Path) -> Any:
    """The embedding of a run as a Dask array."""
    group, header = open_sealed(path, FORM)
    return formats.lazy_array(group, header, "embedding", path, FORM)


def _check_model(group: Any, header: Mapping[str, Any], path: str | Path) -> None:
    """An error if the model of a run is damaged, or is not the one of its manifest."""
    wrong = [problem for problem in model_store.damages(model_of(path)).values() if problem is not None]
    if not wrong and header["manifest"]["model"] != group["model"].attrs["checksum"]:
        wrong = [f"the model in {path} is of another run. {FORM.renew}."]
    if wrong:
        raise StoreFileError(wrong[0])


def describe(path: str | Path) -> dict[str, Any]:
    """The content of a run by its headers alone: quick, but only `read` and `damages` check the arrays."""
    group, header = open_sealed(path, FORM)
    facts, shapes = _facts(group, header, path), {}
    for name in ARRAYS:
        with formats.read_errors(f"array {name!r}", path, FORM):
            shapes[name] = list(group[name].shape)
    return {"shapes": shapes, **facts, "cost": header.get("cost", {}), "bytes": files_at(str(path)).size()}


def _facts(group: Any, header: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """What a run has besides arrays, by the fields of `Run`."""
    quality = _quality(group, header, path)
    measures = {"n_common": quality.pop("n_common"), "warnings": quality.pop("warnings"), "quality": quality}
    return measures | {fact: header[fact] for fact in _FACTS}


def _expected(header: Mapping[str, Any], name: str, path: str | Path) -> str:
    if name not in header["manifest"]:
        raise StoreFileError(f"{path} is not finished: its manifest lacks {name!r}. Restore it, or {FORM.renew}.")
    return header["manifest"][name]


def _quality(group: Any, header: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """The attributes of the group ``quality``, if they are unchanged."""
    with formats.read_errors("'quality'", path, FORM):
        quality = dict(group["quality"].attrs)
    if digest_of_facts(quality) != _expected(header, "quality", path):
        raise StoreFileError(f"'quality' of {path} is damaged. Restore it, or {FORM.renew}.")
    return quality
