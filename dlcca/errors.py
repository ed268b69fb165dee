"""Every exception that dlcca raises.

::

    DlccaError
    ├── SettingsError            a parameter or a settings file is wrong            (exit code 2)
    │   └── StaleStage           a store was built with other settings
    ├── DataError                the recordings cannot be used as they are          (exit code 3)
    │   └── NeighborhoodTooSmall fewer neighbours than local CCA needs
    ├── StoreFileError           a store is missing, damaged or of another version  (exit code 3)
    │   ├── ModelFileError       a saved model is
    │   └── DamagedBlock         a block of a run is
    ├── SplitByViews             cross-validation would split views, not rows       (exit code 2)
    ├── NotFittedYet             a result was requested before ``fit``              (exit code 2)
    ├── ClusterError             a cluster cannot be reached                        (exit code 4)
    └── StorageError             a store cannot be written or read                  (exit code 4)
        └── StoreInUse           another run writes to it

    Untrusted                    a warning: finished, but do not trust the result   (exit code 5)

Each message names what was found, what was needed and which setting to turn. The errors about arguments are
also ``ValueError``, so that code written for scikit-learn catches them.
"""

import difflib
from collections.abc import Iterable


class DlccaError(Exception):
    """Whatever goes wrong inside dlcca, for those who want to catch it all."""

    exit_code = 1


class SettingsError(DlccaError, ValueError):
    """A parameter has a value, or a settings file a key, that is not valid."""

    exit_code = 2


class StaleStage(SettingsError):
    """A stage of a run was built from other inputs or settings than those given now."""


class DataError(DlccaError, ValueError):
    """The views cannot be used as they are."""

    exit_code = 3


class NeighborhoodTooSmall(DataError):
    """A neighborhood holds fewer samples than local CCA needs without a ridge."""


class StoreFileError(DlccaError):
    """A store is missing, damaged, or written by an incompatible version."""

    exit_code = 3


class ModelFileError(StoreFileError):
    """A saved model is missing, damaged, or written by an incompatible version."""


class DamagedBlock(StoreFileError):
    """A block of a run is missing or not what was written."""


class SplitByViews(DlccaError, IndexError):
    """Cross-validation would split a list of views by views and not by rows.

    Not a ``ValueError``, because pipelines of scikit-learn ignore one that is raised where this is.
    """

    exit_code = 2


class NotFittedYet(DlccaError, AttributeError, ValueError):
    """A result was requested before ``fit``."""

    exit_code = 2


class ClusterError(DlccaError):
    """A cluster could not be started or reached."""

    exit_code = 4


class StorageError(DlccaError, OSError):
    """A store could not be written or read."""

    exit_code = 4


class StoreInUse(StorageError):
    """Another run writes to the store, or has taken it over from this one."""


class Untrusted(UserWarning):
    """The computation finished, but its result should not be trusted; the message says why."""


def suggest(unknown: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    names = [str(name) for name in known]
    close = difflib.get_close_matches(str(unknown), names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}."


def exit_code(error: BaseException) -> int:
    """The exit code of a program that this error ends."""
    return getattr(error, "exit_code", StorageError.exit_code if isinstance(error, OSError) else 1)


def described(error: BaseException) -> str:
    """What an error says; one that is neither of dlcca nor of the system is named too, and called unexpected."""
    if isinstance(error, DlccaError | OSError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}"
