from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.durations import human_duration
from muster.machinery.golang.timestamps import format_micro_time, format_time, parse_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (268, "4m28s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 12 * 60, "3h12m"),
        (8 * 3600, "8h"),
        (47 * 3600 + 3599, "47h"),
        (48 * 3600, "2d"),
        (53 * 3600, "2d5h"),
        (8 * 86400 - 1, "7d23h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (8 * 365 * 86400, "8y"),
        (9 * 365 * 86400 - 1, "8y"),
    ],
)
def test_ages_are_shown_with_two_or_three_figures(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_times_survive_the_wire_in_their_precision(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05.123456789Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02T01:04:05Z"),
    ],
)
def test_any_rfc_3339_time_is_understood_and_written_in_utc(text: str, utc: str) -> None:
    assert format_time(parse_time(text)) == utc


@pytest.mark.parametrize("text", ["", "yesterday", "2024-01-02", "2024-01-02 03:04:05Z", "2024-13-02T03:04:05Z"])
def test_other_notations_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)
