"""What all verbs have in common: the decorator, shared options, output and exit codes.

Exit codes: 0 done; 2 bad usage or settings; 3 the data was refused; 4 the cluster or storage failed; 5 done, but the
result should not be trusted.
"""

import inspect
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from dlcca.errors import DlccaError, described, exit_code

UNTRUSTED = 5
#: Ctrl-C, and a closed pipe as in `dlcca plan run.toml | head -1`: 128 and the number of the signal, as in shells.
INTERRUPTED, CLOSED_PIPE = 130, 141


class Output(io.TextIOWrapper):
    """Standard output or error that ends the program without a message when its reader is gone.

    By SystemExit, so that locks are released and clusters ended on the way, as by Ctrl-C. SIGPIPE stays ignored: by it
    a lost connection to a worker would end the program as well.
    """

    def write(self, text: str) -> int:
        with self._exit_if_closed():
            return super().write(text)

    def flush(self) -> None:
        with self._exit_if_closed():
            super().flush()

    @contextmanager
    def _exit_if_closed(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # for what is still in the buffer when Python ends
            os.close(nowhere)
            raise SystemExit(CLOSED_PIPE) from None


def exit_on_closed_pipe() -> None:
    """Replace standard output and error by an `Output` each."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            now = Output(stream.buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
            setattr(sys, name, now)


class Console:
    """Output of a verb: text for people, or one document for machines."""

    def __init__(self, as_json: bool, quiet: bool, debug: bool) -> None:
        self.as_json, self.quiet, self.debug = as_json, quiet, debug
        self._status: Any = None  # of rich, while a step is shown

    def say(self, *lines: str) -> None:
        """Print lines for people."""
        self._end_step()
        if not (self.as_json or self.quiet):
            for line in lines:
                typer.echo(line)

    def warn(self, *lines: str) -> None:
        """Print lines to standard error, whatever the options are."""
        for line in lines:
            typer.echo(line, err=True)

    def step(self, text: str) -> None:
        """Show what is being done, on a terminal, until the next step or line."""
        if self.quiet or not sys.stderr.isatty():
            return
        from rich.console import Console as Terminal
        from rich.markup import escape

        if self._status is None:
            self._status = Terminal(stderr=True).status("")
            self._status.start()
        self._status.update(escape(text))

    def _end_step(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextmanager
    def progress(
        self, block_s: float | None = None, expected: Mapping[str, float] | None = None
    ) -> Iterator[Callable[[str, int, int], None]]:
        """A function that shows how far each stage is: by bars on a terminal, elsewhere by a line now and then.

        If a block is so many seconds of a recording, it also shows how many times faster it is than the recording.
        With the ``expected`` seconds of each stage it shows how far all of them are.
        """
        self._end_step()
        if self.quiet:
            yield lambda stage, done, blocks: None
            return
        from dlcca.cli.progress import ProgressBars, ProgressLog

        with ProgressBars(expected, block_s) if sys.stderr.isatty() else ProgressLog(self.warn) as shown:
            yield shown.update

    def next_steps(self, *steps: tuple[str, str]) -> None:
        """Print what a user may do next: its purpose, and the command or the line of Python."""
        width = max(len(purpose) for purpose, _ in steps)
        self.say("Next:", *(f"  {purpose:<{width}}   {how}" for purpose, how in steps))

    def finish(self, content: Mapping[str, Any], doubts: Sequence[str] = (), *, code: int = 0) -> None:
        """Print the document for machines, and end with its exit code: 5, with the reasons, if there are doubts."""
        code = UNTRUSTED if doubts else code
        self._print_document({**content, "exit_code": code})
        self.warn(*(f"do not trust this result: {doubt}" for doubt in doubts))
        if code:
            raise typer.Exit(code)

    def _print_document(self, content: Mapping[str, Any]) -> None:
        self._end_step()
        if self.as_json:
            from dlcca.storage.formats import plain

            typer.echo(json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False, default=str))

    @contextmanager
    def exit_codes(self) -> Iterator[None]:
        """Turn errors into a message, a document and an exit code."""
        try:
            yield
        except typer.Exit:
            raise
        except KeyboardInterrupt as error:
            message = "stopped. What was finished is kept: the same command goes on from there."
            raise self._failed(error, INTERRUPTED, message) from None
        except Exception as error:
            where = "" if isinstance(error, DlccaError | OSError) else " (--debug shows where)"
            raise self._failed(error, exit_code(error), described(error) + where) from None
        finally:
            self._end_step()

    def _failed(self, error: BaseException, code: int, message: str) -> typer.Exit:
        self._print_document({"error": message, "kind": type(error).__name__, "exit_code": code})
        if self.debug:
            traceback.print_exception(error)
        self.warn(f"dlcca: {message}")
        return typer.Exit(code)


Store = Annotated[str, Argument(metavar="STORE", help="A finished run, as run.zarr.", show_default=False)]
Model = Annotated[str, Argument(metavar="MODEL", help="A finished run, or a saved model.")]
RunToml = Annotated[Path, Argument(metavar="run.toml", help="What to run: views, settings, store, cluster.")]
Cluster = Annotated[
    str | None,
    Option(metavar="FILE|ADDRESS", help="A cluster file, as slurm.toml, or a Dask scheduler. Default: local."),
]
Workers = Annotated[int, Option(help="Processes of a local cluster; 1: no cluster.")]
MissingChunks = Annotated[
    str, Option(metavar="refuse|fill", help="Zarr arrays that lack chunks: refuse them, or read fill values.")
]
CopyTo = Annotated[Path | None, Option("--out", help="Folder to copy them to, for you to change.")]

#: Every verb has these options; the decorator turns them into the Console that the function receives.
COMMON = {
    "as_json": Option("--json", help="Print one JSON document, and nothing else, on stdout."),
    "quiet": Option("--quiet", "-q", help="Print nothing but errors and warnings."),
    "debug": Option("--debug", help="Show the traceback of an error."),
}


#: The name of a command, its function with the common options, and the example at the end of its help.
Verb = tuple[str, Callable[..., None], str]


def verb(example: str) -> Callable[[Callable[..., None]], Verb]:
    """Make a verb of a function whose first argument is a `Console`; the others are its arguments and options.

    The verb is named as the function and has the options `COMMON`. An error becomes a message and an exit code.
    """

    def decorate(function: Callable[..., None]) -> Verb:
        def command(*, as_json: bool, quiet: bool, debug: bool, **arguments: object) -> None:
            console = Console(as_json, quiet, debug)
            with console.exit_codes():
                function(console, **arguments)

        signature = inspect.signature(function, eval_str=True)
        _console, *own = signature.parameters.values()
        kind = inspect.Parameter.KEYWORD_ONLY
        own += [inspect.Parameter(n, kind, default=False, annotation=Annotated[bool, o]) for n, o in COMMON.items()]
        command.__doc__ = function.__doc__
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return function.__name__, command, example

    return decorate


def _show_help(context: typer.Context, wanted: bool) -> None:
    if wanted:
        typer.echo(context.get_help())
        raise typer.Exit


#: For a group of verbs: without an option of our own typer imports pydantic (0.2 s) before the help of any of them.
Help = Annotated[bool, Option("--help", "-h", callback=_show_help, is_eager=True, help="Show this message and exit.")]


def group(about: str, *verbs: Verb, callback: Callable[..., None] | None = None) -> typer.Typer:
    """Verbs under one name, in the order of the help. The ``callback`` declares options of the group itself."""
    made = typer.Typer(
        help=about,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help: rich would take as long to import as all the rest
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(callback or _only_help)
    for name, command, example in verbs:
        # The mark keeps an example on one line, also where the terminal is narrower.
        made.command(name, epilog=f"\b\nExample: {example}")(command)
    return made


def _only_help(help: Help = False) -> None: ...
