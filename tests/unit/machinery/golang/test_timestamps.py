from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import (
    EPOCH,
    RFC3339_MICRO,
    format_micro_time,
    format_time,
    parse_time,
    parse_unix_nanoseconds,
)


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x", 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("é", 'parsing time "\\xc3\\xa9" as "2006-01-02T15:04:05Z07:00": cannot parse "\\xc3\\xa9" as "2006"'),
        ("2024-13-02T03:04:05", 'parsing time "2024-13-02T03:04:05": month out of range'),
        ("2024-02-30T03:04:05Z", 'parsing time "2024-02-30T03:04:05Z": day out of range'),
        ("2024-02-30T03:04:05+25:00", 'parsing time "2024-02-30T03:04:05+25:00": time zone offset hour out of range'),
        ("2024-01-02T03:04:05+01:61", 'parsing time "2024-01-02T03:04:05+01:61": time zone offset minute out of range'),
        ("2024-01-02T03:04:05Zx", 'parsing time "2024-01-02T03:04:05Zx": extra text: "x"'),
        ("9999-12-31T23:59:59-01:00", 'parsing time "9999-12-31T23:59:59-01:00": day out of range'),
    ],
)
def test_a_refusal_says_what_go_says(text: str, reason: str) -> None:
    with pytest.raises(GoError) as caught:
        parse_time(text)
    assert str(caught.value) == reason


def test_a_refusal_names_the_layout_that_was_asked_for() -> None:
    with pytest.raises(GoError, match=r'as "2006-01-02T15:04:05\.000000Z07:00": cannot parse "" as "2006"'):
        parse_time("", RFC3339_MICRO)


def test_an_offset_of_a_whole_day_is_a_time() -> None:
    assert format_time(parse_time("2024-01-02T03:04:05+24:00")) == "2024-01-01T03:04:05Z"


def test_years_have_four_digits() -> None:
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"
    assert format_micro_time(datetime(33, 4, 3, tzinfo=UTC)) == "0033-04-03T00:00:00.000000Z"


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999_999_999))
def test_nanoseconds_since_1970_are_exact(seconds: int, fraction: int) -> None:
    text = format_time(EPOCH + timedelta(seconds=seconds)).replace("Z", f".{fraction:09d}Z")
    assert parse_unix_nanoseconds(text) == seconds * 10**9 + fraction
