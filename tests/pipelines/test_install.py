"""A pipeline as a line of cron and as units of systemd: what is printed, what is taken, and how it goes away again."""

import json
import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dlcca.cli import app
from dlcca.errors import SettingsError
from dlcca.pipelines import schedule as schedules
from dlcca.pipelines.schedule import Schedule
from tests.pipelines.nights import pipeline_file

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")

#: A folder that is hard on whoever forgets to quote.
HARD = "a folder with 100% of $HOME, 'quotes' & \"more\""


def job(folder: Path, at: str = "02:30", **options) -> schedules.Job:
    return schedules.job(pipeline_file(folder), Schedule.at(at), **options)


def invoke(*arguments: object):
    return CliRunner().invoke(app, ["pipeline", "install", *map(str, arguments)])


# The schedule


@pytest.mark.parametrize(
    ("expression", "calendars"),
    [
        ("30 2 * * *", ["*-*-* 02:30:00"]),
        ("@daily", ["*-*-* 00:00:00"]),
        ("*/20 1-5 * * mon-fri", ["Mon,Tue,Wed,Thu,Fri *-*-* 01,02,03,04,05:00,20,40:00"]),
        ("0 0 1,15 jan *", ["*-01-01,15 00:00:00"]),
        ("0 6 1 * 0", ["*-*-01 06:00:00", "Sun *-*-* 06:00:00"]),
        ("* * * * 7", ["Sun *-*-* *:*:00"]),
        ("10-40/15 * * * *", ["*-*-* *:10,25,40:00"]),
    ],
)
def test_a_schedule_of_cron_is_told_to_systemd(expression, calendars):
    assert Schedule.of(expression).calendars() == calendars


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("0 2 * *", "has 4 fields; five are needed"),
        ("61 2 * * *", "'61' is not a valid minute in a schedule; 0 to 59 is needed"),
        ("0 2 0 * *", "'0' is not a valid day of the month"),
        ("0 2 * * monday", "'monday' is not a valid day of the week"),
        ("5/10 * * * *", "a step needs a range"),
        ("30-10 * * * *", "the range is empty"),
        ("*/0 * * * *", "the range is empty"),
        ("a b c d e", "'a' is not a valid minute"),
        ("0 2 * * *; rm -rf /", "has 8 fields"),
        ("0 $(id) * * *", "is not a valid hour in a schedule"),
    ],
)
def test_a_schedule_that_is_none_is_refused(expression, complaint):
    with pytest.raises(SettingsError) as refused:
        Schedule.of(expression)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("time", ["24:00", "2", "02:60", "noon", "02:30:00"])
def test_a_time_that_is_none_is_refused(time):
    with pytest.raises(SettingsError, match="is not a time of day; give one such as 02:30"):
        Schedule.at(time)


def field(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.integers(low, high)
    ranges = st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}")
    return st.one_of(st.just("*"), numbers.map(str), ranges, st.integers(2, 12).map("*/{}".format))


@needs_systemd
@settings(max_examples=15, deadline=None)
@given(fields=st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)))
def test_systemd_and_cron_mean_the_same_moments(fields):
    """Held against cronsim, which follows Debian's cron, for the next five moments."""
    cronsim = pytest.importorskip("cronsim")
    base = datetime(2026, 3, 5, 12, 30, 30)
    expected = cronsim.CronSim(" ".join(fields), base)
    wanted = [next(expected) for _ in range(5)]
    found: set[datetime] = set()
    for calendar in Schedule.of(" ".join(fields)).calendars():
        found |= _elapses(calendar, base, wanted[-1])
    assert sorted(found) == wanted


