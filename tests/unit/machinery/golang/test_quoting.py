import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.quoting import quote, unquote
from muster.machinery.golang.text import decode, encode


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("a b", '"a b"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("é😀", '"é😀"'),
        ("\u2028\ufeff", '"\\u2028\\ufeff"'),
        ("\U000e0001", '"\\U000e0001"'),
        (decode(b"\xff"), '"\\xff"'),
    ],
)
def test_a_text_is_quoted_as_go_quotes_it(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@given(st.binary())
def test_every_go_string_can_be_read_back(data: bytes) -> None:
    assert encode(unquote(quote(decode(data)))) == data


@given(st.text())
def test_quotes_to_ascii_are_ascii_and_mean_the_same(text: str) -> None:
    quoted = quote(text, ascii_only=True)
    assert quoted.isascii()
    assert quoted.isprintable()
    assert encode(unquote(quoted)) == encode(text)


@pytest.mark.parametrize("text", ["", '"', "a", '"a', '"\\q"', '"\\x1"', '"\\ud800"', "`a`b`", '"\n"', "'a'"])
def test_what_is_no_literal_is_refused(text: str) -> None:
    with pytest.raises(GoError, match="invalid syntax"):
        unquote(text)
