"""What a user hands in, checked once and turned into arrays: one (n, d_v) array for each view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError


@dataclass(frozen=True)
class Views:
    """K views of the same n samples, which can be split by rows, as a cross-validation does.

    ``len(views)`` is n and ``views[rows]`` are the same views with some of the rows, so scikit-learn takes an object
    of this class wherever it takes an array. A view may be None in what is given to ``transform``.
    """

    arrays: tuple[NDArray | None, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, views: Any) -> Views:
        """Views from a list or dict of arrays, a DataFrame with two levels of columns, or a Dataset.

        They must be of equal length; the values are not checked.
        """
        if isinstance(views, Views):
            return views
        arrays = {name: _array(X, name) for name, X in named(views).items()}
        made = cls(tuple(arrays.values()), tuple(arrays))
        _check_lengths(made)
        return made

    @property
    def present(self) -> list[NDArray]:
        return [X for X in self.arrays if X is not None]

    @property
    def n(self) -> int:
        return len(self.present[0]) if self.present else 0

    @property
    def dims(self) -> tuple[int, ...]:
        """Channels of each view; 0 for one that is None."""
        return tuple(0 if X is None else X.shape[1] for X in self.arrays)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, sum(self.dims)

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, rows: Any) -> Views:
        rows = np.atleast_1d(rows) if isinstance(rows, int | np.integer) else rows
        return Views(tuple(None if X is None else X[rows] for X in self.arrays), self.names)


def checked(views: Any, *, may_be_none: bool = False) -> Views:
    """The views as floating-point arrays of one dtype and equal length, all entries finite, or a `DataError`."""
    views = Views.of(views)
    if not views.arrays:
        raise DataError("no views were given; give at least one array of shape (samples, channels), usually two.")
    if not views.present or (len(views.present) < len(views.arrays) and not may_be_none):
        missing = [name for name, X in zip(views.names, views.arrays, strict=True) if X is None]
        raise DataError(f"view {', '.join(missing)} is None; only transform may lack a view, and never all of them.")
    _check_lengths(views)
    for name, X in zip(views.names, views.arrays, strict=True):
        if X is not None:
            _check_finite(X, name)
    dtype = np.result_type(*views.present)
    return Views(tuple(None if X is None else X.astype(dtype, copy=False) for X in views.arrays), views.names)


def check_varies(views: Views) -> None:
    """Refuse what cannot be fitted: fewer than two samples, or a view in which nothing ever changes."""
    if views.n < 2:
        raise DataError(f"the views have {views.n} sample{'s' * (views.n != 1)}; at least 2 are needed.")
    for name, X in zip(views.names, views.present, strict=True):
        if (X == X[0]).all():
            raise DataError(
                f"view {name!r} is constant: all {X.shape[1]} channels keep one value in all {views.n} samples. "
                "A sensor that never changes has nothing in common with another; leave this view out."
            )


def joined(views: Any, y: Any, *, alone: bool = False) -> Any:
    """The views that a call with the arguments of scikit-learn means: ``(X, Y)`` is two of them.

    Labels (n,) beside several views are left out. Beside a single array they are an error: one view may have been
    meant, or two; ``alone`` says that it is one.
    """
    if y is None:
        return views
    n_axes = len(np.shape(y)) if hasattr(y, "shape") else _depth(y)
    if _is_container(views):
        if n_axes == 1:
            return views
        raise DataError(f"y with {n_axes} dimensions was given besides views; put it among the views, or leave it out.")
    if n_axes == 2 and hasattr(y, "shape"):
        return [views, y]
    if n_axes == 1 and alone:
        return views
    if n_axes == 1:
        raise DataError(
            "y has 1 dimension: labels are not a view, and X alone is one view, which has nothing to be compared with. "
            "Give two arrays (samples, channels), as fit(X, Y), with y[:, None] for a view of one channel; or set "
            "metric='mahalanobis' to embed X alone."
        )
    what = f"an array of {n_axes} dimensions" if hasattr(y, "shape") else f"a {type(y).__name__} of arrays or lists"
    raise DataError(f"y is {what}; an array (samples, channels) is needed. Give several views in one list: fit([X, Y])")


def _is_container(views: Any) -> bool:
    """Whether an argument holds views, rather than being one."""
    if isinstance(views, Views) or not hasattr(views, "shape") or hasattr(views, "data_vars"):
        return True
    return len(views.shape) > 2 or getattr(getattr(views, "columns", None), "nlevels", 1) == 2


def _depth(y: Any) -> int:
    """Dimensions of labels in a list: 1 if its items are numbers or words."""
    items = list(y) if isinstance(y, Sequence) and not isinstance(y, str | bytes) else []
    return 1 if all(np.ndim(item) == 0 for item in items) else 2


def named(views: Any) -> dict[str, Any]:
    """The views by name, in order."""
    if hasattr(views, "data_vars"):  # an xarray Dataset: a variable is a view
        return {str(name): views[name] for name in views.data_vars}
    columns: Any = getattr(views, "columns", None)
    if getattr(columns, "nlevels", 1) == 2:  # a DataFrame with columns (view, channel)
        return {str(name): views[name] for name in dict.fromkeys(columns.get_level_values(0))}
    if isinstance(views, Mapping):
        return {str(name): X for name, X in views.items()}
    if isinstance(views, Sequence) and not isinstance(views, str | bytes):
        return {f"view {number}": X for number, X in enumerate(views, start=1)}
    if views is None or not hasattr(views, "shape"):
        raise DataError(f"views are a list or dict of arrays (samples, channels), not {type(views).__name__}.")
    if len(views.shape) == 3:
        return {f"view {number}": X for number, X in enumerate(views, start=1)}
    return {"view 1": views}


def _array(X: Any, name: str) -> NDArray | None:
    """A two-dimensional floating-point array."""
    if X is None:
        return None
    X = np.asarray(X)
    if X.dtype.kind not in "fiub":
        raise DataError(
            f"view {name!r} has dtype {X.dtype}; real numbers are needed. "
            + ("Give the real and imaginary parts as channels." if X.dtype.kind == "c" else "Convert it to float.")
        )
    if X.ndim == 1:
        X = X[:, None]
    if X.ndim != 2:
        raise DataError(f"view {name!r} has shape {X.shape}; (samples, channels) is needed. Reshape it.")
    if X.shape[1] == 0:
        raise DataError(f"view {name!r} has no channels; at least one is needed.")
    return X.astype(np.float64 if X.dtype.kind in "iub" or X.dtype.itemsize > 4 else np.float32, copy=False)


def _check_lengths(views: Views) -> None:
    lengths = {name: len(X) for name, X in zip(views.names, views.arrays, strict=True) if X is not None}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        raise DataError(
            f"the views differ in length: {found} samples. They must be samples of the same moments; "
            "cut or resample them to a common clock."
        )


def _check_finite(X: NDArray, name: str) -> None:
    bad = ~np.isfinite(X)
    if bad.any():
        row, channel = (int(i) for i in np.argwhere(bad)[0])
        what = "NaN" if np.isnan(X[row, channel]) else "infinity"
        raise DataError(
            f"view {name!r} holds {what} in row {row}, channel {channel} ({int(bad.sum())} such entries in "
            f"{int(bad.any(axis=1).sum())} rows); all must be finite. Remove these rows from every view."
        )
