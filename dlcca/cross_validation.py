"""Cross-validation of scikit-learn must split the rows of views, never the list that holds them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from dlcca.errors import SplitByViews
from dlcca.views import Views

#: Functions of scikit-learn between cross-validation and the tags of an estimator; a pipeline asks in a loop.
ASKING = ("get_tags", "__sklearn_tags__", "<genexpr>", "is_classifier", "is_regressor", "_safe_split")


def refuse_split_by_views(estimator: Any) -> None:
    """Raise `SplitByViews` if cross-validation asks for the tags of ``estimator`` to split X by views.

    Cross-validation indexes X itself: of a list ``[X, Y]`` it takes items, which are views, and the estimator is fitted
    to one of them and scored on another. What the estimator receives does not show this any more. Before that,
    scikit-learn asks for the estimator's tags (is it a classifier, is X a kernel matrix), so this is called there,
    and looks for the X of the function in ``sklearn.model_selection`` that asked, if there is one.
    """
    is_first, frame = True, sys._getframe(1).f_back
    while frame is not None and frame.f_code.co_name in ASKING:
        if frame.f_code.co_name == "__sklearn_tags__":
            is_first = is_first and _is_first_step(estimator, frame)
        frame = frame.f_back
    if frame is not None and str(frame.f_globals.get("__name__")).startswith("sklearn.model_selection"):
        _check(frame.f_locals.get("X"), is_first)


def _is_first_step(estimator: Any, frame: FrameType) -> bool:
    """Whether X reaches the estimator as it was given: it is not behind another step of a pipeline."""
    steps = getattr(frame.f_locals.get("self"), "steps", None)
    if not steps:
        return True
    working = [step for _, step in steps if step is not None and not isinstance(step, str)]
    return bool(working) and working[0] is estimator


def _check(X: Any, is_first: bool) -> None:
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
