"""The code of a page of the documentation, done in the order in which a reader would do it.

| in the page | is |
|---|---|
| ```` ```python ```` | run, all of a page in one namespace |
| ```` ```{code-block} toml ```` with ``:caption: run.toml`` | written to that file |
| ```` ```sh ```` | its ``dlcca`` commands are run; ``# exit code 5`` behind one says what it ends with |
| ```` ```toml ```` | an excerpt: its keys are checked if it is a run file or a cluster file |
| ```` ``` ```` without a language | not code: what a program prints, or what depends on a site |
"""

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from dlcca import runfile
from dlcca.cli import app
from dlcca.clients import profile

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?P<head>\S[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:(\w+): *(.*)\n", re.MULTILINE)
EXIT_CODE = re.compile(r"# exit code (\d)")


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


def do_block(page: Path, block: Block, names: dict[str, object]) -> None:
    if block.file:
        Path(block.file).parent.mkdir(parents=True, exist_ok=True)
        Path(block.file).write_text(block.text)
    elif block.language == "python":
        exec(compile(block.text, str(page), "exec"), names)
    elif block.language == "toml":
        check_excerpt(block.text)
    else:
        for command, expected in commands(block):
            done = CliRunner().invoke(app, command[1:], catch_exceptions=False)
            assert done.exit_code == expected, f"{shlex.join(command)} exited with {done.exit_code}:\n{done.output}"


def check_excerpt(text: str) -> None:
    """Refuse TOML that is none, and keys that a run file or a cluster file does not have."""
    content = tomllib.loads(text)
    Path("excerpt.toml").write_text(text)
    if "store" in content and "views" in content:
        runfile.read("excerpt.toml")
    elif "kind" in content:
        profile.read("excerpt.toml")


def said_commands(page: Path) -> list[list[str]]:
    """Every ``dlcca`` command that stands on a line of its own in some block of a page, run or not."""
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = "".join(fenced).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("dlcca ")]


def check_known(command: list[str]) -> None:
    """Refuse a verb or an option that the command line does not have, or one too many or too few arguments."""
    found, words = get_command(app), command[1:]
    while hasattr(found, "commands"):
        assert words[0] in found.commands, f"there is no verb {words[0]!r}"
        found, words = found.commands[words[0]], words[1:]
    try:
        values, rest, _ = found.make_parser(found.context_class(found)).parse_args(list(words))
    except Exception as error:  # typer keeps a click of its own, or uses the one that is installed
        raise AssertionError(f"{shlex.join(command)}: {error}") from error
    assert rest == []
    required = [a.name for a in found.params if a.param_type_name == "argument" and a.required]
    assert [name for name in required if not values.get(name)] == []


def commands(block: Block) -> Iterator[tuple[list[str], int]]:
    """The ``dlcca`` commands of a block of shell, each with the exit code that it should have."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "dlcca":
            said = EXIT_CODE.search(line)
            yield words, int(said[1]) if said else 0
