"""Potential coordinates through landmarks against walks between all samples."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlcca.numerics import potential
from dlcca.numerics.coordinates import signs
from dlcca.numerics.distances import squared_distances
from dlcca.numerics.fusion import FUSIONS
from dlcca.numerics.kernels import balanced, gram, relative_rows, sparse_rows
from dlcca.numerics.potential import (
    arrivals,
    features,
    potential_coordinates,
    principal_components,
    transitions,
    walked_arrivals,
)
from dlcca.numerics.topk import closest_links
from tests.numerics.cases import quick, seeds
from tests.reference import potential as reference

ANCHORS = np.arange(1, 16, 2)


def kernels_of_a_common_line(seed, K, *, n=35, m=16, sparse=False, width=0.3):
    """A kernel to the same landmarks, the first m samples, for each of K views of a common variable on a line."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(0, 2, n)
    kernels = []
    for _ in range(K):
        x = np.column_stack([z, rng.uniform(0, 0.5, n)])
        D = squared_distances(x, x[:m])
        if sparse:
            links, nearest = closest_links(D, 8)
            kernels.append(sparse_rows(relative_rows(nearest, width), links, m))
        else:
            kernels.append(relative_rows(D, width))
    return kernels


def circle_of(kernels):
    """Transition matrices, and the column sums of the first kernel."""
    halves = [balanced(W) for W in kernels]
    pairs = FUSIONS["alternating"].gram_pairs(len(kernels))
    C = [c for _, c in halves]
    return transitions({(u, v): gram(halves[u][0], halves[v][0]) for u, v in pairs}, C), C[0]


def probabilities_of(kernels, t, anchors=ANCHORS):
    return arrivals(*circle_of(kernels), anchors, t).probabilities


def parts_of(kernels, t, anchors=ANCHORS):
    return [features(W, B) for W, B in zip(kernels, probabilities_of(kernels, t, anchors), strict=True)]


def chosen(kernels):
    """The diffusion time that is chosen, with the number of states."""
    found = arrivals(*circle_of(kernels), ANCHORS)
    return found.time, found.states


def dense(kernels):
    return [W.toarray() if sp.issparse(W) else W for W in kernels]


@quick
@given(seed=seeds, K=st.integers(1, 4), t=st.integers(1, 6), sparse=st.booleans())
def test_features_equal_those_of_walks_between_all_samples(seed, K, t, sparse):
    kernels = kernels_of_a_common_line(seed, K, sparse=sparse)
    for v, f in enumerate(parts_of(kernels, t)):
        np.testing.assert_allclose(f, reference.features(dense(kernels), v, t, ANCHORS), atol=1e-9)


def circle_by_steps(kernels):
    """The products of the transition matrices with vectors, and the column sums of all kernels."""
    halves = [balanced(W) for W in kernels]
    C = [c for _, c in halves]
    P = transitions({(u, v): gram(A, B) for u, (A, _) in enumerate(halves) for v, (B, _) in enumerate(halves)}, C)
    return lambda v, V: P[v] @ V, C


@quick
@given(seed=seeds, K=st.integers(1, 4), t=st.integers(1, 6), sparse=st.booleans())
def test_products_with_vectors_give_what_the_matrices_give(seed, K, t, sparse):
    kernels = kernels_of_a_common_line(seed, K, sparse=sparse)
    walked = walked_arrivals(*circle_by_steps(kernels), ANCHORS, t)
    for by_steps, W, v in zip(walked.probabilities, kernels, range(K), strict=True):
        np.testing.assert_allclose(features(W, by_steps), reference.features(dense(kernels), v, t, ANCHORS), atol=1e-9)


