"""Finished runs to store, to damage and to draw, made up in no time."""

from typing import Any

import numpy as np

from dlcca.settings.fit import Settings
from dlcca.storage.run import Run, fingerprint


def made_up(n: int = 200, q: int = 3, **changed: Any) -> Run:
    """A run of two views that share one slow oscillation; any field may be given."""
    rng = np.random.default_rng(0)
    time = np.arange(n) * 0.05
    settings = Settings().to_dict()
    facts: dict[str, Any] = {
        "embedding": np.column_stack([np.cos((i + 1) * time) for i in range(q)]),
        "time": time,
        "time_unit": "s",
        "eigenvalues": 0.8 ** np.arange(1, q + 1),
        "landmarks": np.arange(0, n, 2),
        "correlations": np.sort(rng.uniform(size=(len(range(0, n, 2)), 4)))[:, ::-1],
        "n_common": 1,
        "quality": {"top_correlation": 0.9, "null_edge": 0.5, "landmarks_above_edge": 0.97, "trusted": True},
        "warnings": [],
        "views": {"left": 5, "right": 7},
        "settings": settings,
        "choices": ["landmarks = 100: enough to cover 200 samples", "metric = 'cca': two views"],
        "fingerprint": fingerprint({"left": time[:, None]}, settings),
    }
    return Run(**{**facts, **changed})
