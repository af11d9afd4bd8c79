from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.quantities import (
    BINARY_SI,
    DECIMAL_EXPONENT,
    WRONG_FORMAT,
    WRONG_NUMBER,
    WRONG_SUFFIX,
    Quantity,
    QuantityError,
    canonical,
    parse_notation,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0n", "0"),
        ("0Ki", "0"),
        ("Ki", "0"),
        (".", "0"),
        ("-", "0"),
        ("e3", "0"),
        ("1", "1"),
        ("+5", "5"),
        ("-5m", "-5m"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("0.1", "100m"),
        ("1.5", "1500m"),
        (".5", "500m"),
        ("1.", "1"),
        ("1000k", "1M"),
        ("1234", "1234"),
        ("12345000", "12345k"),
        ("1Ki", "1Ki"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.3Mi", "314572800m"),
        ("1024", "1024"),
        ("1e3", "1e3"),
        ("12E6", "12e6"),
        ("1500e-3", "1500e-3"),
        ("1e-9", "1e-9"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("1E", "1E"),
        ("1Ei", "1Ei"),
        ("9Ei", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("99999999999999999999e3", "99999999999999999999e3"),
        ("1e21", "1e21"),
    ],
)
def test_a_quantity_is_printed_in_its_canonical_form(text: str, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize("text", ["", "..", "1 ", " 1", "1.1.1", "abc", "1foo", "1,5", "1x", "0x10", "1" * 5000])
def test_text_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(caught.value) == WRONG_FORMAT


@pytest.mark.parametrize("text", ["1i", "1mi", "1KK", "1e", "1mm", "1k3", "1Ki1", "--1", "+-1", "1e+", "1e99999999999999999999"])
def test_an_unknown_suffix_is_refused(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(caught.value) == WRONG_SUFFIX


def test_the_same_amount_is_equal_however_it_is_written() -> None:
    assert parse_quantity("1") == parse_quantity("1000m") == parse_quantity("1e0")
    assert parse_quantity("1Ki") == parse_quantity("1024")
    assert len({parse_quantity("1Gi"), parse_quantity("1024Mi")}) == 1


def test_whole_units_are_rounded_up() -> None:
    assert parse_quantity("1.2").value == 2
    assert parse_quantity("-1.2").value == -1
    assert parse_quantity("1.2").milli_value == 1200
    assert parse_quantity("100n").milli_value == 1


def test_sums_keep_the_format_of_the_first_amount_that_is_not_zero() -> None:
    assert str(parse_quantity("1Gi") + parse_quantity("1024Mi")) == "2Gi"
    assert str(parse_quantity("0") + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("2") - parse_quantity("500m")) == "1500m"


suffixes: dict[str, int | Fraction] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 1000,
    "Ki": 1024,
    "M": 10**6,
    "Mi": 2**20,
    "e2": 100,
    "e-2": Fraction(1, 100),
}
amounts = st.tuples(st.decimals(-999, 999, places=2), st.sampled_from(sorted(suffixes)))


def exact(amount: tuple[object, str]) -> Fraction:
    return Fraction(str(amount[0])) * suffixes[amount[1]]


@given(amounts, amounts)
def test_quantities_order_like_the_numbers_they_are(left: tuple[object, str], right: tuple[object, str]) -> None:
    a, b = (parse_quantity(f"{number}{suffix}") for number, suffix in (left, right))
    assert (a < b, a == b) == (exact(left) < exact(right), exact(left) == exact(right))


@given(amounts)
def test_the_canonical_form_is_the_same_amount_and_its_own_canonical_form(amount: tuple[object, str]) -> None:
    quantity = parse_quantity(f"{amount[0]}{amount[1]}")
    again = parse_quantity(str(quantity))
    assert again == quantity
    assert str(again) == str(quantity)


def test_formats_can_be_told_apart() -> None:
    assert parse_quantity("1Ki").format == BINARY_SI
    assert parse_quantity("1e3").format == DECIMAL_EXPONENT
    assert str(Quantity(5 * 10**9, BINARY_SI)) == "5"


@pytest.mark.parametrize("text", ["Ei", "-Ei", "e-31"])
def test_without_digits_what_goes_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert str(caught.value) == WRONG_NUMBER


@given(amounts)
def test_the_spelling_that_is_answered_means_the_same_and_stays(amount: tuple[object, str]) -> None:
    text = f"{amount[0]}{amount[1]}"
    spelled = canonical(text)
    assert parse_quantity(spelled) == parse_quantity(text)
    assert canonical(spelled) == spelled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4", 4.0),
        ("3920m", 3.92),
        ("-1.5Gi", -1610612736.0),
        ("1e3", 1000.0),
        ("1.1", 11 * 10.0**-1),
        ("Ki", 0.0),
        ("9e300", 9 * 1e300),
    ],
)
def test_a_quantity_is_approximately_a_double(text: str, expected: float) -> None:
    assert parse_notation(text).approximate == expected


@pytest.mark.parametrize("text", ["9e999", "9" * 400])
def test_what_no_double_holds_has_no_approximation(text: str) -> None:
    with pytest.raises(OverflowError):
        _ = parse_notation(text).approximate
