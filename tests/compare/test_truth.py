"""What the user knows, from files."""

import numpy as np
import pytest

from dlcca.compare.truth import Truth, read_truth
from dlcca.errors import DataError, SettingsError


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "z.npy", np.arange(6.0))
    np.savez(tmp_path / "z.npz", phase=np.arange(6.0), label=["a", "b", "", "a", "b", "a"])
    (tmp_path / "z.csv").write_text("time,depth,stage\n0,1.5,wake\n1,,wake\n2,2.5,rem\n")
    (tmp_path / "one.csv").write_text("depth\n1\n2\n")
    return tmp_path


@pytest.mark.parametrize(
    ("said", "kind", "expected", "name"),
    [
        ("z.npy", "value", [0, 1, 2, 3, 4, 5], "z"),
        ("z.npz:phase", "phase", [0, 1, 2, 3, 4, 5], "phase"),
        ("z.csv:depth", "value", [1.5, np.nan, 2.5], "depth"),
        ("one.csv", "value", [1, 2], "depth"),
    ],
)
def test_a_truth_is_an_array_or_a_column(folder, said, kind, expected, name):
    truth = read_truth(f"{folder}/{said}", kind)
    np.testing.assert_array_equal(truth.values, expected)
    assert (truth.kind, truth.name) == (kind, name)
    np.testing.assert_array_equal(truth.known, ~np.isnan(expected))


def test_labels_are_texts_too_and_an_empty_one_is_not_known(folder):
    truth = read_truth(f"{folder}/z.npz:label", "label")
    assert truth.known.tolist() == [True, True, False, True, True, True]
    np.testing.assert_array_equal(truth.numbers, [0, 1, np.nan, 0, 1, 0])
    assert read_truth(f"{folder}/z.csv:stage", "label").values.tolist() == ["wake", "wake", "rem"]


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("none.npy", DataError, "there is no file"),
        ("z.npy:phase", SettingsError, "leave 'phase' out"),
        ("z.npz", SettingsError, "holds phase, label; say which"),
        ("z.npz:phse", SettingsError, "did you mean 'phase'"),
        ("z.csv:deep", SettingsError, "did you mean 'depth'"),
        ("z.csv:stage", DataError, "for labels add --labels"),
        ("two.npy", DataError, r"shape \(3, 2\)"),
        ("bad.npy", DataError, "cannot be read"),
        ("torn.csv:b", DataError, "line 3 has another number of fields"),
        ("z.txt", SettingsError, ".npy, .npz or .csv"),
    ],
)
def test_a_truth_that_cannot_be_used_says_why(folder, said, error, words):
    np.save(folder / "two.npy", np.zeros((3, 2)))
    (folder / "bad.npy").write_bytes(b"not an array")
    (folder / "torn.csv").write_text("a,b\n1,2\n3\n")
    (folder / "z.txt").write_text("1")
    with pytest.raises(error, match=words):
        read_truth(f"{folder}/{said}", "value")


def test_labels_of_which_one_lies_in_one_stretch_alone_are_called_sorted():
    def is_sorted(labels):
        return Truth(np.array(labels), "label", "x").is_sorted

    assert not is_sorted([1] * 50 + [2] * 50)  # each is in several stretches
    assert is_sorted([1] * 50 + [2] * 50 + [3] * 10)
    assert not is_sorted([1, 2, 3] * 30)
    assert not Truth(np.arange(90.0), "value", "x").is_sorted
    assert Truth(np.array([1, 2] * 10), "label", "x").folds("blocked").tolist() == sorted([0, 1, 2, 3, 4] * 4)
