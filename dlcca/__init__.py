"""dlcca: find what your sensors have in common.

The public names are here, and nothing else; each is loaded when it is first used, so that importing the package
(and ``dlcca --help``) costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dlcca import baselines as baselines
    from dlcca import export as export
    from dlcca import simulate as simulate
    from dlcca.estimator import LocalCCA as LocalCCA
    from dlcca.estimator import fit as fit
    from dlcca.estimator import open_model as open_model
    from dlcca.estimator import refit as refit
    from dlcca.estimator import transform as transform
    from dlcca.inspection.private_part import private as private
    from dlcca.inspection.stability import stability as stability
    from dlcca.inspection.tuning import tune as tune
    from dlcca.inspection.view_subsets import who_shares as who_shares
    from dlcca.recordings.recorded_views import from_mne as from_mne
    from dlcca.recordings.recorded_views import open_views as open_views
    from dlcca.settings.fit import Settings as Settings
    from dlcca.trust.lags import lags as lags
    from dlcca.views import Views as Views

_HOME = {
    **dict.fromkeys(("LocalCCA", "fit", "transform", "open_model", "refit"), "dlcca.estimator"),
    "lags": "dlcca.trust.lags",
    "private": "dlcca.inspection.private_part",
    **dict.fromkeys(("from_mne", "open_views"), "dlcca.recordings.recorded_views"),
    "Settings": "dlcca.settings.fit",
    "stability": "dlcca.inspection.stability",
    "who_shares": "dlcca.inspection.view_subsets",
    "tune": "dlcca.inspection.tuning",
    "Views": "dlcca.views",
    **dict.fromkeys(("baselines", "export", "simulate")),
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dlcca' has no attribute {name!r}")
    home = _HOME[name]
    return import_module(f"dlcca.{name}") if home is None else getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
