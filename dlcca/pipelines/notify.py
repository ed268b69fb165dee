"""Notifications about a run, by a command or a webhook: limited in time, retried, and without effect on the run."""

from __future__ import annotations

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
from typing import Any
from urllib.parse import urlsplit

from dlcca.pipelines.settings import NotifySection

#: Seconds before the second attempt; doubled before each further one.
FIRST_PAUSE_S = 0.5


def is_wanted(options: NotifySection, summary: Mapping[str, Any]) -> bool:
    """Whether a run is to be notified of."""
    if not (options.command or options.webhook or options.webhook_env) or summary.get("busy"):
        return False
    return options.when == "always" or summary["exit_code"] != 0 or (options.when == "news" and bool(summary["news"]))


def notify(options: NotifySection, summary: Mapping[str, Any]) -> list[str]:
    """Send a summary; one sentence for each failure. Never raises, and returns in bounded time."""
    content = json.dumps(summary, ensure_ascii=False, default=str).encode()
    failures = []
    if options.command:
        failures.append(_attempt(options, "the command", lambda: _run(options, content, summary)))
    address = options.webhook or os.environ.get(options.webhook_env or "", "")
    if options.webhook_env and not address:
        failures.append(f"the webhook was not notified: the variable {options.webhook_env} is not set.")
    elif address:
        name = f"the webhook at {urlsplit(address).hostname}"
        failures.append(_attempt(options, name, lambda: _post(options, address, content)))
    return [failure for failure in failures if failure]


def _attempt(options: NotifySection, name: str, send: Callable[[], str]) -> str:
    """Try a few times to send; the reason why it failed, or "".

    In a thread, which is abandoned if it hangs: timeouts of sockets start again with every byte.
    """
    errors = ["it timed out"]

    def work() -> None:
        for number in range(options.attempts):
            if number:
                time.sleep(FIRST_PAUSE_S * 2 ** (number - 1))
            try:
                errors[0] = send()
            except Exception as error:
                errors[0] = f"{type(error).__name__}: {error}"
            if not errors[0]:
                return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    pauses = sum(FIRST_PAUSE_S * 2**number for number in range(options.attempts - 1))
    thread.join(options.attempts * options.timeout_s + pauses + 1)
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
        with urllib.request.urlopen(request, timeout=options.timeout_s) as answer:
            return "" if answer.status < 300 else f"it answered {answer.status}"
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except (urllib.error.URLError, OSError) as error:
        return f"{getattr(error, 'reason', error)}"
