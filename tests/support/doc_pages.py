"""The code of a page of the documentation, done in the order in which a reader would do it.

| in the page | is |
|---|---|
| ```` ```python ```` | run, all of a page in one namespace |
| ```` ```{code-block} toml ```` with ``:caption: run.toml`` | written to that file |
| ```` ```sh ```` | its commands are run, but for ``NOT_RUN``; ``# exit code 5`` behind one says what it ends with |
| ```` ```toml ```` | an excerpt: its keys are checked if it is a run file or a cluster file |
| ```` ``` ```` without a language | not code: what a program prints, or what depends on a site |
"""

import os
import re
import shlex
import subprocess
import sysconfig
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.clusters import profile
from dlcca.settings import runfile

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?P<head>\S[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:(\w+): *(.*)\n", re.MULTILINE)
EXIT_CODE = re.compile(r"# exit code (\d)")
INLINE = re.compile(r"`(dlcca [^`]+)`")
#: What stands for something else: it is no command that could be given.
PLACEHOLDER = re.compile(r"\.\.\.|[\[\]|]|\b[A-Z]{3,}\b")
#: Commands that begin so are code, whatever the block around them is called.
COMMAND = re.compile(r"^(?:dlcca|python|pip|make|export|dask|prefect|grep|systemctl|journalctl) ")

#: Commands of the pages that no test gives as they stand, and why. Those of dlcca are known to the command line.
NOT_RUN = {
    "dlcca run run.toml --cluster slurm.toml": "needs a SLURM; docs/tutorials/slurm.md has it too, and is run on one",
    "dlcca pipeline serve pipeline.toml --at 02:30": "does not end; tests/pipelines/test_prefect.py ends it",
    "prefect server start": "does not end; tests/pipelines/test_prefect.py starts one, on a port of its own",
    "dask scheduler --protocol tls --tls-ca-file authority.pem --tls-cert certificate.pem --tls-key key.pem":
        "does not end, and the certificates are those of a site; tests/clusters/test_security.py has its own",
    "systemctl --user list-timers": "needs a systemd that is running",
    "journalctl --user -u dlcca-NAME": "needs a systemd that is running",
    "export AWS_ENDPOINT_URL=https://storage.example.org": "a storage of the reader's; the test sets that of its own",
    "export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...": "a secret of the reader's",
    "pip install 'dlcca[s3]'": "installs from the network",
    "pip install 'dlcca[prefect]'": "installs from the network",
    "make demo": "installs; tests/test_docs.py asks make what it would do",
    "make test": "would run this test within itself",
    "python -m tests.realdata.table": "takes minutes; tests/realdata has the same problems",
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str
    text: str
    file: str = ""  # where it is to be written


def blocks(page: Path) -> Iterator[Block]:
    """Those of a page that are code, in their order."""
    for found in BLOCK.finditer(page.read_text()):
        head, body = found["head"].strip(), found["body"]
        if head in ("python", "sh", "toml"):
            yield Block(head, body)
        elif head.startswith("{code-block}"):
            options, text = dict(OPTION.findall(body)), OPTION.sub("", body).strip("\n") + "\n"
            yield Block(head.removeprefix("{code-block}").strip(), text, options["caption"])


def do(page: Path) -> dict[str, object]:
    """Everything in the page, in the folder that is the current one; the names that its Python leaves."""
    names: dict[str, object] = {}
    for block in blocks(page):
        do_block(page, block, names)
    return names


def do_block(page: Path, block: Block, names: dict[str, object], *, also: Collection[str] = ()) -> None:
    """One block; of the commands that are not run elsewhere, those in ``also`` are."""
    if block.file:
        Path(block.file).parent.mkdir(parents=True, exist_ok=True)
        Path(block.file).write_text(block.text)
    elif block.language == "python":
        exec(compile(block.text, str(page), "exec"), names)
    elif block.language == "toml":
        check_excerpt(block.text)
    else:
        for command, expected in commands(block):
            if command in also or command not in NOT_RUN:
                give(command, expected)


def give(command: str, expected: int) -> None:
    """Give a command as a reader would: to the command line here, in this process, or to a shell."""
    words = shlex.split(command)
    if words[0] == "export":
        os.environ.update(word.split("=", 1) for word in words[1:])
        return
    if words[0] == "dlcca":
        done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
        code, said = done.exit_code, done.output
    else:
        path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
        shell = {"shell": True, "env": {**os.environ, "PATH": path}, "capture_output": True, "text": True}
        ran = subprocess.run(command, **shell, timeout=60, check=False)
        code, said = ran.returncode, ran.stdout + ran.stderr
    assert code == expected, f"{command} exited with {code}:\n{said}"


def check_excerpt(text: str) -> None:
    """Refuse TOML that is none, and keys that a run file or a cluster file does not have."""
    content = tomllib.loads(text)
    Path("excerpt.toml").write_text(text)
    if "store" in content and "views" in content:
        runfile.read("excerpt.toml")
    elif "kind" in content:
        profile.read("excerpt.toml")


def said_commands(page: Path) -> list[list[str]]:
    """Every ``dlcca`` command in the blocks of a page, run or not."""
    lines = [line for block in blocks(page) if block.language == "sh" for line, _ in commands(block)]
    return [shlex.split(line) for line in lines if line.startswith("dlcca ")]


def mentioned_commands(page: Path) -> list[list[str]]:
    """Those within sentences, of which some are only the name of a verb."""
    within = INLINE.findall(BLOCK.sub("", page.read_text()).replace("\n", " "))
    return [shlex.split(said) for said in within if not PLACEHOLDER.search(said)]


def hidden_commands(page: Path) -> list[str]:
    """Lines in blocks without a language that look like code, which would not be run."""
    every = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for head, body in every if not head for line in body.splitlines()]
    return [line for line in lines if COMMAND.match(line) or re.match(r"(import|from) \w", line)]


@cache
def _command_line() -> Any:
    """All verbs; made once, for that takes longer than to look at them."""
    return get_command(app)


def check_known(command: list[str], whole: bool = True) -> None:
    """Refuse verbs and options that the command line does not have, too many arguments, or too few if ``whole``."""
    found, words = _command_line(), command[1:]
    while hasattr(found, "commands") and (whole or words):
        assert words[0] in found.commands, f"there is no verb {words[0]!r}"
        found, words = found.commands[words[0]], words[1:]
    try:
        values, rest, _ = found.make_parser(found.context_class(found)).parse_args(list(words))
    except Exception as error:  # typer keeps a click of its own, or uses the one that is installed
        raise AssertionError(f"{shlex.join(command)}: {error}") from error
    assert rest == []
    if not whole:
        return
    required = [a.name for a in found.params if a.param_type_name == "argument" and a.required]
    assert [name for name in required if not values.get(name)] == []


def commands(block: Block) -> Iterator[tuple[str, int]]:
    """The commands of a block of shell, each with the exit code that it should have."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = re.match(r"(?:[^#'\"]|'[^']*'|\"[^\"]*\")*", line)[0].strip()  # without the comment behind it
        if words:
            said = EXIT_CODE.search(line)
            yield words, int(said[1]) if said else 0
