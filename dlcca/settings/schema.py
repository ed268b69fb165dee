"""One schema for all settings files: run files, cluster files and pipeline files.

A section of a file is a frozen dataclass that inherits from `Section`; each field is declared with a rule::

    @dataclass(frozen=True)
    class ClusterSettings(Section):
        workers: int | None = setting(count(1))
        memory_gib: float = setting(number(above=0), 4)

`Section` checks the values of an object when it is made, `from_table` reads a table of a TOML file, and `json_schema`
gives the JSON Schema for editors. The JSON Schema refuses nothing that the rules accept.
"""

import ast
import inspect
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from typing import Any, TypeVar

from dlcca.errors import SettingsError, suggest

Json = dict[str, Any]
#: The largest count that fits an integer of NumPy.
LARGEST = 2**63 - 1
#: Longer values are cut in messages.
SHOWN_CHARACTERS = 200


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that fits a float; true and false are none."""
    if isinstance(value, bool | str | bytes):
        return False
    try:
        return isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def is_count(value: Any, least: int) -> bool:
    """Whether a value is a whole number of at least ``least`` that fits an integer of NumPy."""
    if isinstance(value, bool):
        return False
    try:
        return least <= operator.index(value) <= LARGEST
    except TypeError:
        return False


def is_array(value: Any) -> bool:
    """Whether a value is an array or a list."""
    return hasattr(value, "shape") or isinstance(value, list | tuple)


@dataclass(frozen=True)
class Rule:
    """Which values a setting may have."""

    fits: Callable[[Any], bool]
    needed: str | Callable[[Any], str]
    """What is needed, or the end of a message about a value that does not fit."""
    schema: Json | Callable[[], Json]
    """The same for editors; a function where it takes long to make."""
    parsed: Callable[[Any], Any] = lambda value: value
    """A value of a file as the dataclass has it."""

    def complaint(self, value: Any) -> str:
        """The end of a message about a value that does not fit."""
        return f"; {self.needed}" if isinstance(self.needed, str) else self.needed(value)

    def check(self, name: str, value: Any, equals: str = "=") -> None:
        """Raise an error that names the setting, its value and what is needed."""
        if not self.fits(value):
            text = repr(list(value) if isinstance(value, tuple) else value)  # as in a file
            shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
            raise SettingsError(f"{name}{equals}{shown}{self.complaint(value)}")


def count(least: int) -> Rule:
    """A whole number."""
    needed = f"; a whole number of at least {least} is needed."
    return Rule(
        lambda value: is_count(value, least),
        lambda value: f"; at most {LARGEST} is possible." if isinstance(value, int) and value > LARGEST else needed,
        {"type": "integer", "minimum": least},
    )


def number(
    needed: str = "", *, least: float = -inf, above: float = -inf, most: float = inf, below: float = inf
) -> Rule:
    """A finite number in a range; ``needed`` says what the range is, where that is not a single lower bound."""
    bounds = {"minimum": least, "exclusiveMinimum": above, "maximum": most, "exclusiveMaximum": below}
    lower = f"above {above:g}" if isfinite(above) else f"of at least {least:g}"
    return Rule(
        lambda value: is_number(value) and least <= float(value) <= most and above < float(value) < below,
        needed or f"a number {lower} is needed.",
        {"type": "number", **{name: bound for name, bound in bounds.items() if isfinite(bound)}},
    )


def text(needed: str = "a text without NUL is needed.", *, may_be_empty: bool = False, without: str = "") -> Rule:
    """A text without NUL, and ``without`` what matches a pattern; ``needed`` is said of one that has it."""
    least = "a text is needed." if may_be_empty else "a text that is not empty is needed."
    schema: Json = {"type": "string", **({} if may_be_empty else {"pattern": r"\S"})}

    def fits(value: Any) -> bool:
        is_text = isinstance(value, str) and "\0" not in value and (may_be_empty or bool(value.strip()))
        return is_text and not (without and re.search(without, value))

    def complaint(value: Any) -> str:
        return f"; {needed if isinstance(value, str) and value.strip() else least}"

    return Rule(fits, complaint, {**schema, "not": {"pattern": without}} if without else schema)


def texts(least: int = 0, *, may_be_empty: bool = True) -> Rule:
    """A text or a list of at least so many; a tuple in the dataclass."""
    one = text(may_be_empty=may_be_empty)
    return Rule(
        lambda value: isinstance(value, tuple) and len(value) >= least and all(map(one.fits, value)),
        "a text or a list of texts is needed.",
        {"anyOf": [one.schema, {"type": "array", "items": one.schema, "minItems": least}]},
        lambda value: (value,) if isinstance(value, str) else _tuple(value),
    )


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


LINES = Rule(
    lambda value: isinstance(value, tuple) and all(isinstance(line, str) and "\n" not in line for line in value),
    "a list of single lines is needed, as ['module load python'].",
    {"type": "array", "items": {"type": "string", "not": {"pattern": "\n"}}},
    _tuple,
)
FLAG = Rule(lambda value: isinstance(value, bool), "true or false is needed.", {"type": "boolean"})
POSITIVE = number(above=0)
NOT_NEGATIVE = number(least=0)
SHARE = number("a share from 0 to 1 is needed.", least=0, most=1)


def choice(*names: str) -> Rule:
    """One of several names."""
    return Rule(
        lambda value: isinstance(value, str) and value in names,
        lambda value: f" is not known; {suggest(value, names)}",
        {"enum": [*names]},
    )


def table(needed: str, value: Rule | None = None) -> Rule:
    """A table of any keys, each of its values by a rule if one is given."""
    return Rule(
        lambda found: isinstance(found, Mapping) and (value is None or all(map(value.fits, found.values()))),
        needed,
        {"type": "object", **({} if value is None else {"additionalProperties": value.schema})},
    )


def rows(*axes: str, needed: str = "") -> Rule:
    """Row numbers: an array of whole numbers with these axes. A list may hold anything, also lists of other lengths."""

    def found(value: Any) -> str | None:
        """What is wrong with an array; "" if it is none, None if it fits."""
        import numpy as np

        try:
            array = value if hasattr(value, "shape") else np.asarray(value)
        except (ValueError, OverflowError):
            return ""
        dtype = np.dtype(getattr(array, "dtype", np.int64))
        if len(array.shape) != len(axes) or dtype.kind not in "iu":
            return f" is an array {array.shape} of {dtype}"
        return "" if _has_flag(value) else None

    needed = needed or f"row numbers ({', '.join(axes)}{',' * (len(axes) == 1)}) are needed."
    schema: Json = {"type": "integer"}
    for _ in axes:
        schema = {"type": "array", "items": schema}
    return Rule(
        lambda value: is_array(value) and found(value) is None,
        lambda value: f"{found(value) if is_array(value) else ''}; {needed}",
        schema,
    )


def either(name: Rule, *others: Rule) -> Rule:
    """A name, or a value by another rule: the first for single values, the last for arrays."""

    def likely(value: Any) -> Rule:
        return name if isinstance(value, str) else others[-1] if is_array(value) else others[0]

    return Rule(
        lambda value: any(rule.fits(value) for rule in (name, *others)),
        lambda value: likely(value).complaint(value),
        {"anyOf": [rule.schema for rule in (name, *others)]},
    )


def _has_flag(value: Any) -> bool:
    """Whether a list holds true or false, which NumPy takes for numbers beside others."""
    return any(map(_has_flag, value)) if isinstance(value, list | tuple) else isinstance(value, bool)


def setting(rule: Rule | Callable[[], Rule], default: Any = None, *, option: str = "") -> Any:
    """Declare a field of a `Section`; MISSING for a default means that a file must have the key.

    ``rule`` is called when it is used if it needs an import. ``option`` is the name of the setting in Python, where
    that is not the key of the file.
    """
    metadata = {"rule": rule, "option": option}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


class Section:
    """A section of a settings file, whose fields are declared by `setting` and checked when an object is made."""

    equals = " = "  # between a key and its value, in messages

    def __post_init__(self) -> None:
        for key in fields(self):  # type: ignore[arg-type]
            value = getattr(self, key.name)
            if value is not key.default:  # a default fits, and its rule may need an import
                rule_of(key).check(key.metadata["option"] or key.name, value, self.equals)
        self.check()

    def check(self) -> None:
        """Check what the rules of single fields cannot."""


S = TypeVar("S", bound=Section)


def rule_of(key: Field[Any]) -> Rule:
    """The rule that a field is declared with."""
    rule = key.metadata["rule"]
    return rule if isinstance(rule, Rule) else rule()


def from_table(section: type[S], values: Any, where: str, *, called: str = "a setting", known: Iterable[str] = ()) -> S:
    """A section from a table of a file; keys that are left out have their defaults.

    ``where`` begins messages, as "[kernel]"; ``called`` is what they call a key. ``known`` are the keys of the table,
    if it does not have all of the section's.
    """
    keys = {key.name: key for key in fields(section)}  # type: ignore[arg-type]
    names = list(known) or list(keys)
    try:
        if not isinstance(values, Mapping):
            raise SettingsError(f"is {values!r}; a section is needed.")
        if unknown := [name for name in values if name not in names]:
            raise SettingsError(f"{unknown[0]} is not {called}; {suggest(unknown[0], names)}")
        if missing := [name for name in required(section) if name not in values]:
            raise SettingsError(f"{missing[0]} is missing: {sentences(section).get(missing[0], 'it has no default')}")
        return section(**{name: rule_of(keys[name]).parsed(value) for name, value in values.items()})
    except SettingsError as error:
        raise SettingsError(f"{where} {error}".lstrip()) from error


def required(section: type[Section]) -> list[str]:
    """Keys without a default."""
    keys: Iterable[Field[Any]] = fields(section)  # type: ignore[arg-type]
    return [key.name for key in keys if key.default is key.default_factory is MISSING]


def check_sections(content: Mapping[str, Any], known: Iterable[str], file: str | Path = "") -> None:
    """Refuse a section that the file does not have."""
    names = list(known)
    for name in content:
        if name not in names:
            raise SettingsError(f"[{name}]{f' in {file}' * bool(file)} is not a section; {suggest(name, names)}")


def read_toml(path: Path, called: str | None = None) -> dict[str, Any]:
    """The content of a settings file; ``called`` is what messages call it, its path if not given."""
    called = str(path) if called is None else called
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{called} cannot be read: {error.strerror or error}.") from error
    except RecursionError as error:
        raise SettingsError(f"{called} is not TOML that can be read: it is nested too deeply.") from error
    except ValueError as error:  # also UnicodeDecodeError, TOMLDecodeError, and numbers of thousands of digits
        raise SettingsError(f"{called} is not TOML: {error}.") from error


def sentences(section: type) -> dict[str, str]:
    """The text under each field of a class and of those it inherits from; Python itself forgets it."""
    found = {}
    for above in reversed(section.__mro__[:-1]):
        (body,) = (node.body for node in ast.parse(inspect.getsource(above)).body if isinstance(node, ast.ClassDef))
        for key, said in pairwise(body):
            if isinstance(key, ast.AnnAssign) and isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant):
                found[ast.unparse(key.target)] = " ".join(str(said.value.value).split())
    return found


def json_schema(section: type[Section], keys: Iterable[str] = (), **fixed: Json) -> Json:
    """The JSON Schema of a section, or of some of its keys; ``fixed`` stands in for the rules of single keys."""
    said, wanted = sentences(section), list(keys)
    properties = {}
    for key in fields(section):  # type: ignore[arg-type]
        if not wanted or key.name in wanted:
            default = list(key.default) if isinstance(key.default, tuple) else key.default
            schema = fixed.get(key.name) or rule_of(key).schema
            properties[key.name] = {
                **(schema() if callable(schema) else schema),
                **({"description": said[key.name]} if key.name in said else {}),
                **({"default": default} if default is not MISSING and default not in (None, "", []) else {}),
            }
    return {"description": inspect.getdoc(section), **table_schema(properties, required(section))}


def table_schema(properties: Json, required: Iterable[str] = ()) -> Json:
    """The JSON Schema of a table with these keys and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def file_schema(title: str, content: Json) -> Json:
    """The JSON Schema of a file; of the draft that editors of TOML understand."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, **content}
