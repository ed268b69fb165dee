"""Cross-validation of scikit-learn splits the rows of views, or is refused with the way that works."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dlcca import LocalCCA, Views, simulate
from dlcca.errors import DlccaError

KNN = {"neighborhoods": "knn", "landmarks": 100, "n_neighbors": 20, "random_state": 0}
GRID = {"ridge": [0.03, 0.3]}
SAYS = r"splits .* by views, not by rows.*Views\.of"


@pytest.fixture(scope="module")
def torus():
    return simulate.torus(600, common="big", random_state=0)[0]


def views_of(torus, K):
    return [torus[k % 2] * (1 + k) for k in range(K)]


@pytest.mark.parametrize("K", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(
    "cv", [2, 3, 4, 5, KFold(2, shuffle=True, random_state=0), LeaveOneOut(), ShuffleSplit(2, train_size=0.5)], ids=str
)
def test_a_list_of_views_is_never_split_by_views(K, cv, torus):
    views = views_of(torus, K)
    with pytest.raises(DlccaError, match=SAYS):
        GridSearchCV(LocalCCA(**KNN), GRID, cv=cv).fit(views)
    with pytest.raises(DlccaError, match=SAYS):
        cross_val_score(LocalCCA(**KNN), tuple(views), cv=cv)


def containers(torus):
    X, Y = torus
    return {
        "list": [X, Y],
        "tuple": (X, Y),
        "list of lists": [X.tolist(), Y.tolist()],
        "list of columns": [X[:, 0], Y[:, 0]],
        "dict": {"left": X, "right": Y},
        "Dataset": xr.Dataset({"left": (("time", "a"), X), "right": (("time", "b"), Y)}),
        "3-D array": np.stack([X, Y]),
        "list of frames": [pd.DataFrame(X), pd.DataFrame(Y)],
    }


KINDS = ["list", "tuple", "list of lists", "list of columns", "dict", "Dataset", "3-D array", "list of frames"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "validated",
    [
        lambda views: GridSearchCV(LocalCCA(**KNN), GRID).fit(views),
        lambda views: GridSearchCV(LocalCCA(**KNN), GRID, cv=2, n_jobs=1, refit=False).fit(views),
        lambda views: RandomizedSearchCV(LocalCCA(**KNN), GRID, n_iter=1, cv=2).fit(views),
        lambda views: cross_val_score(LocalCCA(**KNN), views, cv=2),
        lambda views: cross_validate(LocalCCA(**KNN), views, cv=2, scoring=lambda model, views: 1.0),
        lambda views: cross_val_predict(make_pipeline(LocalCCA(**KNN), KMeans(2)), views, cv=2),
        lambda views: GridSearchCV(Pipeline([("common", LocalCCA(**KNN))]), {"common__ridge": [0.1]}, cv=2).fit(views),
    ],
    ids=["grid", "grid of 2", "random", "score", "scoring", "predict", "pipeline"],
)
def test_every_container_of_views_and_every_way_to_split_it_is_refused(kind, validated, torus):
    with pytest.raises(DlccaError, match=SAYS):
        validated(containers(torus)[kind])


def scaled(views):
    return [StandardScaler().fit_transform(X) for X in (views.arrays if isinstance(views, Views) else views)]


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "list of frames"])
def test_steps_before_it_do_not_hide_a_split_of_views(kind, torus):
    lines = [
        make_pipeline(FunctionTransformer(scaled), LocalCCA(**KNN)),
        make_pipeline(FunctionTransformer(scaled), LocalCCA(**KNN), LogisticRegression()),
        make_pipeline("passthrough", LocalCCA(**KNN)),
    ]
    for line in lines:
        with pytest.raises(DlccaError, match=SAYS):
            cross_val_score(line, containers(torus)[kind], cv=2)


def test_views_frames_and_two_arrays_are_split_by_rows(torus):
    X, Y = torus
    frame = pd.concat({"left": pd.DataFrame(X), "right": pd.DataFrame(Y)}, axis=1)
    rows = KFold(3, shuffle=True, random_state=0)
    model = LocalCCA(**KNN)
    expected = [model.fit([X[a], Y[a]]).score([X[b], Y[b]]) for a, b in rows.split(X)]
    for views in ((Views.of([X, Y]),), (Views.of({"left": X, "right": Y}),), (frame,), (X, Y)):
        np.testing.assert_array_equal(cross_val_score(model, *views, cv=rows), expected)
    search = GridSearchCV(model, GRID, cv=rows).fit(Views.of(torus))
    assert search.best_score_ > 0.8
    assert search.transform(Views.of(torus)).shape == (600, 2)
    assert GridSearchCV(model, GRID, cv=rows).fit(X, Y).best_score_ == search.best_score_
    assert cross_val_predict(make_pipeline(model, KMeans(2)), Views.of(torus), cv=rows).shape == (600,)
    line = make_pipeline(FunctionTransformer(scaled), model)
    assert len(cross_val_score(line, Views.of(torus), cv=rows)) == 3


def test_a_search_in_other_processes_is_split_by_rows_or_refused_alike(torus):
    with pytest.raises(DlccaError, match=SAYS):
        GridSearchCV(LocalCCA(**KNN), GRID, cv=2, n_jobs=2).fit(torus)


def test_labels_of_a_later_step_go_past_it(torus):
    views, labels = Views.of(torus), np.arange(600) % 2
    line = make_pipeline(LocalCCA(**KNN), LogisticRegression())
    assert line.fit(views, labels).predict(views).shape == (600,)
    assert len(cross_val_score(line, views, labels, cv=3)) == 3


def test_trials_of_a_step_that_makes_views_of_them_are_not_taken_for_views(torus):
    trials = np.random.default_rng(0).standard_normal((600, 2, 3))
    trials[:, 1] = trials[:, 0] + 0.1 * trials[:, 1]
    line = make_pipeline(FunctionTransformer(lambda T: Views.of([T[:, 0], T[:, 1]])), LocalCCA(**KNN))
    assert len(cross_val_score(line, trials, cv=2)) == 2


def test_views_of_unequal_lengths_are_not_split(torus):
    with pytest.raises(DlccaError, match="differ in length"):
        Views.of([torus[0], torus[1][:100]])
