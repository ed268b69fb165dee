"""The tutorial on SLURM (docs/tutorials/slurm.md), done on a real one as it stands."""

from dataclasses import replace

import pytest

from dlcca.clients import keeper
from tests import doc_pages

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = doc_pages.ROOT / "docs/tutorials/slurm.md"


def test_the_tutorial_runs(submitting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(keeper, "EVERY_S", 2.0)
    # Two things of this SLURM that another site would not need to say.
    site = f'interface = "lo"\nshared = "{tmp_path / "shared"}"\n'
    names: dict[str, object] = {}
    files = []
    for block in doc_pages.blocks(PAGE):
        files.append(block.file)
        said = block if block.file != "slurm.toml" else replace(block, text=block.text + site)
        doc_pages.do_block(PAGE, said, names, also=["dlcca run run.toml --cluster slurm.toml"])
    assert {"run.toml", "slurm.toml"} <= set(files)
    assert submitting.jobs() == []
