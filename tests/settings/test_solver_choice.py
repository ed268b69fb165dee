"""Which solver "auto" takes, by the stated cost."""

import pytest

from dlcca.numerics.eigensolvers import width
from dlcca.numerics.fusion import FUSIONS
from dlcca.settings.auto import choose, gram_matrices, gram_seconds, lanczos_seconds
from dlcca.settings.fit import Settings

KNN = {"neighborhoods": "knn", "fusion": "alternating", "n_links": 32, "coordinates": "diffusion"}


def solver(n, K, **options):
    choices = choose(Settings.from_options(**options), n, K, (3,) * K)
    return choices.settings.spectrum.solver, choices.reasons["solver"]


@pytest.mark.parametrize("n", [2000, 10**5, 10**6, 10**8])
def test_two_thousand_landmarks_take_gram_matrices_however_many_samples_there_are(n):
    for options in (KNN, {"neighborhoods": "time", "kernel": "sparse"}, {"neighborhoods": "time", "kernel": "dense"}):
        found, reason = solver(n, 2, landmarks=2000, **options)
        assert found == "gram"
        assert "2000 landmarks are few enough" in reason


@pytest.mark.parametrize(("K", "m"), [(1, 12_000), (2, 7000), (3, 5000), (2, 200_000)])
def test_matrices_above_a_gibibyte_are_never_made(K, m):
    options = {**KNN, "fusion": "alternating" if K > 1 else "view"}
    found, reason = solver(max(m, 10**6), K, landmarks=m, **options)
    assert found == "lanczos"
    assert f"{m} x {m} landmarks would take" in reason
    assert "GiB" in reason


def test_every_sample_a_landmark_takes_lanczos():
    assert solver(200_000, 2, landmarks="all", **KNN)[0] == "lanczos"


def test_many_landmarks_of_few_samples_take_lanczos_and_the_reason_tells_both_times():
    found, reason = solver(5000, 2, landmarks="all", **KNN)
    assert found == "lanczos"
    gram, lanczos = gram_seconds(5000, 5000, 32, 2), lanczos_seconds(5000, 5000, 32, 2, 2)
    assert gram > 2 * lanczos
    assert f"{lanczos:.0f} s of a core, {gram:.0f} by matrices" in reason


def test_what_was_said_is_not_changed():
    choices = choose(Settings.from_options(landmarks=200_000, solver="gram", **KNN), 200_000, 2)
    assert choices.settings.spectrum.solver == "gram"


def test_the_costs_count_the_matrices_and_vectors_that_there_are():
    assert [gram_matrices(K) for K in (2, 3, 4, 7)] == [len(FUSIONS["alternating"].gram_pairs(K)) for K in (2, 3, 4, 7)]
    assert gram_matrices(1) == 1
    for q in (1, 5, 20):
        assert width(q + 1) == max(8, q + 3)
    assert gram_seconds(2 * 10**6, 1000, 32, 2) > 1.5 * gram_seconds(10**6, 1000, 32, 2)
    assert lanczos_seconds(2 * 10**6, 1000, 32, 2, 5) > 1.5 * lanczos_seconds(10**6, 1000, 32, 2, 5)
