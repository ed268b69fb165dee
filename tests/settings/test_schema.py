"""The JSON Schemas of settings files: what dlcca accepts they accept, and they refuse what editors can know."""

import json
import tomllib
from random import Random

import jsonschema
import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.clusters import profile
from dlcca.clusters.profile import cluster_schema
from dlcca.errors import SettingsError
from dlcca.pipelines import settings as pipelines
from dlcca.pipelines.settings import pipeline_schema
from dlcca.settings import runfile
from dlcca.settings.runfile import run_schema
from tests import settings_files
from tests.support import doc_pages

VALIDATORS = {
    "run": jsonschema.Draft7Validator(run_schema()),
    "cluster": jsonschema.Draft7Validator(cluster_schema()),
    "pipeline": jsonschema.Draft7Validator(pipeline_schema()),
}
READ = {"run": runfile.read, "cluster": profile.read, "pipeline": pipelines.read}
MADE = {
    "run": settings_files.run_file,
    "cluster": settings_files.cluster_file,
    "pipeline": settings_files.pipeline_file,
}


def kind_of(content):
    if "sources" in content:
        return "pipeline"
    return "cluster" if "kind" in content else "run" if {"store", "views"} <= content.keys() else None


def shipped():
    """Every settings file that comes with dlcca, and every one in its pages."""
    for folder in ("pipelines", "cluster"):
        for file in sorted((doc_pages.ROOT / folder).rglob("*.toml")):
            yield str(file.relative_to(doc_pages.ROOT)), file.read_text()
    for page in doc_pages.PAGES:
        for number, block in enumerate(doc_pages.blocks(page)):
            if block.language == "toml":
                yield f"{page.relative_to(doc_pages.ROOT)} block {number}", block.text


FILES = [(name, kind_of(tomllib.loads(text)), tomllib.loads(text)) for name, text in shipped()]


@pytest.mark.parametrize("kind", VALIDATORS)
def test_a_schema_is_one_by_the_draft_that_it_names(kind):
    jsonschema.Draft7Validator.check_schema(VALIDATORS[kind].schema)


def test_there_are_files_of_every_kind():
    assert {kind for _, kind, _ in FILES} >= {*VALIDATORS}


@pytest.mark.parametrize(
    ("kind", "content"), [found[1:] for found in FILES if found[1]], ids=[found[0] for found in FILES if found[1]]
)
def test_shipped_and_documented_files_fit_their_schema(kind, content):
    assert [error.message for error in VALIDATORS[kind].iter_errors(content)] == []


@pytest.mark.parametrize("kind", VALIDATORS)
def test_what_a_schema_refuses_dlcca_refuses(kind, tmp_path):
    file, refused = tmp_path / "file.toml", 0
    for seed in range(400):
        text = MADE[kind](Random(f"{kind} schema {seed}"))
        file.write_text(text, encoding="utf-8")
        if VALIDATORS[kind].is_valid(tomllib.loads(text)):
            continue
        refused += 1
        with pytest.raises(SettingsError):  # if not, file.toml is the one
            READ[kind](file)
    assert refused > 100


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("run", "[store]\npath = 'a'\n[views.x]\nsource = 'a'\n[kernel]\nn_link = 3"),
        ("run", "[store]\npath = 'a'\n[views.x]\nsource = 'a'\n[kernel]\nn_links = 0"),
        ("run", "[store]\npath = 'a'\n[views.x]\nsource = 'a'\n[metric]\nkind = 'ccca'"),
        ("run", "[store]\npath = 'a'\n[views.x]\nsource = 'a'\nfeatures = { kind = 'delay', bands = {} }"),
        ("run", "[views.x]\nsource = 'a'"),
        ("cluster", "kind = 'slurm'\nworkers = 1\nwalltime_min = 1"),
        ("cluster", "kind = 'slurm'\nworkers = 1\nqueue = 'a b'"),
        ("cluster", "kind = 'local'\naddress = 'tcp://x:1'"),
        ("cluster", "kind = 'kubernetes'\nworkers = 1"),
        ("pipeline", "[sources]\nfiles = []\n[views.x]"),
        ("pipeline", "[sources]\nfiles = 'a'\n[gate]\nleast_valid_share = 50"),
    ],
)
def test_types_ranges_choices_and_keys_are_in_the_schema(kind, text):
    assert not VALIDATORS[kind].is_valid(tomllib.loads(text))


def test_a_key_has_its_sentence_and_its_default():
    links = run_schema()["properties"]["kernel"]["properties"]["n_links"]
    assert links == {
        "type": "integer",
        "minimum": 1,
        "description": "Landmarks that a sparse row keeps.",
        "default": 32,
    }


def test_the_command_line_prints_or_writes_a_schema(tmp_path):
    for kind, validator in VALIDATORS.items():
        printed = CliRunner().invoke(app, ["schema", kind])
        assert json.loads(printed.stdout) == json.loads(json.dumps(validator.schema))
    out = tmp_path / "s.json"
    assert CliRunner().invoke(app, ["schema", "run", "--out", str(out)]).exit_code == 0
    assert json.loads(out.read_text())["title"] == "dlcca run file"
    wrong = CliRunner().invoke(app, ["schema", "rum"])
    assert (wrong.exit_code, "did you mean 'run'?" in wrong.stderr) == (2, True)
