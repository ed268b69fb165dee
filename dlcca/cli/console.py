"""How a verb speaks, and with which code it ends.

Exit codes: 0 done; 2 bad usage or settings; 3 the data was refused; 4 storage failed; 5 done, but the result should not
be trusted.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from dlcca.errors import DlccaError, StorageError

UNTRUSTED = 5
#: By Ctrl-C: 128 and the number of the signal, as shells have it.
STOPPED = 130
#: Nobody reads the output any more, as in `dlcca plan run.toml | head -1`: likewise.
CLOSED = 141


class Output(io.TextIOWrapper):
    """Standard output or error that ends the program without a message when its reader is gone.

    By SystemExit, so that locks are released and clusters ended on the way, as by Ctrl-C. SIGPIPE stays ignored: by it
    a lost connection to a worker would end the program as well.
    """

    def write(self, text: str) -> int:
        with self._ending():
            return super().write(text)

    def flush(self) -> None:
        with self._ending():
            super().flush()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # for what is still in the buffer when Python ends
            os.close(nowhere)
            raise SystemExit(CLOSED) from None


def end_quietly_when_unread() -> None:
    """Let standard output and error be such that a closed pipe is no error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            now = Output(stream.buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
            setattr(sys, name, now)


@dataclass(frozen=True)
class Voice:
    """How a verb speaks: words for people, or one document for machines."""

    as_json: bool
    quiet: bool
    debug: bool

    def say(self, text: str = "") -> None:
        """Words for people."""
        if not (self.as_json or self.quiet):
            typer.echo(text)

    def warn(self, text: str) -> None:
        """Words that are printed come what may, beside the results."""
        typer.echo(text, err=True)

    def document(self, content: Mapping[str, Any]) -> None:
        """The result for machines."""
        if self.as_json:
            from dlcca.storage.arrays import plain

            typer.echo(json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False, default=str))

    def finish(self, content: Mapping[str, Any], doubts: Sequence[str] = ()) -> None:
        """The document and the end: 0, or 5 if there is reason for doubt, which is printed."""
        self.document({**content, "exit_code": UNTRUSTED if doubts else 0})
        for doubt in doubts:
            self.warn(f"do not trust this result: {doubt}")
        if doubts:
            raise typer.Exit(UNTRUSTED)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str], None]]:
        """A function that shows what is being done, on a terminal only."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda text: None
            return
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status("starting") as status:
            yield lambda text: status.update(escape(text))

    @contextmanager
    def bars(
        self, block_s: float | None = None, expected: Mapping[str, float] | None = None
    ) -> Iterator[Callable[[str, int, int], None]]:
        """A function that shows how far each stage is: by bars on a terminal, elsewhere by a line now and then.

        If a block is so many seconds of a recording, it also shows how many times faster it is than the recording.
        With the ``expected`` seconds of each stage it shows how far all of them are.
        """
        if self.quiet:
            yield lambda stage, done, blocks: None
            return
        if not sys.stderr.isatty():
            from dlcca.cli.progress_log import Minutes

            with Minutes(self.warn) as minutes:
                yield minutes.tell
            return
        from dlcca.cli.progress_bar import Bars

        with Bars(expected, block_s) as bars:
            yield bars.tell

    def next_steps(self, steps: Mapping[str, str]) -> None:
        """What a user does next: what it is for, and the command or the line of Python."""
        width = max(len(what) for what in steps)
        self.say("Next:")
        for what, how in steps.items():
            self.say(f"  {what:<{width}}   {how}")

    def fail(self, error: Exception) -> typer.Exit:
        """Say what went wrong; what is returned ends the program with the code for it."""
        code = getattr(error, "exit_code", StorageError.exit_code if isinstance(error, OSError) else 1)
        known = isinstance(error, DlccaError | OSError)
        message = str(error) if known else f"unexpected {type(error).__name__}: {error} (--debug shows where)"
        if self.debug:
            import traceback

            traceback.print_exception(error)
        self.document({"error": message, "kind": type(error).__name__, "exit_code": code})
        self.warn(f"dlcca: {message}")
        return typer.Exit(code)

    def stopped(self) -> typer.Exit:
        """Say that Ctrl-C has ended it, in words instead of a traceback; with the code that shells give for it."""
        message = "stopped. What was finished is kept: the same command goes on from there."
        self.document({"error": message, "kind": "KeyboardInterrupt", "exit_code": STOPPED})
        self.warn(f"dlcca: {message}")
        return typer.Exit(STOPPED)


@contextmanager
def speaking(as_json: bool, quiet: bool, debug: bool) -> Iterator[Voice]:
    """The voice of a verb, which turns errors into a message and an exit code."""
    voice = Voice(as_json, quiet, debug)
    try:
        yield voice
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        raise voice.stopped() from None
    except Exception as error:
        raise voice.fail(error) from None
