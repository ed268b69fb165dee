"""Sections of a settings file into frozen dataclasses: unknown keys and values of another type are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from dlcca.errors import SettingsError, suggest

Section = TypeVar("Section")

#: Annotation of a field -> whether a value is of this type, and what is needed in words.
_KINDS: dict[str, tuple[Any, str]] = {
    "str": (lambda value: isinstance(value, str), "a text"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "float": (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number"),
    "tuple[str, ...]": (lambda value: all(isinstance(text, str) for text in value), "a text or a list of texts"),
}


def section(made: type[Section], content: Mapping[str, Any], name: str) -> Section:
    """The settings of ``[name]``; what is not said keeps its default."""
    values = content.get(name, {})
    if not isinstance(values, Mapping):
        raise SettingsError(f"{name} = {values!r}; a section [{name}] is needed.")
    known = {field.name: str(field.type) for field in fields(made)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise SettingsError(f"[{name}] {key} is not a setting; {suggest(key, known)}")
        given[key] = _of_kind(value, known[key], f"[{name}] {key}")
    try:
        return made(**given)
    except SettingsError as error:
        raise SettingsError(f"[{name}] {error}") from error


def _of_kind(value: Any, kind: str, where: str) -> Any:
    if kind == "tuple[str, ...]" and isinstance(value, str | list | tuple):
        value = (value,) if isinstance(value, str) else tuple(value)
    elif kind == "tuple[str, ...]":
        value = (value,)  # no text: refused below
    fits, needed = _KINDS[kind]
    if not fits(value):
        raise SettingsError(f"{where} = {value!r}; {needed} is needed.")
    return value


def at_least(least: float, **values: float) -> None:
    """An error for a value that is below."""
    for name, value in values.items():
        if not least <= value < float("inf"):
            raise SettingsError(f"{name} = {value!r}; a number of at least {least:g} is needed.")


def shares(**values: float) -> None:
    """An error for a value that is no share, from 0 to 1."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise SettingsError(f"{name} = {value!r}; a share from 0 to 1 is needed.")


def a_folder(**values: str) -> None:
    """An error for an address of object storage, which has neither links nor renames."""
    for name, value in values.items():
        if "://" in value:
            raise SettingsError(f"{name} = {value!r}; a folder on a file system is needed.")


def one_of(known: tuple[str, ...], **values: str) -> None:
    """An error for a value that means nothing."""
    for name, value in values.items():
        if value not in known:
            raise SettingsError(f"{name} = {value!r} is not known; {suggest(value, known)}")
