"""Packages that only some clusters need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dlcca.errors import SettingsError


@contextmanager
def needs(package: str, extra: str, besides: str = "") -> Iterator[None]:
    """Turns the failure to import a package into a message that names the extra which brings it."""
    try:
        yield
    except ImportError as error:
        raise SettingsError(
            f"this kind of cluster needs {package}, which is not installed here ({error}): "
            f"pip install 'dlcca[{extra}]'{besides}"
        ) from error
