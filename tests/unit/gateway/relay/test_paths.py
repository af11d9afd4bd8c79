"""From the path of a request to a cluster and the path within it."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.errors import ApiError
from muster.gateway.relay import OAM, ProxyPath, ProxyPaths

from .harness import PREFIX

PATHS = ProxyPaths()

plain = st.from_regex(r"[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,=:@-]*", fullmatch=True)
anything = st.text(st.sampled_from("ab./%\\;25eEfF0\t "), max_size=24)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{PREFIX}/foo/proxy", ProxyPath("foo", "/")),
        (f"{PREFIX}/foo/proxy/", ProxyPath("foo", "/")),
        (f"{PREFIX}/foo/proxy/version/", ProxyPath("foo", "/version/")),
        (f"{PREFIX}/a.b-c/proxy/api/v1/pods/...", ProxyPath("a.b-c", "/api/v1/pods/...")),
        (f"{PREFIX}/foo/proxy/a%20b/%25/%E2%82%AC", ProxyPath("foo", "/a%20b/%25/%E2%82%AC")),
        (f"{PREFIX}/foo/proxy/proxy/foo", ProxyPath("foo", "/proxy/foo")),
        ("/apis/open-cluster-management.io/clustergateways/foo/proxy/healthz", ProxyPath("foo", "/healthz", alias=True)),
        (f"{PREFIX}/foo/health", None),
        (f"{PREFIX}/foo", None),
        (f"{PREFIX}/foo/proxying/x", None),
        (PREFIX, None),
        ("/api/v1/namespaces/a%20b", None),
        ("/apis/cluster.core.oam.dev/v1alpha1/clustergateways/foo/proxy/healthz", None),
    ],
)
def test_paths_are_split(path: str, expected: ProxyPath | None) -> None:
    assert PATHS.split(path) == expected
    assert PATHS.covers(path) == (expected is not None)


def test_spellings_are_chosen() -> None:
    paths = ProxyPaths([OAM], aliases=False)
    assert paths.split("/apis/cluster.core.oam.dev/v1alpha1/clustergateways/foo/proxy/healthz") == ProxyPath("foo", "/healthz")
    assert paths.split(f"{PREFIX}/foo/proxy/healthz") is None
    assert paths.split("/apis/open-cluster-management.io/clustergateways/foo/proxy/healthz") is None


def test_a_refusal_names_what_is_wrong() -> None:
    with pytest.raises(ApiError) as raised:
        PATHS.split(f"{PREFIX}/foo/proxy/a/%252e%252e/b")
    assert raised.value.code == 400
    assert (
        raised.value.message
        == 'cluster-gateway: cluster "foo": the path has a doubly encoded segment "." or "..": nothing was sent'
    )


@given(st.lists(plain, max_size=6), st.booleans())
def test_plain_paths_pass_byte_for_byte(segments: list[str], slash: bool) -> None:
    path = "/" + "/".join(segments) + ("/" if slash and segments else "")
    assert PATHS.split(f"{PREFIX}/foo/proxy{path}") == ProxyPath("foo", path)


@given(anything)
def test_what_passes_has_one_reading_only(text: str) -> None:
    raw = f"{PREFIX}/foo/proxy/{text}"
    try:
        found = PATHS.split(raw)
    except ApiError:
        return
    assert found == ProxyPath("foo", f"/{text}")
    once = unquote(found.path)
    for reading in (found.path, once, unquote(once)):
        *inner, last = reading.split("/")[1:]
        assert reading.count("/") == found.path.count("/")
        assert "" not in inner
        assert not {".", ".."} & {segment.partition(";")[0] for segment in (*inner, last)}
        assert "\\" not in reading
        assert reading.isprintable()


@given(st.text(st.sampled_from("/%2fFeE.apisroxy70"), max_size=30))
def test_nothing_that_decodes_to_a_path_to_a_cluster_is_taken_for_something_else(text: str) -> None:
    raw = f"{PREFIX}/foo/{text}"
    try:
        found = PATHS.split(raw)
    except ApiError:
        return
    if found is None:
        cleaned = [part for part in unquote(unquote(text)).split("/") if part]
        assert cleaned[:1] != ["proxy"]
