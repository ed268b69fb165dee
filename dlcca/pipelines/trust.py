"""Whether the model in use is trusted; if none is, or it is not, a sentence that says why and what to do.

A model is not trusted if its own fit gives reasons not to (`dlcca.trust.quality.Quality.reasons`; ``warnings`` among
the measures of the catalog). It is never promoted, except by ``dlcca pipeline rollback --to`` or by [model] start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dlcca.pipelines.context import Pipeline

#: SQL: of the models those that are not trusted.
WHERE = "WHERE json_array_length(measures, '$.warnings') > 0"


def reasons_of(model: Mapping[str, Any]) -> list[str]:
    """Why a model (a row of the catalog) is not trusted; none if it is."""
    measures = model["measures"]
    if not isinstance(measures, Mapping):
        measures = json.loads(measures or "{}")
    return list(measures.get("warnings") or [])


def last_untrusted(flow: Pipeline) -> dict[str, Any] | None:
    """The last model of this generation that is not trusted."""
    query = f"SELECT * FROM models {WHERE} AND generation = ? ORDER BY version DESC LIMIT 1"
    return flow.catalog.one(query, [flow.generation])


def doubt(flow: Pipeline) -> str:
    """What is wrong with the model in use, or why there is none, and the command that cures it; "" if all is well."""
    file, current = flow.settings.path.name, flow.current_model()
    if current is not None:
        reasons = reasons_of(current)
        if not reasons:
            return ""
        return (
            f"Model {current['version']} is in use and not trusted: {_joined(reasons)} To fit another model to all "
            f"recordings and use it if it is trusted: dlcca pipeline backfill {file} --anew."
        )
    last = last_untrusted(flow)
    if last is None:
        return ""
    n = flow.catalog.value("SELECT count(*) FROM recordings WHERE status IN ('new', 'failed')")
    waiting = f"{n} recording{'s wait' if n != 1 else ' waits'} for a model. " if n else ""
    return (
        f"Model {last['version']} is not trusted and not used: {_joined(reasons_of(last))} {waiting}To fit again, when "
        f"there are more recordings or after a change of the settings: dlcca pipeline run {file}."
    )


def _joined(reasons: list[str]) -> str:
    return " ".join(f"{reason.rstrip('.')}." for reason in reasons)
