"""What holds for every baseline: one interface, the same invariances, the same refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dlcca import baselines
from dlcca.baselines import Baseline
from dlcca.errors import DataError, SettingsError
from tests.baselines.problems import related_views

ALL = {name: getattr(baselines, name) for name in baselines.__all__ if name != "Baseline"}
KERNELS = {name: f for name, f in ALL.items() if name != "linear_cca"}
COMPARE = {name: f for name, f in ALL.items() if name != "diffusion_maps"}


def each(methods):
    return pytest.mark.parametrize("f", methods.values(), ids=methods)


@each(ALL)
def test_every_baseline_is_public_under_its_name(f):
    assert getattr(baselines, f.__name__) is f
    assert ALL[f.__name__] is f


@each(ALL)
def test_the_result_has_the_shapes_that_were_asked_for(f):
    found = f(related_views(60, [4, 3]), n_components=3)
    assert isinstance(found, Baseline)
    assert found.embedding.shape == (60, 3)
    assert found.eigenvalues.shape == (3,)
    assert found.embedding.dtype == found.eigenvalues.dtype == np.float64
    assert found.name == f.__name__


@each(ALL)
@pytest.mark.parametrize("n", [100, 500])
def test_eigenvalues_fall_from_below_one(f, n):
    eigenvalues = f(related_views(n, [4, 3]), 3).eigenvalues
    assert (np.diff(eigenvalues) <= 0).all()
    assert 0 < eigenvalues[-1] <= eigenvalues[0] < 1


@each(ALL)
@pytest.mark.parametrize("n", [60, 500])
def test_the_order_of_the_samples_does_not_matter(f, n):
    views = related_views(n, [4, 3])
    order = np.random.default_rng(1).permutation(n)
    shuffled = f([X[order] for X in views])
    assert_allclose(shuffled.embedding, f(views).embedding[order], atol=1e-7)


@each(ALL)
def test_the_scale_and_the_origin_of_a_view_do_not_matter(f):
    X, Y = related_views(80, [4, 3])
    moved = f([1e4 * X - 3e5, 1e-4 * Y + 2])
    assert_allclose(moved.eigenvalues, f([X, Y]).eigenvalues, rtol=1e-6)
    assert_allclose(moved.embedding, f([X, Y]).embedding, atol=1e-6)


@each(ALL)
def test_turning_a_view_does_not_matter(f):
    X, Y = related_views(80, [4, 3])
    Q, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))
    assert_allclose(f([X @ Q, Y]).embedding, f([X, Y]).embedding, atol=1e-7)


@each(ALL)
@pytest.mark.parametrize("n", [60, 500])
def test_the_same_call_gives_the_same_numbers(f, n):
    views = related_views(n, [4, 3])
    assert_array_equal(f(views).embedding, f(views).embedding)


@each(ALL)
def test_the_views_given_are_left_as_they_were(f):
    views = related_views(60, [4, 3])
    before = [X.copy() for X in views]
    f(views)
    for X, old in zip(views, before, strict=True):
        assert_array_equal(X, old)


@each(ALL)
def test_a_dict_of_single_precision_gives_the_same_coordinates(f):
    X, Y = related_views(60, [4, 3])
    single = f({"a": X.astype(np.float32), "b": Y.astype(np.float32)})
    assert_allclose(single.embedding, f([X, Y]).embedding, atol=1e-3)


@each(COMPARE)
def test_three_views_are_taken(f):
    assert f(related_views(60, [4, 3, 5])).embedding.shape == (60, 2)


@each(COMPARE)
def test_views_that_are_the_same_have_the_most_in_common(f):
    X, Y = related_views(60, [4, 3])
    assert f([X, X, X]).eigenvalues[0] >= f([X, Y, X]).eigenvalues[0]


@each(KERNELS)
def test_a_given_bandwidth_is_used(f):
    views = related_views(60, [4, 3])
    assert not np.allclose(f(views, bandwidth=2.0).embedding, f(views).embedding, atol=1e-3)


@pytest.mark.parametrize("f", [baselines.kernel_cca, baselines.alternating_diffusion])
def test_each_view_may_have_a_bandwidth_of_its_own(f):
    X, Y = related_views(60, [4, 3])
    same = f([X, Y], bandwidth=5.0)
    assert_allclose(f([X, 10 * Y], bandwidth=[5.0, 500.0]).embedding, same.embedding, atol=1e-7)
    assert_allclose(f([X, Y], bandwidth=np.array([5.0, 5.0])).embedding, same.embedding, atol=1e-12)
    assert_allclose(f([X, Y], bandwidth=[None, None]).embedding, f([X, Y]).embedding, atol=1e-12)
    with pytest.raises(SettingsError, match="bandwidth has 3 entries and there are 2 views"):
        f([X, Y], bandwidth=[1.0, 2.0, 3.0])


# Refusals.


@each(ALL)
@pytest.mark.parametrize("n_components", [0, -1, 1.5, "2", None, True])
def test_a_count_that_is_none_is_refused(f, n_components):
    with pytest.raises(SettingsError, match=r"n_components=.* a whole number"):
        f(related_views(20, [4, 3]), n_components)


@each(ALL)
def test_more_coordinates_than_there_are_is_refused(f):
    with pytest.raises(SettingsError, match=r"n_components=20, but .* ask for at most \d+\."):
        f(related_views(20, [4, 3]), 20)


@each(KERNELS)
@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, "median"])
def test_a_bandwidth_that_means_nothing_is_refused(f, bandwidth):
    with pytest.raises(SettingsError, match="bandwidth="):
        f(related_views(20, [4, 3]), bandwidth=bandwidth)


@each(COMPARE)
def test_a_single_view_has_nothing_to_be_compared_with(f):
    with pytest.raises(DataError, match=f"{f.__name__} needs at least 2 views and 1 was given"):
        f(related_views(20, [4]))


@each(KERNELS)
def test_too_many_samples_for_a_dense_matrix_are_refused(f):
    views = [np.arange(10_001.0), np.arange(10_001.0)]
    with pytest.raises(DataError, match=r"10001 samples .* at most 10000"):
        f(views)


@each(KERNELS)
def test_samples_that_mostly_coincide_have_no_median_distance(f):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((1, 3)), 50, axis=0)
    X[:5] += rng.standard_normal((5, 3))
    with pytest.raises(DataError, match="half of all pairs of samples coincide"):
        f([X, rng.standard_normal((50, 2))])


@each(ALL)
@pytest.mark.parametrize(
    ("views", "complaint"),
    [
        ([], "no views were given"),
        ("views", "not str"),
        ([np.ones((5, 2)), None], "is None"),
        ([np.eye(5), np.eye(6)], "differ in length"),
        ([np.eye(5), np.full((5, 2), np.nan)], "holds NaN"),
        ([np.eye(5), np.ones((5, 2))], "'view 2' is constant"),
        ([np.ones((1, 2)), np.ones((1, 2))], "at least 2 are needed"),
        ([np.eye(5), np.zeros((5, 2, 2))], "has shape"),
        ([np.eye(5), np.eye(5) * 1j], "dtype complex"),
    ],
)
def test_views_that_cannot_be_used_are_refused(f, views, complaint):
    with pytest.raises(DataError, match=complaint):
        f(views)
