"""The summary of a run and its notifications, the status of a pipeline, and its history."""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from dlcca.pipelines import versions
from dlcca.pipelines.catalog import Catalog, Row
from dlcca.pipelines.context import Pipeline
from dlcca.pipelines.recordings import Found
from dlcca.pipelines.settings import NotifySection
from dlcca.pipelines.sources import names_of

#: Exit codes of a run; the first that applies.
STORAGE, DOUBT, DATA = 4, 5, 3


@dataclass
class Summary:
    """What a run did."""

    run: int = 0
    name: str = ""
    found: Found = field(default_factory=Found)
    done: list[str] = field(default_factory=list)  # paths
    refused: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)  # days
    alarms: list[str] = field(default_factory=list)  # sentences
    refit: dict[str, Any] | None = None
    model: int | None = None
    doubts: list[str] = field(default_factory=list)  # sentences: why the model is not trusted
    troubles: list[str] = field(default_factory=list)  # sentences
    reasons: dict[str, str] = field(default_factory=dict)  # path -> why it was refused, held back or failed
    complete: bool = False  # whether it covers everything that no earlier summary covers

    @property
    def exit_code(self) -> int:
        if self.failed or self.troubles:
            return STORAGE
        if self.alarms or self.held or self.doubts or (self.refit is not None and not self.refit["promoted"]):
            return DOUBT
        return DATA if self.refused or self.found.unreadable else 0

    @property
    def is_news(self) -> bool:
        return bool(self.done or self.published or self.refit or self.exit_code)

    def lines(self) -> list[str]:
        """The summary in sentences."""
        found = self.found
        counts = {
            "new": found.new, "changed": found.changed, "duplicates": found.duplicates,
            "not complete yet": found.waiting, "unreadable": found.unreadable,
        }  # fmt: skip
        files = ", ".join(f"{len(paths)} {what}" for what, paths in counts.items() if paths)
        lines = [f"{found.files} file{'s' * (found.files != 1)}: {files or 'nothing new'}."]
        if self.done:
            lines.append(f"{len(self.done)} embedded with model {self.model}: {names_of(self.done)}.")
        if self.published:
            lines.append(f"Published: {', '.join(self.published)}.")
        words = {"refused": "Refused", "held": "Held back", "failed": "Failed, and tried again by the next run"}
        for status, text in words.items():
            lines += [f"{text}: {path}: {self.reasons.get(path, '')}" for path in getattr(self, status)]
        lines += [f"Drift: {text}" for text in self.alarms]
        if self.refit is not None:
            used = "is in use now" if self.refit["promoted"] else f"is not used: {'; '.join(self.refit['objections'])}"
            lines.append(f"Model {self.refit['version']} was fitted because {self.refit['because']}, and {used}.")
        return lines + self.doubts + self.troubles

    def document(self) -> dict[str, Any]:
        """The summary for machines."""
        texts = {"lines": self.lines(), "text": "\n".join(self.lines())}
        return {**asdict(self), "exit_code": self.exit_code, "news": self.is_news, **texts}


def status(pipeline: Pipeline) -> dict[str, Any]:
    """Counts, the model in use, the last run, and the last drift, by the catalog alone."""
    catalog, model = pipeline.catalog, pipeline.current_model()
    last = catalog.one("SELECT * FROM runs WHERE ended IS NOT NULL ORDER BY id DESC LIMIT 1")
    begun = catalog.one("SELECT id, verb, started, host, pid FROM runs ORDER BY id DESC LIMIT 1")
    count = "SELECT {0} AS value, count(*) AS n FROM {1} GROUP BY {0}"
    counts, states = (catalog.all(count.format(*of)) for of in (("status", "recordings"), ("state", "files")))
    days = "SELECT count(*) AS days, min(day) AS first, max(day) AS last, sum(rows) AS rows FROM partitions"
    drift = "SELECT day, alarm, text FROM drift JOIN recordings ON recordings.id = recording ORDER BY drift.id DESC"
    if model is not None:
        reasons = versions.warnings_of(model)
        model = {key: model[key] for key in ("version", "created", "because", "n_rows")}
        model |= {"trusted": not reasons, "reasons": reasons}
    if last is not None:
        text = json.loads(last["summary"] or "{}").get("text", "")
        last = {**{key: last[key] for key in ("id", "verb", "started", "ended", "exit_code")}, "text": text}
    return {
        "name": pipeline.settings.pipeline.name,
        "recordings": {row["value"]: row["n"] for row in counts},
        "files": {row["value"]: row["n"] for row in states},
        "model": model,
        "doubt": versions.doubt(pipeline) or None,
        "models": catalog.all("SELECT version, status, created, because, reason FROM models ORDER BY version"),
        "published": catalog.one(days),
        "last_run": last,
        "unfinished_run": begun if begun is not None and (last is None or begun["id"] > last["id"]) else None,
        "drift": catalog.all(f"{drift} LIMIT 5"),
    }


