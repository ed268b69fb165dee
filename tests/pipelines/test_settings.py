"""`pipeline.toml`: what it says, and what it must not say."""

from pathlib import Path

import pytest

from dlcca.errors import SettingsError
from dlcca.pipelines import settings
from tests.pipelines.nights import pipeline_file

RUN = """
[store]
path = "run.zarr"
seed = 3

[views.left]
source = "example.edf"
channels = ["L1"]
window_s = 0.5

[views.right]
source = "example.edf"
channels = ["R1"]

[spectrum]
n_components = 1
"""


def test_paths_are_relative_to_the_file_and_defaults_are_kept(tmp_path):
    made = settings.read(pipeline_file(tmp_path))
    assert made.state == tmp_path / "state"
    assert made.models == tmp_path / "models"
    assert made.address("s3://bucket/model.zarr") == "s3://bucket/model.zarr"
    assert (made.pipeline.busy, made.refit.drift_alarms, made.gate.least_valid_share) == ("leave", 1, 0.5)
    assert list(made.recipes) == ["left", "right"]
    assert made.fit.landmarks.count == 120


def test_a_run_file_may_hold_the_views_and_the_fit(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    file = tmp_path / "pipeline.toml"
    file.write_text("[sources]\nfiles = 'in/*.edf'\n[run]\nfile = 'run.toml'\n")
    made = settings.read(file)
    assert (made.seed, made.fit.spectrum.n_components, made.recipes["left"].window_s) == (3, 1, 0.5)
    same = tmp_path / "same.toml"
    same.write_text(file.read_text() + "seed = 4\n")
    assert settings.read(same).seed == 4
    assert settings.read(same).fingerprint() != made.fingerprint()


def test_the_fingerprint_is_of_what_decides_coordinates_and_of_nothing_else(tmp_path):
    before = settings.read(pipeline_file(tmp_path)).fingerprint()
    assert settings.read(pipeline_file(tmp_path, "[gate]\nleast_rows = 9\n")).fingerprint() == before
    assert settings.read(pipeline_file(tmp_path, "[spectrum]\nn_components = 3\n")).fingerprint() != before
    assert settings.read(pipeline_file(tmp_path, "[metric]\nridge = 0.03\n")).fingerprint() == before  # the default
    assert settings.read(pipeline_file(tmp_path, "[metric]\nridge = 0.3\n")).fingerprint() != before
    text = pipeline_file(tmp_path).read_text()
    (tmp_path / "pipeline.toml").write_text(text.replace("window_s = 0.0625", "window_s = 0.125"))
    assert settings.read(tmp_path / "pipeline.toml").fingerprint() != before


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("[refits]\n", r"\[refits\] in .* is not a section; did you mean 'refit'"),
        ("[refit]\ndrift_alarm = 1\n", r"\[refit\] drift_alarm is not a setting; did you mean 'drift_alarms'"),
        ("[gate]\nleast_valid_share = 50\n", r"\[gate\] least_valid_share = 50; a share from 0 to 1"),
        ("[gate]\nearliest = 'last year'\n", "a day such as '2020-01-31'"),
        ("[gate]\nall_views = 'yes'\n", r"\[gate\] all_views = 'yes'; true or false is needed"),
        ("[outputs]\nzarr = ''\nparquet = ''\n", "name at least one folder"),
        ("[outputs]\nzarr = 's3://bucket/out'\n", "a folder on a file system is needed"),
        ("[outputs]\nday_begins_h = 24\n", "an hour from 0 to 24"),
        ("[refit]\nheld_out = 0\n", r"held_out = 0; a share above 0"),
        ("[retention]\nmodels = 1.5\n", r"\[retention\] models = 1.5; a whole number of at least 0 is needed"),
        ("[notify]\nwebhook = 'ftp://x'\n", "begins with https://"),
        ("[notify]\nwebhook = 'https://x'\nwebhook_env = 'HOOK'\n", "give one of them"),
        ("[notify]\ncommand = [1]\n", "a text or a list of texts is needed"),
        ("[run]\nfile = 'run.toml'\n", r"\[views\] is given here, and \[run\] file"),
        ("[spectrum]\ncomponents = 3\n", "did you mean 'n_components'"),
        ("[views.third]\nchannel = ['X']\n", r"\[views.third\] channel is not a setting; did you mean 'channels'"),
    ],
)
def test_what_means_nothing_is_refused_with_what_was_meant(tmp_path, more, complaint):
    with pytest.raises(SettingsError, match=complaint):
        settings.read(pipeline_file(tmp_path, more))


@pytest.mark.parametrize(
    ("sources", "complaint"),
    [
        ("complete = 'setle'", "complete = 'setle' is not known; did you mean 'settle'"),
        ("companions = '*_2.edf'\nsidecars = ['x.dat']", "'x.dat' is not a companion"),
        ("day_pattern = '(2020'", "no regular expression"),
        ("day_pattern = '(2020)'", "has 1 groups; 3 are needed"),
        ("markers = 'x'", "did you mean 'marker'"),
    ],
)
def test_sources_that_mean_nothing_are_refused(tmp_path, sources, complaint):
    with pytest.raises(SettingsError, match=complaint):
        settings.read(pipeline_file(tmp_path, sources=sources))


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[sources")
    with pytest.raises(SettingsError, match="is not TOML"):
        settings.read(tmp_path / "bad.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(SettingsError, match=r"\[sources\] files is missing"):
        settings.read(tmp_path / "empty.toml")


EXAMPLES = sorted((Path(__file__).parents[2] / "pipelines").glob("*.toml"))


@pytest.mark.parametrize("example", [p for p in EXAMPLES if "[sources]" in p.read_text()], ids=lambda p: p.stem)
def test_the_examples_can_be_read(example):
    assert settings.read(example).recipes
