"""Moments are told as people tell them: by the clock where it is known, by seconds or by counting elsewhere."""

import pytest
from matplotlib.figure import Figure

from dlcca.report.time_axis import TimeAxis

NIGHT = "2024-03-01T22:30:00+01:00"


@pytest.mark.parametrize(
    ("axis", "time", "text", "label"),
    [
        (TimeAxis("sample", 0, 10**6), 12_345, "12\u202f345", "sample"),
        (TimeAxis("s", 0, 5), 1.234, "1.23 s", "time [s]"),
        (TimeAxis("s", 0, 300), 61.27, "61.3 s", "time [s]"),
        (TimeAxis("s", 0, 7200), 3725, "1:02:05", "time since the start [h:min]"),
        (TimeAxis("s", 0, 80_000), 7800, "2:10", "time since the start [h:min]"),
        (TimeAxis("s", 0, 28_800, NIGHT), 13_200, "02:10", "time of day"),
        (TimeAxis("s", 0, 1200, NIGHT), 62, "22:31:02", "time of day"),
        (TimeAxis("s", 0, 10**6, NIGHT), 5400, "02 Mar 00:00", "date and time"),
        (TimeAxis("s", 0, 1200, "noon"), 62, "0:01:02", "time since the start [h:min]"),  # not a time
    ],
)
def test_a_moment_is_told_as_exactly_as_the_span_asks_for(axis, time, text, label):
    assert axis.text(time) == text
    assert axis.label == label


def test_an_interval_is_a_part_of_a_sentence():
    assert TimeAxis("s", 0, 28_800, NIGHT).between(13_200, 21_600) == "between 02:10 and 04:30"
    assert TimeAxis("s", 0, 80_000).between(0, 7200) == "between 0:00 and 2:00 after the start"
    assert TimeAxis("sample", 0, 9000).between(10, 2000) == "between samples 10 and 2\u202f000"


@pytest.mark.parametrize(("span", "told"), [(5, "5 s"), (1800, "30 min"), (28_800, "8.0 h"), (864_000, "10.0 days")])
def test_a_duration_is_told_in_the_unit_that_suits_it(span, told):
    assert TimeAxis("s", 100, 100 + span).duration() == told


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (TimeAxis("s", 0, 28_800, NIGHT), ["23:00", "00:00", "01:00", "02:00", "03:00", "04:00", "05:00", "06:00"]),
        (TimeAxis("s", 0, 3600), ["0:00", "0:10", "0:20", "0:30", "0:40", "0:50", "1:00"]),
        (TimeAxis("s", 0, 4 * 86_400, NIGHT), None),
    ],
)
def test_ticks_stand_at_round_times_and_are_few(axis, ticks):
    ax = Figure().subplots()
    ax.plot([axis.first, axis.last], [0, 1])
    axis.apply(ax)
    found = [text.get_text() for text in ax.get_xticklabels()]
    assert ticks is None or found == ticks
    assert 2 <= len(found) <= 9
    assert all(axis.first <= t <= axis.last for t in ax.get_xticks())


def test_scripts_are_told_the_same_zero():
    axis = TimeAxis("s", 0, 28_800, NIGHT)
    assert axis.zero_ms == 1_709_332_200_000  # 22:30 by the clock of the recording, as if in UTC
    assert TimeAxis("sample", 0, 9, NIGHT).zero_ms is None
