"""Files whose headers would keep a reader busy for ever end an ingestion, and do not hold up a night."""

import json

import pytest
from typer.testing import CliRunner

from dlcca.cli import app
from tests.pipelines.nights import pipeline_file, recorded, run_night
from tests.recordings.formats.reading import within
from tests.recordings.formats.test_wav import PCM, chunk, riff


def endless_wav(path):
    """A header without samples, and a gigabyte of silence behind it, which looks like chunks without a name."""
    head = riff(chunk(b"fmt ", PCM))
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + (1 << 30))  # without taking place on the disk
    return path


def endless_fif(path):
    """Tags of which the second leads back to the first."""
    tags = [(100, 31, 20, 0), (101, 3, 4, 0), (102, 3, 4, 16)]
    with path.open("wb") as file:
        for kind, type_, size, after in tags:
            for number in (kind, type_, size, after):
                file.write(number.to_bytes(4, "big"))
            file.write(bytes(size))
    return path


@pytest.mark.parametrize(("made", "name"), [(endless_wav, "x.wav"), (endless_fif, "x_raw.fif")])
def test_an_ingestion_of_a_header_that_leads_nowhere_is_refused(tmp_path, made, name):
    with within(20):
        done = CliRunner().invoke(app, ["ingest", str(made(tmp_path / name)), "--out", str(tmp_path / "views.zarr")])
    assert done.exit_code == 3, done.output
    assert name in done.output
    assert not (tmp_path / "views.zarr").exists()


def test_a_night_goes_on_past_a_header_that_leads_nowhere(tmp_path):
    file = pipeline_file(tmp_path)
    file.write_text(file.read_text().replace("incoming/*.edf", "incoming/*"))
    recorded(tmp_path, 0)
    endless_wav(tmp_path / "incoming" / "x.wav")
    endless_fif(tmp_path / "incoming" / "x_raw.fif")
    with within(60):
        run_night(file, 0)
    found = json.loads(CliRunner().invoke(app, ["pipeline", "history", str(file), "--json"]).stdout)["lines"]
    said = " ".join(line["text"] for line in found)
    assert "x.wav" in said
    assert "x_raw.fif" in said
