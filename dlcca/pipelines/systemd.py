"""A pipeline as units of systemd: a service that runs it once, and a timer that starts the service."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dlcca.errors import SettingsError, StorageError
from dlcca.pipelines.installing import EXIT_CODES, Job

SERVICE = """\
# Written by dlcca pipeline install, for {file}
[Unit]
Description=dlcca pipeline {name}
# A night that failed is tried again, but not for ever.
StartLimitIntervalSec=6h
StartLimitBurst=4

[Service]
Type=oneshot
WorkingDirectory={folder}
{environment}
ExecStart={command}
{codes}
# So only what may pass by itself is tried again; all but 0 shows in: systemctl --failed
Restart=on-failure
RestartPreventExitStatus=2 3 5
RestartSec=10min
# What it says is in the journal: {journal}
"""

TIMER = """\
# Written by dlcca pipeline install, for {file}
[Unit]
Description=dlcca pipeline {name}, on time

[Timer]
# Times are those of this machine's time zone.
{calendars}
AccuracySec=1min
# A time that passed while the machine was off is made up for when it is on again.
Persistent=true

[Install]
WantedBy=timers.target
"""


def unit_name(job: Job) -> str:
    return f"dlcca-{job.slug}"


def units(job: Job, for_all: bool) -> dict[str, str]:
    """The unit files by name; ``for_all``: of the system, not of the user."""
    name = unit_name(job)
    lines = [f"Environment={_quoted(f'{key}={value}')}" for key, value in job.environment.items()]
    if job.environment_file is not None:
        lines.append(f"EnvironmentFile={_percent(job.environment_file)}")
    service = SERVICE.format(
        file=job.file,
        name=_percent(job.name),
        folder=_percent(job.folder),
        environment="\n".join(lines),
        command=" ".join(_quoted(word.replace("$", "$$")) for word in job.command),
        codes="\n".join(f"# {line}" for line in EXIT_CODES),
        journal=f"journalctl {'' if for_all else '--user '}-u {name}",
    )
    calendars = "\n".join(f"OnCalendar={moment}" for moment in job.schedule.calendars())
    timer = TIMER.format(file=job.file, name=_percent(job.name), calendars=calendars)
    return {f"{name}.service": service, f"{name}.timer": timer}


def _percent(said: object) -> str:
    """Systemd reads a % as the beginning of a specifier."""
    return str(said).replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a command line of systemd."""
    escaped = _percent(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_for_all() -> bool:
    """Whether units are those of the system: root's are."""
    return os.geteuid() == 0


def folder(for_all: bool) -> Path:
    """Where unit files belong."""
    if for_all:
        return Path("/etc/systemd/system")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def complaints(files: dict[str, str]) -> list[str]:
    """What systemd has against unit files, line by line; nothing can be said where it is not installed."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return []
    with tempfile.TemporaryDirectory(prefix="dlcca-units-") as place:
        for name, text in files.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        told = subprocess.run(
            [program, "verify", *(str(Path(place) / name) for name in files)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return [line.replace(f"{place}/", "") for line in told.stderr.splitlines() if place in line]


def install(job: Job, place: Path, for_all: bool) -> tuple[bool, str]:
    """Write the units and start the timer; whether anything changed, and what is left to do by hand."""
    files = units(job, for_all)
    _refuse_others(job, place)
    wrong = complaints(files)
    if wrong:
        raise SettingsError(f"systemd does not take these units: {' '.join(wrong)}")
    changed = False
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            unit = place / name
            if not unit.exists() or unit.read_text(encoding="utf-8") != text:
                aside = unit.with_name(f".{name}.new")
                aside.write_text(text, encoding="utf-8")
                os.replace(aside, unit)
                changed = True
    except OSError as error:
        raise StorageError(f"the units cannot be written to {place}: {error.strerror or error}.") from error
    return changed, _told_systemd(for_all, ["enable", "--now", f"{unit_name(job)}.timer"])


def remove(job: Job, place: Path, for_all: bool) -> tuple[bool, str]:
    """Stop the timer and remove the units; whether there were any, and what is left to do by hand."""
    found = [place / name for name in units(job, for_all) if (place / name).exists()]
    if not found:
        return False, ""
    _refuse_others(job, place)
    left = _told_systemd(for_all, ["disable", "--now", f"{unit_name(job)}.timer"], reload=False)
    for unit in found:
        unit.unlink()
    return True, _told_systemd(for_all) or left


def _refuse_others(job: Job, place: Path) -> None:
    """An error if units of this name are there that belong to something else."""
    for name in (f"{unit_name(job)}.service", f"{unit_name(job)}.timer"):
        unit = place / name
        if unit.exists() and not unit.read_text(encoding="utf-8").startswith(_first_line(job)):
            first = unit.read_text(encoding="utf-8").partition("\n")[0]
            raise SettingsError(
                f"{unit} is there and not of this pipeline ({first!r}); give it another [pipeline] name in "
                f"{job.file.name}, or remove that unit."
            )


def _first_line(job: Job) -> str:
    return SERVICE.partition("\n")[0].format(file=job.file) + "\n"


def _told_systemd(for_all: bool, order: list[str] | None = None, reload: bool = True) -> str:
    """Have systemd read its units and do something; what to do by hand where it does not run."""
    base = ["systemctl"] if for_all else ["systemctl", "--user"]
    orders = ([[*base, "daemon-reload"]] if reload else []) + ([[*base, *order]] if order else [])
    if shutil.which("systemctl") is None or not Path("/run/systemd/system").is_dir():
        return f"systemd does not run here; where it does: {' && '.join(' '.join(words) for words in orders)}"
    for words in orders:
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise StorageError(f"{' '.join(words)} failed: {done.stderr.strip()}")
    return ""
