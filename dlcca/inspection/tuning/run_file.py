"""Options for a ``run.toml``: tried on some rows of its views, and written into its text."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from dlcca.errors import SettingsError
from dlcca.fitting import runner
from dlcca.inspection.tuning.result import Tuned
from dlcca.inspection.tuning.search import rows_to_read, tune_sample
from dlcca.numerics.windows import unbroken
from dlcca.settings.fit import OPTIONS, Settings
from dlcca.settings.runfile import RunFile


def tune_run(asked: RunFile) -> Tuned:
    """Options for the views of a run file, of which some rows are read."""
    rows_of = Settings.from_options(neighborhoods=asked.settings.neighborhoods.kind)
    clock = asked.ingested if asked.recordings else ""
    job, _ = runner.prepared(asked.store, asked.views, rows_of, asked.seed, clock, asked.missing_chunks)
    rows = rows_to_read(job.n, asked.settings)
    views = {source.name: job.read(v, rows) for v, source in enumerate(job.sources)}
    return tune_sample(views, unbroken([rows], job.segments), job.n, asked.settings, asked.seed)


def with_options(text: str, options: Mapping[str, Any], store: str | None = None) -> str:
    """The text of a run file with some options changed, and the store; all else, comments too, as it was."""
    wanted = tomllib.loads(text)
    made = text
    if store is not None:
        wanted["store"]["path"] = store
        made = _with_line(made, "store", f"path = {json.dumps(store, ensure_ascii=False)}")
    for name, value in options.items():
        section, key = OPTIONS[name]
        wanted.setdefault(section, {})[key] = value
        made = _with_line(made, section, f"{key} = {_toml(value)}")
    try:
        written = tomllib.loads(made)
    except tomllib.TOMLDecodeError:
        written = {}
    if written != wanted:  # as of a section that is written in one line
        said = ", ".join(f"[{OPTIONS[name][0]}] {OPTIONS[name][1]} = {_toml(v)}" for name, v in options.items())
        said += "" if store is None else f", [store] path = {store!r}"
        raise SettingsError(f"the settings of this run file cannot be changed line by line; write into it {said}.")
    return made


def _with_line(text: str, section: str, line: str) -> str:
    """The text with a line ``key = value`` in a section: in place of that of its key, or as its first."""
    head = re.search(rf"^[ \t]*\[[ \t]*{section}[ \t]*\][^\n]*(?:\n|\Z)", text, re.MULTILINE)
    if head is None:
        return f"{text.rstrip()}\n\n[{section}]\n{line}\n"
    following = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, head.end())
    end = following.start() if following else len(text)
    body, key = text[head.end() : end], line.split(" = ", maxsplit=1)[0]
    known = re.compile(
        rf"^[ \t]*{key}[ \t]*=[ \t]*(?:\"[^\"\n]*\"|'[^'\n]*'|[^#\n]*?)(?=[ \t]*(?:#[^\n]*)?$)", re.MULTILINE
    )
    body = known.sub(lambda _: line, body, count=1) if known.search(body) else f"{line}\n{body}"
    before = text[: head.end()]
    return f"{before}{'' if before.endswith(chr(10)) else chr(10)}{body}{text[end:]}"


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
