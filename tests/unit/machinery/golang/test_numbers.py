import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.numbers import format_float, format_shortest, parse_float, parse_int, parse_uint, wrap_int64


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_of_64_bits_are_read_back(value: int) -> None:
    assert parse_int(str(value)) == value
    assert wrap_int64(value + 2**64) == value


@given(st.integers(2**64), st.sampled_from(["", "x"]))
def test_what_is_too_large_is_noticed_before_what_follows(value: int, rest: str) -> None:
    with pytest.raises(GoError, match=r"strconv\.ParseUint: parsing .*: value out of range"):
        parse_uint(f"{value}{rest}")


@pytest.mark.parametrize("text", ["", "+", "1_0", " 1", "0x1", "١", "1.0"])
def test_what_is_no_integer_is_refused(text: str) -> None:
    with pytest.raises(GoError, match=r"strconv\.ParseInt: parsing .*: invalid syntax"):
        parse_int(text)


def test_a_number_of_any_length_is_read() -> None:
    assert parse_int("0" * 10_000 + "7") == 7
    with pytest.raises(GoError, match="value out of range"):
        parse_int("9" * 10_000)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from("efgx"))
def test_the_shortest_form_of_a_float_is_read_back(value: float, letter: str) -> None:
    again = parse_float(format_float(value, letter, -1))
    assert again == value
    assert math.copysign(1, again) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("value", "threshold", "text"),
    [(1e6, 6, "1e+06"), (1e6, 21, "1000000"), (1e21, 21, "1e+21"), (1e-5, 21, "1e-05"), (math.inf, 21, "+Inf"), (-0.0, 21, "-0")],
)
def test_large_numbers_get_an_exponent_from_the_threshold_on(value: float, threshold: int, text: str) -> None:
    assert format_shortest(value, threshold) == text
