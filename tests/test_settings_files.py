"""Settings files with random values: whatever is in one, a verb ends with a sentence and a known exit code."""

import sys
import tomllib
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
import zarr
from scipy.io import wavfile
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import DlccaError
from tests import settings_files

KNOWN = {0, 2, 3, 4, 5}
SEEDS = 120  # of each kind of file; `python -m tests.test_settings_files 3000` tries so many of each


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(tmp_path_factory.mktemp("settings"))


def made(folder: Path) -> Path:
    """The inputs that the files name: two arrays, and a sound with two channels."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((300, 2)), axis=0)
    for name in ("left", "right"):
        array = zarr.create_array(str(folder / f"{name}.zarr"), shape=walk.shape, chunks=(100, 2), dtype=walk.dtype)
        array[:] = walk + 0.1 * rng.standard_normal(walk.shape)
    np.savetxt(folder / "right.csv", walk, delimiter=",", header="a,b", comments="")
    wavfile.write(folder / "sound.wav", 400, rng.standard_normal((4000, 2)).astype(np.float32))
    return folder


def complaint(folder: Path, text: str, *command: str) -> str:
    """What is wrong with the end of a verb on a file of this text; nothing if all is well."""
    file = folder / "file.toml"
    file.write_text(text, encoding="utf-8")
    tomllib.loads(text)  # or the generator is wrong
    done = CliRunner().invoke(app, [*command, str(file)])
    if done.exit_code in KNOWN and (done.exit_code == 0 or done.stderr.strip()) and "Traceback" not in done.output:
        return ""
    return f"exit code {done.exit_code}: {done.stderr.strip()[-300:] or repr(done.exception)}"


def planned(folder: Path, seed: int) -> tuple[str, str]:
    text = settings_files.run_file(Random(f"run {seed}"))
    return text, complaint(folder, text, "plan")


def night(folder: Path, seed: int) -> tuple[str, str]:
    text = settings_files.pipeline_file(Random(f"pipeline {seed}"))
    return text, complaint(folder, text, "pipeline", "status")


def cluster(folder: Path, seed: int) -> tuple[str, str]:
    """A cluster file is read, and what Dask is told of it made; nothing is started."""
    from dlcca.clusters import dask_config, profile_for

    text = settings_files.cluster_file(Random(f"cluster {seed}"))
    (folder / "cluster.toml").write_text(text, encoding="utf-8")
    try:
        profile = profile_for(str(folder / "cluster.toml"), None, None)
        dask_config.configuration(profile), dask_config.environment(profile)
    except DlccaError as error:
        return text, "" if str(error).strip() else "an error without a sentence"
    except Exception as error:
        return text, f"{type(error).__name__}: {error}"
    return text, ""


@pytest.mark.parametrize("tried", [planned, night, cluster])
def test_a_settings_file_with_random_values_ends_with_a_sentence_and_a_known_code(tried, folder):
    found = [(seed, *tried(folder, seed)) for seed in range(SEEDS)]
    wrong = [f"seed {seed}: {said}\n{text}" for seed, text, said in found if said]
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[neighborhoods]\nkind = []", r"neighborhoods=[] is an array (0,) of float64; row numbers (L, k) are needed"),
        (
            "[neighborhoods]\nkind = [1, 2]",
            r"neighborhoods=[1, 2] is an array (2,) of int64; row numbers (L, k) are needed",
        ),
        ("[landmarks]\ncount = [[1], [2, 3]]", "landmarks=[[1], [2, 3]]; row numbers (L,) are needed"),
        ("[cluster]\nworkers = true", "[cluster] workers = True; a whole number of at least 1 is needed"),
        ("[cluster]\nmemory_gib = 'much'", "[cluster] memory_gib = 'much'; a number above 0 is needed"),
        ("[spectrum]\nn_components = 1" + "0" * 30, "at most 9223372036854775807 is possible"),
        ("[spectrum]\nn_components = 1" + "0" * 5000, "is not TOML"),
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_needed(text, sentence, folder):
    views = "[store]\npath = 'run.zarr'\n[views.left]\nsource = 'left.zarr'\n[views.right]\nsource = 'right.zarr'\n"
    (folder / "wrong.toml").write_text(text + "\n" + views)
    done = CliRunner().invoke(app, ["plan", str(folder / "wrong.toml")])
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        inputs = made(Path(place))
        for tried in (planned, night, cluster):
            results = [tried(inputs, seed) for seed in range(int(sys.argv[1]))]
            wrong = Counter(said for _, said in results if said)
            print(f"{tried.__name__}: {sum(wrong.values())} of {len(results)} end badly")
            for said, count in wrong.most_common(60):
                print(f"  {count:4d} {said}")
