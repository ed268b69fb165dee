"""The example files for other schedulers: they can be read, and call nothing but the command line."""

import ast
import py_compile
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.pipelines.schedule import Schedule
from tests.pipelines.nights import pipeline_file

EXAMPLES = Path(__file__).parents[2] / "pipelines"
PYTHON = ("airflow_dag.py", "dagster_job.py")


def words(name: str) -> list[str]:
    """The command that a Python file gives to subprocess."""
    for node in ast.walk(ast.parse((EXAMPLES / name).read_text())):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "command":
            assert isinstance(node.value, ast.List)
            return [ast.literal_eval(item) for item in node.value.elts if isinstance(item, ast.Constant)]
    raise AssertionError(f"{name} calls no command")


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_file_compiles_and_imports_nothing_of_dlcca(name, tmp_path):
    py_compile.compile(str(EXAMPLES / name), cfile=str(tmp_path / "made.pyc"), doraise=True)
    assert not re.search(r"^\s*(from|import) dlcca", (EXAMPLES / name).read_text(), re.MULTILINE)
    assert words(name) == ["dlcca", "pipeline", "run"]


@pytest.mark.parametrize("name", PYTHON)
def test_only_what_may_pass_by_itself_is_tried_again(name):
    """A second try of 3 or 5 finds nothing new, and would hide what the first had to say."""
    text = (EXAMPLES / name).read_text()
    assert "AGAIN = 4" in text
    assert re.search(r"== AGAIN:\n\s+raise (AirflowException|dg\.RetryRequested)\(", text)
    assert re.search(r"if (code|done\.returncode):\n\s+raise (AirflowFailException|dg\.Failure)\(", text)


def test_the_line_of_scrontab_is_a_schedule_and_a_command_that_exists(tmp_path, monkeypatch):
    lines = (EXAMPLES / "scrontab").read_text().splitlines()
    (entry,) = [line for line in lines if line and not line.startswith("#")]
    Schedule.of(" ".join(entry.split()[:5]))
    first, second = entry.split(maxsplit=5)[5].split(" && ")
    assert shlex.split(first)[0] == "cd"
    command = shlex.split(second)
    assert Path(command[0]).name == "dlcca"
    monkeypatch.chdir(pipeline_file(tmp_path).parent)
    assert CliRunner().invoke(app, [*command[1:3], "--help"]).exit_code == 0
    options = [line for line in lines if line.startswith("#SCRON ")]
    assert all(re.fullmatch(r"#SCRON --[a-z-]+=\S+", line) for line in options)


def test_the_rule_of_snakemake_runs_the_command_line():
    text = (EXAMPLES / "Snakefile").read_text()
    (shell,) = re.findall(r'shell:\s+"(.*)"', text)
    assert shell.startswith("dlcca pipeline run {input:q}")
