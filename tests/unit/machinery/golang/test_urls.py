import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.golang.errors import GoError
from muster.machinery.golang.urls import escape, is_request_uri, parse_request_uri, parse_url, unescape

modes = st.sampled_from(["path", "userinfo", "fragment"])


@given(st.text(), modes)
def test_what_is_escaped_can_be_unescaped(text: str, mode: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    escaped = escape(text, mode)
    assert escaped.isascii()
    assert unescape(escaped, mode) == text


@given(
    st.sampled_from(["http", "https", "ftp"]),
    st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True),
    st.integers(0, 65535),
    st.text(st.characters(codec="utf-8")).map(lambda text: "/" + text.lstrip("/")),
    st.from_regex(r"[a-z=&0-9]{0,9}", fullmatch=True),
)
def test_a_url_is_read_as_it_was_put_together(scheme: str, host: str, port: int, path: str, query: str) -> None:
    url = parse_url(f"{scheme}://{host}:{port}{escape(path, 'path')}?{query}")
    assert (url.scheme, url.hostname(), url.port(), url.path, url.query) == (scheme, host, str(port), path, query)
    assert str(parse_url(str(url))) == str(url)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty url"),
        ("x", "invalid URI for request"),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://[::1/", "missing ']' in host"),
        ("http://[zz]/", 'invalid host: ParseAddr("zz"): unable to parse IP'),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        ("http://h:p/", 'invalid port ":p" after host'),
        ("http://%41/", 'invalid URL escape "%41"'),
        ("/%zz", 'invalid URL escape "%zz"'),
        ("/\x01", "net/url: invalid control character in URL"),
    ],
)
def test_a_refusal_says_what_go_says(text: str, reason: str) -> None:
    with pytest.raises(GoError) as caught:
        parse_request_uri(text)
    assert str(caught.value).endswith(f": {reason}")
    assert not is_request_uri(text)


def test_a_request_has_no_relative_path_and_no_host_of_its_own() -> None:
    assert parse_url("a/b").path == "a/b"
    assert parse_url("//a/b").host == "a"
    assert parse_request_uri("//a/b").path == "//a/b"


def test_pairs_of_a_query_that_cannot_be_read_are_left_out() -> None:
    assert parse_url("/a?b=c;d&e=%zz&f=%41+1&f=2&&g").query_values() == {"f": ["A 1", "2"], "g": [""]}
