"""Who wants to know is told, by a command or a message to an address: bounded, tried again, and of no consequence."""

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

from dlcca.pipelines.sections import NotifySection

#: Seconds before the second attempt; twice as long before each further one.
FIRST_PAUSE_S = 0.5


def is_wanted(asked: NotifySection, summary: Mapping[str, Any]) -> bool:
    """Whether a night is worth telling."""
    if not (asked.command or asked.webhook or asked.webhook_env) or summary.get("busy"):
        return False
    return asked.when == "always" or summary["exit_code"] != 0 or (asked.when == "news" and bool(summary["news"]))


def tell(asked: NotifySection, summary: Mapping[str, Any]) -> list[str]:
    """Tell of a night; why it could not be told, a sentence each. Never raises, and comes back in bounded time."""
    content = json.dumps(summary, ensure_ascii=False, default=str).encode()
    troubles = []
    if asked.command:
        troubles.append(_tried(asked, "the command", lambda: _run(asked, content, summary)))
    address = asked.webhook or os.environ.get(asked.webhook_env or "", "")
    if asked.webhook_env and not address:
        troubles.append(f"the webhook was not told: the variable {asked.webhook_env} is not set.")
    elif address:
        troubles.append(
            _tried(asked, f"the webhook at {urlsplit(address).hostname}", lambda: _post(asked, address, content))
        )
    return [trouble for trouble in troubles if trouble]


def _tried(asked: NotifySection, what: str, attempt: Callable[[], str]) -> str:
    """Attempt until it works, a few times; why it did not, or "".

    In a thread of its own, which is left behind if it is stuck: timeouts of sockets begin anew with every byte.
    """
    said = ["it did not come back in time"]

    def work() -> None:
        for number in range(asked.attempts):
            if number:
                time.sleep(FIRST_PAUSE_S * 2 ** (number - 1))
            try:
                said[0] = attempt()
            except Exception as error:  # whatever it is, the night is over and well
                said[0] = f"{type(error).__name__}: {error}"
            if not said[0]:
                return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    pauses = sum(FIRST_PAUSE_S * 2**number for number in range(asked.attempts - 1))
    thread.join(asked.attempts * asked.timeout_s + pauses + 1)
    return f"{what} was not told in {asked.attempts} attempts: {said[0]}." if said[0] else ""


def _run(asked: NotifySection, content: bytes, summary: Mapping[str, Any]) -> str:
    environment = {**os.environ, "DLCCA_SUMMARY": summary["text"], "DLCCA_EXIT_CODE": str(summary["exit_code"])}
    pipe = subprocess.PIPE
    try:
        program = subprocess.Popen(
            asked.command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, env=environment, start_new_session=True
        )
    except OSError as error:
        return f"{asked.command[0]}: {error.strerror or error}"
    with program:
        try:
            _, said = program.communicate(content, timeout=asked.timeout_s)
        except subprocess.TimeoutExpired:
            _end(program)
            return f"it took longer than timeout_s = {asked.timeout_s:g}"
    if program.returncode:
        last = said.decode(errors="replace").strip().splitlines()[-1:]
        return f"it ended with {program.returncode} {' '.join(last)}".strip()
    return ""


def _end(program: subprocess.Popen[bytes]) -> None:
    """End a command with all that it has started: a shell alone would leave behind what hangs."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
    program.kill()


def _post(asked: NotifySection, address: str, content: bytes) -> str:
    asking = urllib.request.Request(address, data=content, headers={"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(asking, timeout=asked.timeout_s) as answer:
            return "" if answer.status < 300 else f"it answered {answer.status}"
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except (urllib.error.URLError, OSError) as error:
        return f"{getattr(error, 'reason', error)}"
