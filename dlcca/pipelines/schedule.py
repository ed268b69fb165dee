"""When a pipeline begins: an expression of cron, checked, and the same for systemd."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dlcca.errors import SettingsError

#: The fields of an expression in their order: what they are called, and what they may be.
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")


@dataclass(frozen=True)
class Schedule:
    """Moments, by the minutes, hours and days that they are made of."""

    expression: str  # of cron, five fields
    chosen: tuple[frozenset[int], ...]  # for each field

    @classmethod
    def of(cls, expression: str) -> Schedule:
        """The schedule of an expression of cron, as "0 2 * * *" or "@daily"."""
        given = SHORT.get(expression.strip().lower(), expression).split()
        if len(given) != len(FIELDS):
            raise SettingsError(
                f"the schedule {expression!r} has {len(given)} fields; five are needed: minute, hour, day, month, day "
                "of the week, as '0 2 * * *' for every night at two."
            )
        return cls(" ".join(given), tuple(_numbers(text, *field) for text, field in zip(given, FIELDS, strict=True)))

    @classmethod
    def at(cls, time: str) -> Schedule:
        """Once a day, at a time as 02:30."""
        found = re.fullmatch(r"(\d{1,2}):(\d{2})", time)
        if found is None or int(found[1]) > 23 or int(found[2]) > 59:
            raise SettingsError(f"{time!r} is no time of day; give one as 02:30.")
        return cls.of(f"{int(found[2])} {int(found[1])} * * *")

    def calendars(self) -> list[str]:
        """The same for OnCalendar= of systemd, one line or two.

        Cron takes the days of the month and those of the week together, if both are restricted; systemd asks for both.
        """
        minutes, hours, days, months, weekdays = self.chosen
        texts = self.expression.split()
        clock = f"{_told(hours, *FIELDS[1][1:])}:{_told(minutes, *FIELDS[0][1:])}:00"
        month = _told(months, *FIELDS[3][1:])
        week = [name.capitalize() for i, name in enumerate(WEEKDAYS) if i in weekdays or (i == 0 and 7 in weekdays)]
        of_week = "" if len(week) == 7 else ",".join(week) + " "
        of_month = _told(days, *FIELDS[2][1:])
        if texts[2].startswith("*") or texts[4].startswith("*"):
            return [f"{of_week}*-{month}-{of_month} {clock}"]
        return [f"*-{month}-{of_month} {clock}", f"{of_week}*-{month}-* {clock}"]


def _numbers(text: str, name: str, low: int, high: int) -> frozenset[int]:
    """The numbers that a field stands for."""
    found: set[int] = set()
    for part in text.split(","):
        parsed = _PART.fullmatch(part)
        if parsed is None:
            raise SettingsError(f"{text!r} is no {name} of a schedule; as 5, 1-5, */15 or 1,3 is needed.")
        first, last, step = parsed.groups()
        if (first == "*" and last) or (step and first != "*" and not last):
            raise SettingsError(f"{text!r} is no {name} of a schedule; a step needs a range, as */15 or 0-30/10.")
        begin, end = (low, high) if first == "*" else (_number(first, name, low, high),) * 2
        if last:
            end = _number(last, name, low, high)
        if end < begin or step == "0":
            raise SettingsError(f"{part!r} is no {name} of a schedule: nothing is in it.")
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, name: str, low: int, high: int) -> int:
    names = {"month": MONTHS, "day of the week": WEEKDAYS}.get(name, ())
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdecimal() or not low <= int(text) <= high:
        raise SettingsError(f"{text!r} is no {name} of a schedule; {low} to {high} is needed.")
    return int(text)


def _told(chosen: frozenset[int], low: int, high: int) -> str:
    """Numbers for systemd: all, or one after another."""
    return "*" if len(chosen) > high - low else ",".join(f"{number:02d}" for number in sorted(chosen))
