"""The views that a user gives, checked once and turned into arrays: one (n, d_v) array for each view."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dlcca.errors import DataError, SplitByViews

#: By dtype, the smallest change and the largest value of a view: sums of squares must be finite, and not rounded to 0.
LEAST_CHANGE = {np.dtype(np.float32): 1e-16, np.dtype(np.float64): 1e-140}
LARGEST = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e140}
#: Views with this many times more columns than rows may have been given as channels x samples.
MANY_TIMES = 10
#: Functions of scikit-learn between cross-validation and the tags of an estimator; a pipeline has a loop.
ASKING = ("get_tags", "__sklearn_tags__", "<genexpr>", "is_classifier", "is_regressor", "_safe_split")


@dataclass(frozen=True)
class Views:
    """K views of the same n samples, which can be split by rows, as a cross-validation does.

    ``len(views)`` is n and ``views[rows]`` are the same views with some of the rows, so scikit-learn takes an object
    of this class wherever it takes an array. A view may be None in what is given to ``transform``.
    """

    arrays: tuple[NDArray | None, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, views: Any) -> Self:
        """Views from a list or dict of arrays, a DataFrame with two levels of columns, or a Dataset.

        They must be of equal length; the values are not checked.
        """
        if not isinstance(views, Views):
            arrays = {name: _array(X, name) for name, X in named(views).items()}
            views = cls(tuple(arrays.values()), tuple(arrays))
        shapes = {name: X.shape for name, X in zip(views.names, views.arrays, strict=True) if X is not None}
        if len({shape[0] for shape in shapes.values()}) > 1:
            raise DataError(differing(shapes))
        return views

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

    def __getitem__(self, rows: Any) -> Self:
        rows = np.atleast_1d(rows) if isinstance(rows, int | np.integer) else rows
        return type(self)(tuple(None if X is None else X[rows] for X in self.arrays), self.names)


def checked(views: Any, *, may_be_none: bool = False) -> Views:
    """The views as floating-point arrays of one dtype and equal length, all entries finite, or a `DataError`."""
    views = Views.of(views)
    if not views.arrays:
        raise DataError("no views were given; give at least one array of shape (samples, channels), usually two.")
    missing = ", ".join(name for name, X in zip(views.names, views.arrays, strict=True) if X is None)
    if not views.present or (missing and not may_be_none):
        raise DataError(f"view {missing} is None; only transform may lack a view, and never all of them.")
    dtype = np.result_type(*views.present)
    for name, X in zip(views.names, views.arrays, strict=True):
        if X is not None:
            refuse_masked(X, name)
            check_largest(X, name, dtype)
    return Views(tuple(None if X is None else X.astype(dtype, copy=False) for X in views.arrays), views.names)


def check_varies(views: Views) -> None:
    """Refuse what cannot be fitted: fewer than two samples, or a view in which nothing ever changes."""
    if views.n < 2:
        raise DataError(f"the views have {views.n} sample{'s' * (views.n != 1)}; at least 2 are needed.")
    for name, X in zip(views.names, views.present, strict=True):
        change = float(np.ptp(X, axis=0).max())
        if change == 0:
            raise DataError(
                f"view {name!r} is constant: all {X.shape[1]} channels keep one value in all {views.n} samples. "
                "A sensor that never changes has nothing in common with another; leave this view out."
            )
        check_change(change, name, X.dtype)


def in_range(X: NDArray, dtype: Any = None) -> bool:
    """Whether all entries are finite, and sums of their squares too, in ``dtype`` or that of X."""
    if X.size == 0 or X.dtype.kind != "f":
        return True
    largest = LARGEST.get(np.dtype(dtype or X.dtype), min(LARGEST.values()))
    return float(X.min()) >= -largest and float(X.max()) <= largest  # False if there is a NaN


def check_largest(X: NDArray, name: str, dtype: Any, *, first: int = 0) -> None:
    """Refuse values (n, d) that are not finite, or too large for ``dtype``; X begins with row ``first``."""
    if in_range(X, dtype):
        return
    bad, largest = ~np.isfinite(X), LARGEST[np.dtype(dtype)]
    if bad.any():
        row, channel, rows, _ = _first(bad)
        what = "NaN" if np.isnan(X[row, channel]) else "infinity"
        raise DataError(
            f"view {name!r} holds {what} in row {first + row}, channel {channel} ({int(bad.sum())} such entries in "
            f"{rows} rows); all must be finite. Remove these rows from every view."
        )
    row, channel, rows, counted = _first(np.abs(X) > largest)
    power = int(np.floor(np.log10(np.abs(X).max())))
    most = rows > len(X) // 2
    advice = f"Divide the view by 1e{power}" if most else "Remove these rows from every view, or correct them"
    raise DataError(
        f"view {name!r} holds {X[row, channel]:.6g} in row {first + row}, channel {channel} ({counted} with "
        f"such values); at most {largest:.0e} is allowed in {np.dtype(dtype)}, so that squares are finite. {advice}."
    )


def check_change(change: float, name: str, dtype: Any) -> None:
    """Refuse a view whose values differ by no more than ``change``, if squares of that are rounded to 0."""
    least = LEAST_CHANGE[np.dtype(dtype)]
    if change < least:
        raise DataError(
            f"view {name!r} changes by about {change:.0e} only; at least {least:.0e} is needed in {np.dtype(dtype)}, "
            f"because smaller squares are rounded to 0. Multiply the view by 1e{-int(np.floor(np.log10(change)))}."
        )


def refuse_masked(X: Any, name: str, first: int = 0) -> None:
    """An error if values of X are masked, as those of a NumPy masked array may be; X begins with row ``first``."""
    if not np.ma.isMaskedArray(X) or not (mask := np.ma.getmaskarray(X)).any():
        return
    row, channel, _, counted = _first(mask.reshape(len(mask), -1))
    raise DataError(
        f"view {name!r} is masked in row {first + row}, channel {channel} ({counted} with masked values); all "
        "values are needed. Remove these rows from every view, or fill in their values."
    )


def _first(bad: NDArray[np.bool_]) -> tuple[int, int, int, str]:
    """Row and channel of the first bad entry, how many rows have one, and the same in words."""
    row, channel = np.argwhere(bad)[0].tolist()
    rows = int(bad.any(axis=1).sum())
    return row, channel, rows, f"{rows} row{'s' * (rows != 1)}"


def joined(views: Any, y: Any, *, alone: bool = False) -> Any:
    """The views that a call with the arguments of scikit-learn means: ``(X, Y)`` is two of them.

    Labels (n,) beside several views are left out. Beside a single array they are an error: one view may have been
    meant, or two; ``alone`` says that it is one.
    """
    if y is None:
        return views
    refuse_mne(views, "view 1")
    refuse_mne(y, "view 2")
    if hasattr(y, "shape"):
        n_axes = len(np.shape(y))
    elif isinstance(y, Sequence) and not isinstance(y, str | bytes):
        n_axes = 1 if all(np.ndim(item) == 0 for item in y) else 2  # labels are numbers or words
    else:
        kind = type(y).__name__
        raise DataError(f"y is of type {kind}; an array (samples, channels) or labels (samples,) are needed.")
    is_container = _is_container(views)
    if n_axes == 1 and (alone or is_container):
        return views
    if is_container:
        raise DataError(f"y with {n_axes} dimensions was given besides views; put it among the views, or leave it out.")
    if n_axes == 2 and hasattr(y, "shape"):
        return [views, y]
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


def named(views: Any) -> dict[str, Any]:
    """The views by name, in order."""
    if hasattr(views, "data_vars"):  # an xarray Dataset: a variable is a view
        return {str(name): views[name] for name in views.data_vars}
    columns: Any = getattr(views, "columns", None)
    if getattr(columns, "nlevels", 1) == 2:  # a DataFrame with columns (view, channel)
        return {str(name): views[name] for name in dict.fromkeys(columns.get_level_values(0))}
    if isinstance(views, Mapping):
        return {str(name): X for name, X in views.items()}
    is_list = isinstance(views, Sequence) and not isinstance(views, str | bytes)
    if not is_list:
        refuse_mne(views, "view 1")
        if not hasattr(views, "shape"):
            raise DataError(f"views are a list or dict of arrays (samples, channels), not {type(views).__name__}.")
        views = views if len(views.shape) == 3 else [views]
    return {f"view {number}": X for number, X in enumerate(views, start=1)}


def _array(X: Any, name: str) -> NDArray | None:
    """A two-dimensional floating-point array."""
    if X is None:
        return None
    refuse_mne(X, name)
    refuse_masked(X, name)
    try:
        X = np.asarray(X)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"view {name!r} is of type {type(X).__name__} and cannot be read as an array (samples, channels): {error}"
        ) from error
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


def refuse_mne(X: Any, name: str) -> None:
    """An error if X is an object of MNE, which has channels first and its samples elsewhere."""
    if type(X).__module__.split(".")[0] != "mne":
        return
    advice = (
        "dlcca.from_mne(raw, {'eeg': 'eeg', 'ecg': ['ECG1']}) makes views of a Raw; or give raw.get_data().T"
        if hasattr(X, "n_times")
        else "Make the views of the Raw that it was cut from, by dlcca.from_mne; or give arrays, such as "
        "numpy.hstack(epochs.get_data()).T, in which no window of time should cross from one epoch to the next"
    )
    raise DataError(f"view {name!r} is an MNE {type(X).__name__}; an array (samples, channels) is needed. {advice}.")


def transposed(n: int, dims: Sequence[int]) -> str:
    """A hint if views of n rows and so many columns look as if they were channels x samples; else ""."""
    if not dims or min(dims) < MANY_TIMES * n:
        return ""
    return (
        f"the views have {n} rows and {', '.join(map(str, dims))} columns; rows are samples and columns are channels. "
        "If yours are channels x samples, transpose them (X.T)."
    )


def differing(shapes: Mapping[str, Sequence[int]]) -> str:
    """The message about views, by name, that differ in length."""
    found = ", ".join(f"{name!r} has {shape[0]}" for name, shape in shapes.items())
    columns = {int(shape[1]) for shape in shapes.values()}
    wide = len(columns) == 1 and min(columns) > max(shape[0] for shape in shapes.values())
    advice = (
        f"All have {min(columns)} columns: if they are channels x samples, transpose them (X.T)."
        if wide
        else "They must be samples of the same moments; cut or resample them to a common clock."
    )
    return f"the views differ in length: {found} samples. {advice}"


# Cross-validation of scikit-learn must split the rows of views, never the list that holds them.


def refuse_split_by_views(estimator: Any) -> None:
    """Raise `SplitByViews` if cross-validation requests the tags of ``estimator`` to split X by views.

    Cross-validation indexes X itself: of a list ``[X, Y]`` it takes items, which are views, and the estimator is fitted
    to one of them and scored on another. What the estimator receives does not show this any more. Before that,
    scikit-learn requests the estimator's tags (is it a classifier, is X a kernel matrix), so this is called there,
    and looks for the X of the calling function in ``sklearn.model_selection``, if there is one.
    """
    is_first, frame = True, sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_name in ASKING:
        if frame.f_code.co_name == "__sklearn_tags__":
            is_first = is_first and _is_first_step(estimator, frame)
        frame = frame.f_back
    if frame is not None and str(frame.f_globals.get("__name__")).startswith("sklearn.model_selection"):
        _check_split(frame.f_locals.get("X"), is_first)


def _is_first_step(estimator: Any, frame: FrameType) -> bool:
    """Whether X reaches the estimator as it was given: it is not behind another step of a pipeline."""
    steps = getattr(frame.f_locals.get("self"), "steps", None)
    if not steps:
        return True
    working = [step for _, step in steps if step is not None and not isinstance(step, str)]
    return bool(working) and working[0] is estimator


def _check_split(X: Any, is_first: bool) -> None:
    """An error if X is a container of views. Another step, if it comes first, may take other items for samples."""
    if isinstance(X, Views) or hasattr(X, "iloc"):
        return
    held = len(getattr(X, "shape", ()))
    if isinstance(X, list | tuple):
        split = is_first or (bool(X) and all(len(getattr(item, "shape", ())) >= 2 for item in X))
    else:
        split = isinstance(X, Mapping) or hasattr(X, "data_vars") or (is_first and held == 3)
    if split:
        what = f"{held}-D array" if held else type(X).__name__
        raise SplitByViews(
            f"cross-validation splits a {what} by views, not by rows: a model would be fitted to some of the views and "
            "scored on the others. Give dlcca.Views.of(views), which is split by rows; or two arrays, as fit(X, Y); or "
            "a DataFrame with columns (view, channel)."
        )