def status_lines(found: dict[str, Any]) -> list[str]:
    """The status in sentences."""
    counts = ", ".join(f"{n} {status}" for status, n in found["recordings"].items()) or "none yet"
    waiting = found["files"].get("waiting", 0)
    lines = [f"{found['name']}: recordings {counts}" + (f"; {waiting} files not complete yet." if waiting else ".")]
    if model := found["model"]:
        trusted = "trusted" if model["trusted"] else "not trusted"
        why = f"{model['because']}; {model['n_rows']} rows"
        lines.append(f"Model {model['version']} of {model['created'][:10]} is in use and {trusted} ({why}).")
    else:
        lines.append("No model is in use." if found["doubt"] else "There is no model yet.")
    if found["doubt"]:
        lines.append(found["doubt"])
    if (days := found["published"])["days"]:
        many = "days are" if days["days"] != 1 else "day is"
        lines.append(f"{days['days']} {many} published, {days['first']} to {days['last']}, {days['rows']} rows.")
    if last := found["last_run"]:
        lines.append(f"The last run ({last['verb']}, {last['ended'][:19]}) ended with exit code {last['exit_code']}.")
    if begun := found["unfinished_run"]:
        where = f"process {begun['pid']} on {begun['host']}"
        lines.append(f"A run started at {begun['started'][:19]} ({where}): it is in progress, or was stopped.")
    return lines + [f"Drift: {row['text']}" for row in found["drift"] if row["alarm"]]


def history(catalog: Catalog, limit: int, day: str | None, file: str | None, kind: str | None) -> list[Row]:
    """The latest lines, oldest first; optionally of a day, a file (part of its path) or a kind only."""
    query = (
        "SELECT * FROM history WHERE (:day IS NULL OR day = :day) AND (:file IS NULL OR path LIKE '%' || :file || '%') "
        "AND (:kind IS NULL OR kind = :kind) ORDER BY id DESC LIMIT :limit"
    )
    return catalog.all(query, {"day": day, "file": file, "kind": kind, "limit": limit})[::-1]


# Notifications, by a command or a webhook: limited in time, retried, and without effect on the run.

#: Seconds before the second attempt; doubled before each further one.
FIRST_PAUSE_S = 0.5


def is_wanted(options: NotifySection, summary: Mapping[str, Any]) -> bool:
    """Whether a run is to be notified of."""
    if not (options.command or options.webhook or options.webhook_env):
        return False
    return options.when == "always" or summary["exit_code"] != 0 or (options.when == "news" and bool(summary["news"]))


def notify(options: NotifySection, summary: Mapping[str, Any]) -> list[str]:
    """Send a summary by a command and a webhook, in bounded time; a sentence, and no error, for each failure."""
    content = json.dumps(summary, ensure_ascii=False, default=str).encode()
    failures = []
    if options.command:
        failures.append(_attempt(options, "the command", lambda: _run(options, content, summary)))
    address = options.webhook or os.environ.get(options.webhook_env or "", "")
    if address:
        name = f"the webhook at {urlsplit(address).hostname}"
        failures.append(_attempt(options, name, lambda: _post(options, address, content)))
    elif options.webhook_env:
        failures.append(f"the webhook was not notified: the variable {options.webhook_env} is not set.")
    return [failure for failure in failures if failure]


def _attempt(options: NotifySection, name: str, send: Callable[[], str]) -> str:
    """Try a few times to send; the reason why it failed, or ""."""
    errors = ["it timed out"]
    pauses = [FIRST_PAUSE_S * 2**number for number in range(options.attempts - 1)]

    def work() -> None:
        for pause in (0.0, *pauses):
            time.sleep(pause)
            try:
                errors[0] = send()
            except Exception as error:
                errors[0] = f"{type(error).__name__}: {error}"
            if not errors[0]:
                return

    # In a thread, which is abandoned if it hangs: timeouts of sockets start again with every byte.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(options.attempts * options.timeout_s + sum(pauses) + 1)
    return f"{name} was not notified in {options.attempts} attempts: {errors[0]}." if errors[0] else ""


def _run(options: NotifySection, content: bytes, summary: Mapping[str, Any]) -> str:
    environment = {**os.environ, "DLCCA_SUMMARY": summary["text"], "DLCCA_EXIT_CODE": str(summary["exit_code"])}
    pipe = subprocess.PIPE
    try:
        program = subprocess.Popen(
            options.command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, env=environment, start_new_session=True
        )
    except OSError as error:
        return f"{options.command[0]}: {error.strerror or error}"
    with program:
        try:
            _, stderr = program.communicate(content, timeout=options.timeout_s)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):  # with its children, which would be left if only a shell was killed
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
            program.kill()
            return f"it took longer than timeout_s = {options.timeout_s:g}"
    if program.returncode:
        last = stderr.decode(errors="replace").strip().splitlines()[-1:]
        return f"it ended with {program.returncode} {' '.join(last)}".strip()
    return ""


def _post(options: NotifySection, address: str, content: bytes) -> str:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, data=content, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=options.timeout_s):
            return ""
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
