"""The example in the help of a verb: found as it is printed, and run as a shell would."""

import glob
import re
import shlex

from typer.testing import CliRunner

from dlcca.cli import app

#: A narrow terminal, on which a long line of help would be broken in two.
NARROW = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}


def example_of(verb: str) -> str:
    """The line after "Example:" in the help of a verb."""
    shown = CliRunner().invoke(app, [*verb.split(), "--help"], prog_name="dlcca", env=NARROW).stdout
    (line,) = re.findall(r"^ *Example: (dlcca .+)$", shown, re.MULTILINE)
    return line.strip()


def run_example(verb: str):
    """What comes of the example, in the folder of whoever calls."""
    _dlcca, *words = shlex.split(example_of(verb), posix=False)
    return CliRunner().invoke(app, [word for each in words for word in _expanded(each)], prog_name="dlcca")


def _expanded(word: str) -> list[str]:
    """As a shell: quotes are taken off, and patterns outside of them stand for the files that they match."""
    if "'" in word or '"' in word:
        return shlex.split(word)
    return sorted(glob.glob(word)) or [word]