@pytest.mark.parametrize("width", [0.3, 0.05, 0.02])
@pytest.mark.parametrize("K", [1, 2, 3])
def test_with_every_landmark_as_anchor_products_choose_the_same_time(width, K, monkeypatch):
    monkeypatch.setattr(potential, "WIDTH", 5)
    kernels = kernels_of_a_common_line(0, K, width=width)
    everyone = np.arange(16)
    by_steps, found = walked_arrivals(*circle_by_steps(kernels), everyone), arrivals(*circle_of(kernels), everyone)
    assert by_steps.time == found.time
    assert by_steps.states == pytest.approx(found.states, rel=1e-9)
    for one, other in zip(by_steps.probabilities, found.probabilities, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@quick
@given(seed=seeds, K=st.integers(1, 3), sparse=st.booleans())
def test_coordinates_equal_those_of_the_reference(seed, K, sparse):
    kernels = kernels_of_a_common_line(seed, K, sparse=sparse)
    sample = np.arange(16)
    expected, variances, alone = reference.coordinates(dense(kernels), 2, 1, ANCHORS, sample)
    known, parts = probabilities_of(kernels, 1), parts_of(kernels, 1)
    fitted = principal_components([f[sample] for f in parts], 2)
    found = potential_coordinates(kernels, known, fitted)
    np.testing.assert_allclose(fitted.variances, variances, rtol=1e-7)
    if variances[0] < 1.05 * variances[1]:
        return  # directions of nearly equal variances are arbitrary
    first = [0]  # the second is far from the third only by chance
    np.testing.assert_allclose((found * signs(found))[:, first], (expected * signs(expected))[:, first], atol=1e-6)
    for v in range(K) if K > 1 else ():
        one = potential_coordinates([W if u == v else None for u, W in enumerate(kernels)], known, fitted)
        np.testing.assert_allclose((one * signs(found))[:, first], (alone[v] * signs(expected))[:, first], atol=1e-6)


@quick
@given(seed=seeds, K=st.integers(1, 3), width=st.sampled_from([0.01, 0.03, 0.3]))
def test_diffusion_time_is_that_of_the_reference(seed, K, width):
    kernels = kernels_of_a_common_line(seed, K, n=40, m=30, width=width)
    t, states = chosen(kernels)
    assert states == pytest.approx(reference.number_of_states(kernels, 4), rel=1e-7)
    assert t == reference.diffusion_time(kernels)
    expected = [reference.features(kernels, v, t, ANCHORS) for v in range(K)]
    np.testing.assert_allclose(parts_of(kernels, None), expected, atol=1e-8)


def test_wide_kernels_take_one_round_and_narrow_ones_many():
    wide, narrow = (kernels_of_a_common_line(0, 2, n=200, m=100, width=width) for width in (1.0, 0.003))
    assert chosen(wide)[0] == 1
    assert chosen(narrow)[0] >= 8


def test_diffusion_time_ignores_a_separate_piece():
    kernels = kernels_of_a_common_line(0, 2, n=100, m=50, width=1.0)
    apart = []
    for W in kernels:
        W = W.copy()
        W[:3, 3:] = 0  # three samples, landmarks themselves, that no other sample is linked to
        W[3:, :3] = 0
        apart.append(W)
    assert chosen(apart)[0] == 1


@quick
@given(seed=seeds, K=st.integers(1, 4), t=st.integers(1, 9))
def test_probabilities_sum_to_one(seed, K, t):
    for B in arrivals(*circle_of(kernels_of_a_common_line(seed, K, sparse=True)), np.arange(16), t).probabilities:
        np.testing.assert_allclose(B.sum(axis=1), 1, atol=1e-12)
        assert (B >= 0).all()


@quick
@given(seed=seeds, cut=st.integers(1, 34), sparse=st.booleans())
def test_rows_do_not_depend_on_each_other_or_on_factors_of_their_own(seed, cut, sparse):
    kernels = kernels_of_a_common_line(seed, 2, sparse=sparse)
    for W, B in zip(kernels, arrivals(*circle_of(kernels), ANCHORS, 2).probabilities, strict=True):
        whole = features(W, B)
        np.testing.assert_allclose(np.concatenate([features(W[:cut], B), features(W[cut:], B)]), whole, atol=1e-12)
        scale = np.random.default_rng(seed).uniform(0.1, 10, len(whole))
        scaled = sp.diags_array(scale).tocsr() @ W if sparse else W * scale[:, None]
        np.testing.assert_allclose(features(scaled, B), whole, atol=1e-12)


@quick
@given(seed=seeds, t=st.integers(1, 3))
def test_the_order_of_landmarks_does_not_matter(seed, t):
    kernels = kernels_of_a_common_line(seed, 2)
    order = np.random.default_rng(seed).permutation(16)
    place = np.argsort(order)[ANCHORS]
    turned = [W[:, order] for W in kernels]
    for one, other in zip(parts_of(kernels, t), parts_of(turned, t, place), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    assert chosen(kernels)[0] == arrivals(*circle_of(turned), place).time


@quick
@given(seed=seeds, K=st.integers(1, 3), dtype=st.sampled_from([np.float32, np.float64]), links=st.integers(1, 9))
def test_compiled_coordinates_are_those_of_scipy(seed, K, dtype, links):
    rng = np.random.default_rng(seed)
    kernels = []
    for W in kernels_of_a_common_line(seed, K, sparse=True):
        W.data *= rng.random(len(W.data)) < links / 9  # rows of different lengths
        W = sp.csr_array(W + sp.eye_array(*W.shape, format="csr"))
        W.eliminate_zeros()
        kernels.append(sp.csr_array(W.astype(dtype)[W.sum(axis=1) > 0]))
    kernels = [W[: min(len(W.indptr) - 1 for W in kernels)] for W in kernels]
    known = [rng.random((16, 8)) for _ in kernels]
    fitted = principal_components([features(W, B) for W, B in zip(kernels, known, strict=True)], 2)
    expected = potential_coordinates(kernels, known, fitted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(potential, "FEW_PRODUCTS", 0)
        found = potential_coordinates(kernels, known, fitted)
    np.testing.assert_allclose(found, expected, atol=1e-12 if dtype == np.float64 else 1e-5)


@quick
@given(seed=seeds, K=st.integers(1, 3), t=st.integers(1, 9))
def test_probabilities_in_single_precision_keep_their_digits(seed, K, t):
    P, C = circle_of(kernels_of_a_common_line(seed, K, sparse=True))
    expected = arrivals(P, C, ANCHORS, t).probabilities
    found = arrivals([p.astype(np.float32) for p in P], C, ANCHORS, t).probabilities
    for single, B in zip(found, expected, strict=True):
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, B, rtol=1e-4, atol=1e-25)


def test_one_view_alone_predicts_the_coordinates_of_all():
    kernels = kernels_of_a_common_line(0, 3, n=300, m=100)
    known, parts = (of(kernels, 1, np.arange(0, 100, 2)) for of in (probabilities_of, parts_of))
    fitted = principal_components([f[:100] for f in parts], 2)
    whole = potential_coordinates(kernels, known, fitted)
    for present in ([0], [1], [2], [0, 2]):
        some = potential_coordinates([W if v in present else None for v, W in enumerate(kernels)], known, fitted)
        assert np.corrcoef(some[:, 0], whole[:, 0])[0, 1] > 0.95
        assert some[:, 0].std() == pytest.approx(whole[:, 0].std(), rel=0.15)


def test_coordinates_have_no_variance_beyond_the_rank():
    kernels = [np.ones((30, 16))] * 2  # a walker is anywhere after one step
    known, fitted = probabilities_of(kernels, 1), principal_components(parts_of(kernels, 1), 2)
    assert np.isfinite(potential_coordinates(kernels, known, fitted)).all()
    assert np.isfinite(potential_coordinates([kernels[0], None], known, fitted)).all()
    np.testing.assert_allclose(fitted.variances, 0, atol=1e-20)


def test_features_in_single_precision_are_those_in_double_precision_to_rounding():
    rng = np.random.default_rng(0)
    W, B = rng.random((30, 12)), rng.random((12, 5))
    B /= B.sum(axis=1, keepdims=True)
    for kernel in (W, sp.csr_array(W)):
        single = features(kernel.astype(np.float32), B)
        assert single.dtype == np.float64  # sums over rows follow
        np.testing.assert_allclose(single, features(kernel, B), atol=1e-6)
