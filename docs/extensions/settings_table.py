"""Tables of settings, read from the code, so that a page cannot say anything else than the code does.

``{settings} module.Class`` has a row for each field: the key, its default and the sentence under it.
``{stages}`` has a row for each stage of a fit, from its declaration.
``{flat-options}`` has the names under which `LocalCCA` takes the same settings.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dlcca.settings.fit import OPTIONS
from dlcca.settings.schema import sentences


class SettingsTable(SphinxDirective):
    """The table of one class; after its name, keys that are left out."""

    required_arguments = 1
    optional_arguments = 20

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].rpartition(".")
        rows = rows_of(getattr(importlib.import_module(module), name), leave_out=self.arguments[1:])
        return table(self, ("key", "default", ""), rows)


class FlatOptions(SphinxDirective):
    """Which option of `LocalCCA` is which key of a file."""

    def run(self) -> list[nodes.Node]:
        rows = [(f"`{option}`", f"`[{section}] {key}`") for option, (section, key) in OPTIONS.items()]
        return table(self, ("option", "in a file"), rows)


class StageTable(SphinxDirective):
    """The stages of a fit in their order."""

    def run(self) -> list[nodes.Node]:
        from dlcca.fitting.pipeline import STAGES

        rows = [
            (f"`{stage.name}`", stage.reads, stage.leaves, ", ".join(f"`{option}`" for option in stage.options))
            for stage in STAGES
        ]
        return table(self, ("stage", "a task reads", "and leaves", "options"), rows)


def table(directive: SphinxDirective, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[nodes.Node]:
    """Rows of Markdown as a table."""
    lines = [head, ["---"] * len(head), *rows]
    text = [f"| {' | '.join(cells)} |" for cells in lines]
    return directive.parse_text_to_nodes(StringList(text, source=directive.get_location()))


def rows_of(settings: type, leave_out: list[str] | tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    """Key, default and meaning of each field, as Markdown."""
    said = sentences(settings)
    kept = [key for key in fields(settings) if key.name not in leave_out]
    return [(f"`{key.name}`", default(key), said.get(key.name, "").replace("|", "\\|")) for key in kept]


def default(key: Field[Any]) -> str:
    """As in TOML; nothing for what has to be said, or is found out."""
    value = key.default if key.default is not MISSING else key.default_factory() if _is_made(key) else None
    if hasattr(value, "kind"):
        value = value.kind
    if value is None or value == {} or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        value = list(value)
    return f"`{value!r}`".replace("'", '"')


def _is_made(key: Field[Any]) -> bool:
    return key.default_factory is not MISSING


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("settings", SettingsTable)
    app.add_directive("flat-options", FlatOptions)
    app.add_directive("stages", StageTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
