"""The tutorial on SLURM (docs/tutorials/slurm.md), done on a real one as it stands."""

import subprocess
import sys
import tempfile
from dataclasses import replace

import pytest

from dlcca.clusters import job_monitor
from tests.support import doc_pages

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = doc_pages.ROOT / "docs/tutorials/slurm.md"


@pytest.fixture
def python_elsewhere(tmp_path, monkeypatch):
    """A Python that does not see the temporary folder of this process, as on another machine, if one can be made."""
    hidden = tmp_path / "tmp"
    hidden.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(hidden))
    script = tmp_path / "python"
    mounted = f"""unshare --mount sh -c 'mount -t tmpfs none "$0" && exec "$@"' {hidden}"""
    script.write_text(f"""#!/bin/sh\nexec {mounted} {sys.executable} "$@"\n""")
    script.chmod(0o755)
    has_namespaces = subprocess.run([script, "-c", ""], capture_output=True, check=False).returncode == 0
    return script if has_namespaces else sys.executable


def test_the_tutorial_runs(submitting, tmp_path, monkeypatch, python_elsewhere):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job_monitor, "EVERY_S", 2.0)
    # Three things of this SLURM that another site would not need to say.
    site = f'interface = "lo"\nshared = "{tmp_path / "shared"}"\npython = "{python_elsewhere}"\n'
    names: dict[str, object] = {}
    files = []
    for block in doc_pages.blocks(PAGE):
        files.append(block.file)
        said = block if block.file != "slurm.toml" else replace(block, text=block.text + site)
        doc_pages.do_block(PAGE, said, names, also=["dlcca run run.toml --cluster slurm.toml"])
    assert {"run.toml", "slurm.toml"} <= set(files)
    assert submitting.jobs() == []
