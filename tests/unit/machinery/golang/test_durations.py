import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.durations import HOUR, MINUTE, SECOND, format_duration, human_duration, parse_duration, round_duration
from muster.machinery.golang.errors import GoError

nanoseconds = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5s", 5 * SECOND),
        ("1.s", SECOND),
        (".5s", SECOND // 2),
        ("1h30m", HOUR + 30 * MINUTE),
        ("1µs", 1000),
        ("1μs", 1000),
        ("0.000000000001h", 3),
        ("0.1234567890123456789s", 123456789),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("0000000000000000000000001s", SECOND),
    ],
)
def test_a_duration_is_read(text: str, nanos: int) -> None:
    assert parse_duration(text) == nanos


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("1", 'time: missing unit in duration "1"'),
        ("1.5.5s", 'time: missing unit in duration "1.5.5s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1é", 'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("9" * 5000 + "s", f'time: invalid duration "{"9" * 5000}s"'),
    ],
)
def test_a_refusal_says_what_go_says(text: str, reason: str) -> None:
    with pytest.raises(GoError) as caught:
        parse_duration(text)
    assert str(caught.value) == reason


@given(nanoseconds)
def test_a_printed_duration_is_read_back(nanos: int) -> None:
    # A fraction beyond 53 bits is rounded when it is read, as Go rounds it.
    assert abs(parse_duration(format_duration(nanos)) - nanos) <= 1


@given(nanoseconds, st.sampled_from([1, SECOND, MINUTE, HOUR]))
def test_a_rounded_duration_is_whole_and_near(nanos: int, unit: int) -> None:
    rounded = round_duration(nanos, unit)
    if abs(nanos) < 2**62:
        assert rounded % unit == 0
        assert abs(rounded - nanos) * 2 <= unit


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
