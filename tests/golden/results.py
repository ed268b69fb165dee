"""Results of small fits in memory and by blocks, as plain numbers to keep or to compare.

python -m tests.golden.results             # writes tests/golden/results.json anew: say in the commit why it changed
python -m tests.golden.results other.json  # the results of this checkout, to compare two commits on one machine
"""

import itertools
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dlcca import LocalCCA, simulate
from dlcca.errors import Untrusted

FILE = Path(__file__).with_name("results.json")
FUSIONS = ("view", "average", "alternating")
NEIGHBORHOODS = ("time", "knn")
DTYPES = ("float32", "float64")
WHERE = ("memory", "blocks")
#: Every row with this distance to the one before is kept.
STEP = 16
N = 400


def cases() -> list[tuple[str, str, str, str]]:
    return list(itertools.product(FUSIONS, NEIGHBORHOODS, DTYPES, WHERE))


def name_of(case: tuple[str, str, str, str]) -> str:
    return " ".join(case)


def views_of(neighborhoods: str, dtype: str) -> list[np.ndarray]:
    """Two short movies whose dynamics are common, or two views of one state."""
    if neighborhoods == "time":
        views, _ = simulate.pendulums(N, private=True, random_state=0)
        views = [X[:, :40] for X in views]
    else:
        views, _ = simulate.torus(N, random_state=0)
    return [X.astype(dtype) for X in views]


def result_of(case: tuple[str, str, str, str]) -> dict[str, Any]:
    """The fit of a case: eigenvalues, some rows of the embedding and of the strengths, p-value, what is common."""
    fusion, neighborhoods, dtype, where = case
    views = views_of(neighborhoods, dtype)
    model = LocalCCA(
        n_components=2,
        fusion=fusion,
        neighborhoods=neighborhoods,
        window=8,
        n_neighbors=32,
        coordinates="diffusion",
        landmarks=80,
        random_state=0,
    )
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", Untrusted)
        model.fit(views if where == "memory" else _on_disk(views, Path(folder)))
        embedding = np.asarray(model.embedding_, dtype=np.float64)
        new = np.asarray(model.transform([X[:5] for X in views]), dtype=np.float64)
    return {
        "eigenvalues": _plain(model.eigenvalues_),
        "embedding": _plain(embedding[::STEP]),
        "transform": _plain(new),
        "bandwidth": _plain(np.atleast_1d(model.bandwidth_)),
        "correlations": _plain(model.correlations_[::STEP, :2]),
        "strength": _plain(np.asarray(model.common_strength_)[::STEP]),
        "local_strength": _plain(model.local_quality_["strength"][::STEP]),
        "local_p_value": _plain(model.local_quality_["p_value"][::STEP]),
        "p_common": float(model.quality_["p_common"]),
        "n_common": int(model.n_common_),
        "landmarks": np.asarray(model.landmarks_)[::STEP].tolist(),
    }


def _on_disk(views: list[np.ndarray], folder: Path) -> list[Any]:
    import zarr

    arrays = []
    for number, X in enumerate(views):
        array = zarr.create_array(
            str(folder / f"{number}.zarr"), shape=X.shape, dtype=X.dtype, chunks=(64, X.shape[1]), config=_ALL_CHUNKS
        )
        array[:] = X
        arrays.append(array)
    return arrays


#: Chunks of zeros are written too.
_ALL_CHUNKS = {"write_empty_chunks": True}


def _plain(X: Any) -> Any:
    return np.asarray(X, dtype=np.float64).tolist()


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    made = {name_of(case): result_of(case) for case in cases()}
    place.write_text(
        json.dumps(made, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n", encoding="utf-8"
    )
