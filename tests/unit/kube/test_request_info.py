"""What a request asks: the oddities by which one request could be taken for another. All are what kube-apiserver's own code says
(`tests/interop/test_request_info.py` compares them by the thousand)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.request_info import MAX_PARAMETERS, RequestInfo, _read, request_info


def read(request: str) -> RequestInfo:
    """`GET /path?query`."""
    method, _, target = request.partition(" ")
    path, _, query = target.partition("?")
    return request_info(method, path, query)


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        ("GET /api/v1/namespaces/default", ("get", "default", "namespaces", "default", "")),
        ("GET /api/v1/namespaces/a/pods/p/log", ("get", "a", "pods", "p", "log")),
        ("PUT /api/v1/namespaces/a/finalize", ("update", "a", "namespaces", "a", "finalize")),
        ("DELETE /api/v1/namespaces/a/pods", ("deletecollection", "a", "pods", "", "")),
        ("GET /api/v1/watch/secrets", ("watch", "", "secrets", "", "")),
        ("GET /api/v1/watch/namespaces/a/secrets/s", ("watch", "a", "secrets", "s", "")),
        ("POST /api/v1/watch/secrets", ("watch", "", "secrets", "", "")),
        ("DELETE /api/v1/proxy/nodes/n/logs", ("proxy", "", "nodes", "n", "")),
        ("HEAD /api/v1/pods", ("list", "", "pods", "", "")),
        ("OPTIONS /api/v1/pods", ("", "", "pods", "", "")),
        ("get /api/v1/pods", ("", "", "pods", "", "")),
        ("GET /api/v1/pods?watch", ("watch", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=0", ("list", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=1&limit=many", ("watch", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=1&watch=0", ("watch", "", "pods", "", "")),
        ("GET /api/v1/pods?watch=1;watch=0", ("list", "", "pods", "", "")),
        ("GET /api/v1/pods/p?watch=1", ("get", "", "pods", "p", "")),
        ("GET /api/v1/pods//log", ("list", "", "pods", "", "log")),
        ("GET /api/v1/pods?fieldSelector=metadata.name%3Dx,status.phase%3DRunning", ("list", "", "pods", "x", "")),
        ("GET /api/v1/pods?fieldSelector=metadata.name!%3Dx", ("list", "", "pods", "", "")),
        ("GET /api/v1/pods?fieldSelector=metadata.name%3Dx&labelSelector=!!", ("list", "", "pods", "", "")),
        ("GET /api/v1/pods?fieldSelector=metadata.name%3D..", ("list", "", "pods", "", "")),
        ("DELETE /api/v1/pods?fieldSelector=metadata.name%3Dx", ("deletecollection", "", "pods", "", "")),
        ("GET //api/v1//pods/", ("get", "", "", "pods", "")),
        ("GET /api/v1/namespaces%2Fa%2Fsecrets", ("list", "a", "secrets", "", "")),
    ],
)
def test_requests_for_resources(request_line: str, expected: tuple[str, ...]) -> None:
    found = read(request_line)
    assert found.is_resource
    assert (found.verb, found.namespace, found.resource, found.name, found.subresource) == expected


@pytest.mark.parametrize("path", ["/", "/version", "/api", "/api/v1", "/apis/apps/v1", "/API/v1/pods", "/apis//v1", "*"])
def test_other_paths_have_the_method_for_a_verb(path: str) -> None:
    found = read(f"DELETE {path}")
    assert (found.is_resource, found.verb, found.path) == (False, "delete", path)


def test_selectors_are_kept_as_they_came_even_if_nobody_can_parse_them() -> None:
    found = read("DELETE /api/v1/pods?labelSelector=!!&fieldSelector=a%3Db")
    assert (found.field_selector, found.label_selector) == ("a=b", "!!")
    assert read("GET /api/v1/watch/pods?labelSelector=a").label_selector == ""
    assert read("GET /api/v1/pods/p?labelSelector=a").label_selector == ""


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /api/v1/%zz",
        "GET /api/v1/%",
        "GET /api/v1/%ff",
        "GET /api/v1/a\x01",
        "GET /api/v1/pods?a\x7f",
        "GET api/v1/pods",
        "GET /api/v1/watch",
        "GET /apis/apps/v1/proxy/",
        "GET /api/v1/pods?fieldSelector=metadata.name%3D%ff",
        "GET /api/v1/pods?watch=1" + "&a" * MAX_PARAMETERS,
    ],
)
def test_what_no_server_reads_or_not_all_alike_is_told_apart(request_line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(request_line)


SEGMENT = st.sampled_from(["api", "apis", "v1", "namespaces", "watch", "proxy", "pods", "status", "a", "b", "", "%61", "é", " "])


@given(st.sampled_from(["GET", "DELETE", "PUT"]), st.lists(SEGMENT, max_size=7), st.lists(SEGMENT, min_size=1, max_size=3))
def test_what_was_read_before_does_not_matter(method: str, segments: list[str], names: list[str]) -> None:
    """Paths that are alike are remembered; nothing of that may show."""
    path = "/" + "/".join(segments)
    for name in ("a", *names, "a"):
        for asked in (path, f"{path}/{name}"):
            assert _outcome(request_info, method, asked, "") == _outcome(_read, method, asked)


def _outcome(read: Callable[..., RequestInfo], *arguments: str) -> RequestInfo | str:
    try:
        return read(*arguments)
    except ValueError as error:
        return str(error)