def _elapses(calendar: str, base: datetime, last: datetime) -> set[datetime]:
    """When systemd would start a timer after ``base``, up to ``last``; at most so often as needed here."""
    command = ["systemd-analyze", "calendar", "--iterations=6", f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC", calendar]
    told = subprocess.run(
        command, env={**os.environ, "TZ": "UTC", "LC_ALL": "C"}, capture_output=True, text=True, check=True
    )
    moments = set()
    for line in told.stdout.splitlines():
        name, _, rest = line.strip().partition(": ")
        if name == "Next elapse" or name.startswith(("Iteration", "Iter. #")):
            moments.add(datetime.strptime(rest.strip(), "%a %Y-%m-%d %H:%M:%S UTC"))
    return {moment for moment in moments if base < moment <= last}


# Cron


def test_a_line_for_cron_is_printed_and_nothing_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no crontab command: it must not be needed
    answer = invoke("--cron", pipeline_file(tmp_path), "--at", "02:30")
    assert answer.exit_code == 0
    (line,) = [line for line in answer.stdout.splitlines() if not line.startswith("#")]
    assert line.startswith("30 2 * * * cd ")
    assert f"pipeline run {tmp_path / 'pipeline.toml'}" in line
    assert f">> {tmp_path / 'state' / 'cron.log'} 2>&1" in line
    assert "Exit codes: 0 done" in answer.stdout
    assert "Nothing was installed" in answer.stderr


@pytest.mark.parametrize("exits", [0, 5])
def test_the_command_of_cron_does_as_it_says_in_a_shell(tmp_path, exits):
    """In any folder: what it prints goes to the log, and only an exit code other than 0 is told to cron."""
    secrets = tmp_path / "secrets.env"
    secrets.write_text("WEBHOOK=https://example.org/hook\n")
    made = job(tmp_path / HARD, environment_file=secrets)
    said = "import os, sys; print(os.getcwd(), os.environ['WEBHOOK'], sys.argv[1:]); sys.exit(int(sys.argv[1]))"
    made = schedules.Job(**{**vars(made), "command": (made.command[0], "-c", said, str(exits), str(made.file))})
    command = schedules.cron_command(made).replace(r"\%", "%")  # as cron does before it calls the shell
    done = subprocess.run(["/bin/sh", "-c", command], env={}, capture_output=True, text=True, check=True)
    told = f"dlcca pipeline laboratory ended with exit code {exits}\n" if exits else ""
    assert (done.stdout, done.stderr) == (told, "")
    log = made.log.read_text()
    assert log == f"{made.file.parent} https://example.org/hook {[str(exits), str(made.file)]}\n"


LINES = st.lists(st.sampled_from(["# mine\n", "5 4 * * * sleep 1\n", "\n", "MAILTO=me\n"]), max_size=6).map("".join)


@pytest.fixture(scope="module")
def one_job(tmp_path_factory):
    return job(tmp_path_factory.mktemp("cron"))


@given(before=LINES, after=LINES)
def test_a_crontab_is_the_same_before_it_and_without_it(one_job, before, after):
    made = one_job
    once = schedules.with_entry(made, before) + after
    assert schedules.without_entry(made, once) == before + after
    again = schedules.with_entry(made, once)
    assert again.count("pipeline run") == 1
    assert schedules.with_entry(made, again) == again


def test_two_pipelines_share_a_crontab(tmp_path):
    first, second = job(tmp_path / "one"), job(tmp_path / "two", at="03:30")
    table = schedules.with_entry(second, schedules.with_entry(first, ""))
    assert schedules.without_entry(first, table) == schedules.cron_entry(second)


def test_a_crontab_with_half_of_it_is_not_touched(tmp_path):
    made = job(tmp_path)
    half = "\n".join(schedules.cron_entry(made).splitlines()[:-1])
    with pytest.raises(SettingsError, match=r"but not .* ends"):
        schedules.with_entry(made, half)


def test_a_command_that_cron_would_cut_is_refused(tmp_path):
    deep = tmp_path / ("d" * 200) / ("e" * 200)
    with pytest.raises(SettingsError, match="cron accepts 998"):
        schedules.cron_command(job(deep))


# Systemd


@needs_systemd
@pytest.mark.parametrize("for_all", [True, False])
@pytest.mark.parametrize("folder", ["plain", HARD])
def test_systemd_has_nothing_against_the_units(tmp_path, folder, for_all):
    secrets = tmp_path / "secrets.env"
    secrets.write_text("A=b\n")
    made = schedules.job(
        pipeline_file(tmp_path / folder), Schedule.of("0 6 1 * 0"), "tcp://cluster:8786", environment_file=secrets
    )
    files = schedules.units(made, for_all)
    assert list(files) == ["dlcca-laboratory.service", "dlcca-laboratory.timer"]
    assert schedules.unit_errors(files) == []


@needs_systemd
def test_what_systemd_has_against_a_unit_is_told(tmp_path):
    files = schedules.units(job(tmp_path), True)
    wrong = {name: text.replace("OnCalendar=*-", "OnCalendar=sometimes ") for name, text in files.items()}
    assert any("OnCalendar" in line or "calendar" in line for line in schedules.unit_errors(wrong))


def test_units_are_written_once_and_removed(tmp_path):
    made, place = job(tmp_path), tmp_path / "units"
    changed, _ = schedules.install_units(made, place, for_all=False)
    assert changed
    assert sorted(path.name for path in place.iterdir()) == ["dlcca-laboratory.service", "dlcca-laboratory.timer"]
    assert schedules.install_units(made, place, for_all=False)[0] is False
    changed, left = schedules.install_units(job(tmp_path, at="04:00"), place, for_all=False)
    assert changed
    assert "OnCalendar=*-*-* 04:00:00" in (place / "dlcca-laboratory.timer").read_text()
    if not Path("/run/systemd/system").is_dir():
        assert "systemctl --user enable --now dlcca-laboratory.timer" in left
    assert schedules.remove_units(made, place, for_all=False)[0] is True
    assert list(place.iterdir()) == []
    assert schedules.remove_units(made, place, for_all=False) == (False, "")


def test_units_of_another_pipeline_of_that_name_are_not_touched(tmp_path):
    place = tmp_path / "units"
    schedules.install_units(job(tmp_path / "one"), place, for_all=False)
    before = (place / "dlcca-laboratory.service").read_text()
    for act in (schedules.install_units, schedules.remove_units):
        with pytest.raises(SettingsError, match=r"choose another \[pipeline\] name"):
            act(job(tmp_path / "two"), place, for_all=False)
    assert (place / "dlcca-laboratory.service").read_text() == before


# The verb


def test_units_are_printed_as_json(tmp_path):
    answer = invoke("--systemd", pipeline_file(tmp_path), "--schedule", "@hourly", "--json")
    told = json.loads(answer.stdout)
    assert (answer.exit_code, told["applied"], told["changed"]) == (0, False, False)
    assert "OnCalendar=*-*-* *:00:00" in told["files"]["dlcca-laboratory.timer"]
    assert "RestartPreventExitStatus=2 3 5" in told["files"]["dlcca-laboratory.service"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "--cron or --systemd"),
        (["--cron", "--systemd"], "--cron or --systemd"),
        (["--cron", "--at", "02:00", "--schedule", "@daily"], "both given"),
        (["--cron", "--at", "25:00"], "not a time of day"),
        (["--cron", "--environment", "nowhere.env"], "does not exist; a file with lines NAME=value"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, complaint):
    answer = invoke(pipeline_file(tmp_path), *options)
    assert answer.exit_code == 2
    assert complaint in answer.stderr


def test_a_pipeline_with_a_wrong_key_is_not_installed(tmp_path):
    answer = invoke("--cron", pipeline_file(tmp_path, more="[gates]\nleast_rows = 3"), "--apply")
    assert answer.exit_code == 2
    assert "did you mean 'gate'?" in answer.stderr
