"""Which texts each string format accepts; expectations follow the Go functions behind the names."""

from __future__ import annotations

import pytest

from muster.kube.structural_schema.formats import FORMATS, format_check

ACCEPTED = [
    ("bsonobjectid", "507f1f77bcf86cd799439011"),
    ("uri", "http://user:pass@example.com:8080/a?b#c"),
    ("uri", "mailto:someone@example.com"),
    ("uri", "/abs/path"),
    ("uri", "http://[fe80::1%25en0]:8080/"),
    ("uri", "*"),
    ("email", "a@b"),
    ("email", '"A. B." <a.b@example.com>'),
    ("email", "Bob <bob@example.com>"),
    ("hostname", "example.com"),
    ("hostname", "a"),
    ("ipv4", "010.001.1.1"),
    ("ipv4", "::ffff:1.2.3.4"),
    ("ipv6", "::1"),
    ("cidr", "10.0.0.1/8"),
    ("cidr", "fd00::/64"),
    ("mac", "00:00:5e:00:53:01"),
    ("mac", "0000.5e00.5301"),
    ("uuid", "A8098C1A-F86E-11DA-BD1A-00112444BE1E"),
    ("uuid3", "bcd02e22-68f0-3046-a512-327cca9def8f"),
    ("uuid4", "025b0d74-00a2-4048-bf57-227c5111bb34"),
    ("uuid5", "886313e1-3b8a-5372-9b90-0c9aee199e5d"),
    ("isbn", "0321751043"),
    ("isbn10", "3 401 01319 X"),
    ("isbn13", "978-4-87311-368-5"),
    ("creditcard", "4220 8554 2622 2389"),
    ("ssn", "111-11-1111"),
    ("hexcolor", "#FFFFFF"),
    ("rgbcolor", "rgb(100, 100,100)"),
    ("byte", "YQ=="),
    ("password", ""),
    ("date", "2024-02-29"),
    ("duration", "1h30m"),
    ("duration", "3 days"),
    ("duration", "-1.5h"),
    ("date-time", "2014-12-15T19:30:20.000Z"),
    ("datetime", "2014-12-15t08:00:00+01:00"),
    ("k8s-short-name", "a-b"),
    ("k8s-long-name", "a.b-c"),
]
REFUSED = [
    ("bsonobjectid", "507f1f77"),
    ("uri", ""),
    ("uri", "example.com"),
    ("uri", "./rel"),
    ("uri", "http://a b/"),
    ("uri", "http://a:b/"),
    ("uri", "http://a/%zz"),
    ("uri", ":x"),
    ("email", "a b@c"),
    ("email", "a@b, c@d"),
    ("email", "nobody"),
    ("hostname", "a_b"),
    ("hostname", "-a"),
    ("ipv4", "256.1.1.1"),
    ("ipv4", "::1"),
    ("ipv6", "1.2.3.4"),
    ("ipv6", "fe80::1%eth0"),
    ("cidr", "10.0.0.1/33"),
    ("cidr", "10.0.0.1"),
    ("mac", "00:00:5e:00:53"),
    ("uuid", "nope"),
    ("uuid4", "025b0d74-00a2-5048-bf57-227c5111bb34"),
    ("isbn10", "3423214121"),
    ("isbn13", "978 3 8362 2119 0"),
    ("creditcard", "4220855426213389"),
    ("ssn", "111111111"),
    ("hexcolor", "fff0"),
    ("rgbcolor", "rgb(300,0,0)"),
    ("byte", ""),
    ("byte", "YQ="),
    ("date", "2023-02-29"),
    ("date", "2023-13-01"),
    ("duration", "soon"),
    ("duration", ""),
    ("date-time", "2014-12-15 19:30:20Z"),
    ("date-time", "2014-12-15T24:00:00Z"),
    ("date-time", "2014-12-15T19:30:20"),
    ("k8s-short-name", "A"),
    ("k8s-long-name", "a..b"),
]


@pytest.mark.parametrize(("name", "text"), ACCEPTED)
def test_a_wellformed_text_is_accepted(name: str, text: str) -> None:
    check = format_check(name)
    assert check is not None
    assert check(text)


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_a_malformed_text_is_refused(name: str, text: str) -> None:
    check = format_check(name)
    assert check is not None
    assert not check(text)


def test_every_format_is_covered_by_an_example() -> None:
    assert {name.replace("-", "") for name, _ in ACCEPTED} == set(FORMATS)


@pytest.mark.parametrize("name", ["int32", "int64", "double", "binary", "made-up", ""])
def test_a_format_the_server_does_not_know_is_ignored(name: str) -> None:
    assert format_check(name) is None
