"""Times of samples: one rate, the breaks between them, and what is refused."""

import numpy as np
import pytest

from dlcca.errors import DataError, SettingsError
from dlcca.recordings.formats.clock import Clock, TimeColumn


def sampling(times, *, portions=1, **options):
    clock = Clock("time", **options)
    for part in np.array_split(np.asarray(times, float), portions):
        clock.feed(part)
    return clock.sampling()


@pytest.mark.parametrize("rate", [1, 12.5, 30000 / 1001, 100, 204.8, 256, 700, 44100])
@pytest.mark.parametrize("portions", [1, 3])
def test_even_times_give_their_rate(rate, portions):
    found = sampling(7 + np.arange(5000) / rate, portions=portions)
    assert found.rate == pytest.approx(rate, rel=1e-12)
    assert [(s.first, s.n, s.start_s) for s in found.stretches] == [(0, 5000, 7)]


@pytest.mark.parametrize("rate", [100, 204.8, 256, 700])
def test_times_that_were_rounded_to_milliseconds_still_give_the_rate_that_was_meant(rate):
    assert sampling(np.round(np.arange(20000) / rate, 3)).rate == rate


@pytest.mark.parametrize("portions", [1, 4, 60])
def test_a_jump_of_more_than_half_a_step_is_a_break(portions):
    t = np.concatenate([np.arange(50), np.arange(50, 90) + 0.6, np.arange(200, 260)]) / 10
    found = sampling(t, portions=portions)
    assert found.rate == pytest.approx(10)
    assert [(s.first, s.n) for s in found.stretches] == [(0, 50), (50, 40), (90, 60)]
    assert [s.start_s for s in found.stretches] == pytest.approx([0, 5.06, 20])


def test_a_jump_of_less_than_half_a_step_is_none():
    t = np.concatenate([np.arange(50), np.arange(50, 90) + 0.4]) / 10
    assert len(sampling(t).stretches) == 1


@pytest.mark.parametrize(
    ("times", "complaint"),
    [
        ([0, 1, 2, 1.5, 3, 4], "goes backwards at row 4: 1.5 s after 2 s"),
        ([0, 1, 2, 2, 3, 4], "stands still at row 4: 2 s after 2 s"),
        ([0, 1, 2, np.nan, 4], "has no time at row 4"),
        ([0, 1, 2, 2.3, 3, 4, 5], "not evenly spaced at row 4: 2.3 s after 2 s"),
        (np.cumsum(np.tile([1, 1, 2.5], 50)), "jumps"),
        (np.r_[np.arange(500) / 100, 5 + np.arange(500) / 120], "not evenly spaced: row"),
    ],
)
def test_times_that_no_even_clock_has_are_refused_with_the_row(times, complaint):
    with pytest.raises(DataError, match=complaint):
        sampling(times)


def test_a_clock_that_wanders_a_little_is_noted():
    steps = 1 / 256 * (1 + 4e-5 * np.sin(np.arange(400_000) / 60_000))
    found = sampling(np.cumsum(steps), portions=9)
    assert len(found.stretches) == 1
    assert "wanders" in found.notes[0]


def test_a_rate_that_is_given_must_fit_the_times():
    t = np.arange(100) / 50.0
    assert sampling(t, rate=50).rate == 50
    with pytest.raises(SettingsError, match="50 samples per second"):
        sampling(t, rate=60)
    with pytest.raises(SettingsError, match="give rate"):
        sampling([3.0])
    assert sampling([3.0], rate=2).stretches[0].n == 1


def test_what_a_clock_keeps_does_not_grow_with_the_recording():
    clock = Clock("time")
    for first in range(0, 10**6, 10**5):
        clock.feed(np.arange(first, first + 10**5) / 100)
    assert clock._rows.nbytes + clock._times.nbytes <= 16 * 4096
    assert clock.sampling().rate == 100


@pytest.mark.parametrize(
    ("unit", "values"), [("s", [0, 0.5]), ("ms", [0, 500]), ("us", [0, 5e5]), ("min", [0, 1 / 120])]
)
def test_a_unit_turns_numbers_into_seconds(unit, values):
    np.testing.assert_allclose(TimeColumn("t", unit).seconds(np.array(values)), [0, 0.5])


@pytest.mark.parametrize("scale", [1, 1000, 10**6, 10**9])
def test_unix_time_is_known_by_its_size(scale):
    column = TimeColumn("t")
    later = column.seconds(np.array([1_700_000_000 * scale, 1_700_000_004 * scale]))
    np.testing.assert_allclose(later, [0, 4])
    assert column.start.isoformat() == "2023-11-14T22:13:20+00:00"


def test_time_stamps_count_from_the_first_whatever_the_portions():
    stamps = np.datetime64("2024-01-01T10:00:00", "ns") + np.arange(4) * np.timedelta64(3906250, "ns")
    column = TimeColumn("t")
    found = np.concatenate([column.seconds(stamps[:1]), column.seconds(stamps[1:])])
    np.testing.assert_allclose(found, np.arange(4) / 256, rtol=1e-12)
    assert column.start.isoformat() == "2024-01-01T10:00:00"
