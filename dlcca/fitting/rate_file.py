"""Measured rates in a file: one for each kind of job on each kind of machine, in the user's cache folder."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlcca.engine.fingerprint import fingerprint
from dlcca.engine.planning import Rates, StageRate
from dlcca.errors import SettingsError, StorageError
from dlcca.fitting.job import Job
from dlcca.fitting.planning import sizes_of
from dlcca.storage import places

FORM, VERSION = "dlcca-rates", 2
#: Settings that a cost per row depends on, beside the sizes.
_OPTIONS = ("metric", "landmark_rule", "fusion", "kernel", "solver", "coordinates", "neighbor_index", "bandwidth")
#: Sizes that it depends on; not the rows, to which it is applied.
_SIZES = ("dims", "itemsize", "m", "k", "r", "q", "sought", "links", "kept", "used_views")


@dataclass(frozen=True)
class Calibration:
    """Rates, and where they come from."""

    rates: Rates
    made: str  # a day
    rows: int
    workers: int
    machine: dict[str, Any]
    settings: dict[str, Any]  # see `settings_that_matter`

    def sentence(self) -> str:
        """For people."""
        said = f"calibrated on {self.made} at {self.rows:,} rows".replace(",", " ")
        said += f" with {self.workers} worker{'s' * (self.workers != 1)}"
        return said if self.machine == machine() else f"{said}, on another machine or with other packages"


def new(rates: Rates, job: Job, rows: int, workers: int) -> Calibration:
    """Rates that were measured now."""
    today = datetime.now(UTC).date().isoformat()
    return Calibration(rates, today, rows, workers, machine(), settings_that_matter(job))


def settings_that_matter(job: Job) -> dict[str, Any]:
    """What tells one kind of job from another, of which the rates may be different."""
    sizes = asdict(sizes_of(job))
    known = {name: sizes[name] for name in _SIZES}
    known |= {name: job.options[name] for name in _OPTIONS}
    return json.loads(json.dumps(known, default=str))


def machine() -> dict[str, Any]:
    """What a speed depends on; nothing that tells one machine of a kind from another."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "cores": os.cpu_count(),
        "system": platform.system(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas.get('name')} {blas.get('version')}",
    }


def usual_place(job: Job) -> Path:
    """The file in the user's cache folder for jobs of this kind on this kind of machine."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    folder = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"  # a relative one is to be ignored
    return folder / "dlcca" / "rates" / f"{fingerprint(settings_that_matter(job), machine())[:16]}.json"


def refuse_occupied(place: Path, inputs: Iterable[str | Path] = ()) -> None:
    """An error if rates cannot be written there: another file is there, which is not one of rates, damaged or not."""

    def is_ours(path: Path) -> bool:
        return f'"{FORM}"'.encode() in places.starts_with(path, 4000) or path.stat().st_size == 0

    places.refuse_file(place, is_ours, "a file of rates", inputs=inputs, setting="--rates")


def write(place: Path, found: Calibration) -> None:
    """Write it whole, or not at all."""
    place = Path(os.path.realpath(place))
    content = {"format": FORM, "version": VERSION, **asdict(found)}
    scratch = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps(content, indent=2), encoding="utf-8")
        os.replace(scratch, place)
    except OSError as error:
        with suppress(OSError):  # the same fault may forbid this too
            scratch.unlink()
        raise StorageError(f"the rates cannot be written to {place}: {error.strerror or error}.") from error


def read(place: Path) -> Calibration:
    """The rates in a file, or an error that says what to do about it."""
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        if (content.pop("format"), content.pop("version")) != (FORM, VERSION):
            raise ValueError(f"it is not {FORM} of version {VERSION}")
        rates = content.pop("rates")
        stages = {str(name): StageRate(**_numbers(rate)) for name, rate in rates.pop("stages").items()}
        return Calibration(Rates(stages, **_numbers(rates)), **content)
    except OSError as error:
        raise SettingsError(
            f"the rates at {place} cannot be read: {error.strerror or error}. Run dlcca plan with --calibrate first."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{place} is no file of rates, or damaged ({error}). Run dlcca plan with --calibrate to write it anew."
        ) from error


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        if not isinstance(value, int | float) or value != value or (value < 0 and name != "extra_bytes"):
            raise ValueError(f"{name} is {value!r}")
    return values


def refuse_other(found: Calibration, job: Job, place: Path) -> None:
    """An error if the rates were measured with settings that make them others."""
    wanted = settings_that_matter(job)
    for name, value in wanted.items():
        if found.settings.get(name) != value:
            raise SettingsError(
                f"the rates in {place} were measured with {name} = {found.settings.get(name)}, and this run has "
                f"{value}. Run dlcca plan with --calibrate, or name another file with --rates."
            )
