from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.ips import parse_address, parse_prefix


@given(st.ip_addresses(), st.integers(0, 128))
def test_addresses_and_prefixes_are_read_back(address: IPv4Address | IPv6Address, bits: int) -> None:
    assert parse_address(str(address)) == address
    bits = min(bits, address.max_prefixlen)
    prefix = parse_prefix(f"{address}/{bits}")
    assert (prefix.ip, prefix.network.prefixlen) == (address, bits)


def _problem(text: str) -> str:
    try:
        parse_address(text)
    except GoError as error:
        return str(error)
    return ""


@given(st.text("0123456789abf:.%/"))
def test_whatever_is_no_address_is_refused_with_a_reason(text: str) -> None:
    assert _problem(text) == "" or _problem(text).startswith(f'ParseAddr("{text}"): ')


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unable to parse IP"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("01.2.3.4", "IPv4 field has octet with leading zero"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("0.", 'IPv4 field must have at least one digit (at ".")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("::1%", "zone must be a non-empty string"),
        ("%", "missing IPv6 address"),
    ],
)
def test_a_refusal_says_what_go_says(text: str, reason: str) -> None:
    with pytest.raises(GoError) as caught:
        parse_address(text)
    assert str(caught.value) == f'ParseAddr("{text}"): {reason}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1.2.3.4", "no '/'"),
        ("1.2.3.4/33", "prefix length out of range"),
        ("1.2.3.4/01", 'bad bits after slash: "01"'),
        ("fe80::1%e/64", "IPv6 zones cannot be present in a prefix"),
        ("x/1", 'ParseAddr("x"): unable to parse IP'),
    ],
)
def test_a_prefix_is_refused_with_gos_reason(text: str, reason: str) -> None:
    with pytest.raises(GoError) as caught:
        parse_prefix(text)
    assert str(caught.value) == f'netip.ParsePrefix("{text}"): {reason}'


def test_a_zone_may_hold_anything() -> None:
    assert parse_address("fe80::1%a%b") == IPv6Address("fe80::1")
