"""dlcca: find what your sensors have in common.

The public names are here, and nothing else; each is loaded when it is first used, so that importing the package
(and ``dlcca --help``) costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dlcca import baselines as baselines
    from dlcca import export as export
    from dlcca import simulate as simulate
    from dlcca.aligning import lags as lags
    from dlcca.estimator import LocalCCA as LocalCCA
    from dlcca.estimator import fit as fit
    from dlcca.estimator import open_model as open_model
    from dlcca.estimator import refit as refit
    from dlcca.estimator import transform as transform
    from dlcca.halves import stability as stability
    from dlcca.private_view import private as private
    from dlcca.recorded import from_mne as from_mne
    from dlcca.recorded import open_views as open_views
    from dlcca.settings import Settings as Settings
    from dlcca.subsets import who_shares as who_shares
    from dlcca.tuning import tune as tune
    from dlcca.views import Views as Views

_HOME = {
    "LocalCCA": "dlcca.estimator",
    "fit": "dlcca.estimator",
    "transform": "dlcca.estimator",
    "open_model": "dlcca.estimator",
    "refit": "dlcca.estimator",
    "lags": "dlcca.aligning",
    "private": "dlcca.private_view",
    "from_mne": "dlcca.recorded",
    "open_views": "dlcca.recorded",
    "Settings": "dlcca.settings",
    "stability": "dlcca.halves",
    "who_shares": "dlcca.subsets",
    "tune": "dlcca.tuning",
    "Views": "dlcca.views",
    "baselines": None,
    "export": None,
    "simulate": None,
}

__all__ = [
    "LocalCCA",
    "Settings",
    "Views",
    "__version__",
    "baselines",
    "export",
    "fit",
    "from_mne",
    "lags",
    "open_model",
    "open_views",
    "private",
    "refit",
    "simulate",
    "stability",
    "transform",
    "tune",
    "who_shares",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dlcca' has no attribute {name!r}")
    home = _HOME[name]
    return import_module(f"dlcca.{name}") if home is None else getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
