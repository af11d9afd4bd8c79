"""Cron schedules come when Kubernetes' do."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from muster.kube.cron import ScheduleError, parse_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:15:01", "2026-01-01T00:30:00"),
        ("5/20 3 * * *", "2026-01-01T03:30:00", "2026-01-01T03:45:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("30 6-16/4 * * 1-5", "2026-01-02T14:30:00", "2026-01-05T06:30:00"),
        ("0 0 13 * fri", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("0 0 */2 * mon", "2026-01-06T00:00:00", "2026-01-07T00:00:00"),
        ("0 0 * jan,JUL ?", "2026-01-31T12:00:00", "2026-07-01T00:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
        ("@every 90s", "2026-01-01T00:00:00.5", "2026-01-01T00:01:30"),
    ],
)
def test_the_next_time_of_a_schedule(schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule).next(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 9 * * *", "2026-01-01T08:00:00", "2026-01-02T08:00:00"),
        ("30 2 * * *", "2026-03-28T12:00:00", "2026-03-30T00:30:00"),
        ("30 2 * * *", "2026-10-25T00:00:00", "2026-10-25T00:30:00"),
        ("0 0 * * *", "2026-03-28T23:30:00", "2026-03-29T22:00:00"),
    ],
    ids=["winter", "an-hour-that-is-left-out", "an-hour-that-comes-twice", "the-day-of-the-change"],
)
def test_schedules_follow_the_clocks_of_a_time_zone(schedule: str, after: str, expected: str) -> None:
    assert parse_schedule(schedule).next(at(after), ZoneInfo("Europe/Berlin")) == at(expected)


def test_a_day_that_never_comes_is_not_looked_for_for_ever() -> None:
    assert parse_schedule("59 23 31 2 *").next(at("2026-01-01T00:00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("@often", "unrecognized descriptor: @often"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * */0", "step of range should be a positive number: */0"),
        ("9-5 * * * *", "beginning of range (9) beyond end of range (5): 9-5"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@every never", 'failed to parse duration @every never: time: invalid duration "never"'),
    ],
)
def test_what_is_no_schedule_is_refused(schedule: str, problem: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_schedule(schedule)
    assert str(refused.value) == problem


def test_numbers_of_any_length_are_refused_politely() -> None:
    with pytest.raises(ScheduleError, match="value out of range"):
        parse_schedule(f"{'9' * 6000} * * * *")
