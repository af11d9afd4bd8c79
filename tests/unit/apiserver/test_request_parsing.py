"""From URL to attributes: what authorization sees is what is served."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.request import Query, parse_target, split_cluster
from muster.machinery.authorization import AccessAttributes


def attributes(method: str, path: str, query: str = "") -> AccessAttributes:
    return parse_target(method, path, Query(query))[0]


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", "", ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/a/pods", "watch=true", ("watch", "", "pods", "", "a", "")),
        ("GET", "/api/v1/namespaces/a/pods", "watch=0", ("list", "", "pods", "", "a", "")),
        ("GET", "/api/v1/namespaces/a/pods/p", "", ("get", "", "pods", "", "a", "p")),
        ("GET", "/api/v1/namespaces/a", "", ("get", "", "namespaces", "", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", "", ("update", "", "namespaces", "finalize", "a", "a")),
        ("GET", "/api/v1/namespaces/a/status", "", ("get", "", "namespaces", "status", "a", "a")),
        ("POST", "/apis/apps/v1/namespaces/a/deployments", "", ("create", "apps", "deployments", "", "a", "")),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "", ("deletecollection", "apps", "deployments", "", "a", "")),
        ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/scale", "", ("patch", "apps", "deployments", "scale", "a", "d")),
        ("GET", "/apis/g.io/v1/things", "fieldSelector=metadata.name%3Dx", ("list", "g.io", "things", "", "", "x")),
    ],
)
def test_resource_paths(method: str, path: str, query: str, expected: tuple[str, ...]) -> None:
    found = attributes(method, path, query)
    assert (found.verb, found.group, found.resource, found.subresource, found.namespace, found.name) == expected


@pytest.mark.parametrize("path", ["/", "/version", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz"])
def test_other_paths_are_not_resources(path: str) -> None:
    found = attributes("GET", path)
    assert not found.is_resource
    assert (found.verb, found.path) == ("get", path)


def test_a_proxy_keeps_the_rest_of_its_path() -> None:
    found, tail = parse_target("GET", "/apis/g.io/v1/gateways/x/proxy/api/v1/pods", Query(""))
    assert found.subresource == "proxy"
    assert tail == "api/v1/pods"


def test_a_path_that_names_its_verb_is_authorized_as_such_and_served_by_nobody() -> None:
    found, tail = parse_target("GET", "/api/v1/watch/namespaces/a/secrets/s", Query(""))
    assert (found.verb, found.resource, found.namespace, found.name) == ("watch", "secrets", "a", "s")
    assert tail.startswith("/")


@pytest.mark.parametrize("path", ["/api/v1//pods", "/api/v1/pods//", "//api/v1/pods", "/api/v1/watch", "/api/v1/pods/%zz"])
def test_paths_with_a_hole_in_them_are_no_resources(path: str) -> None:
    assert not attributes("GET", path).is_resource


def test_what_authorization_reads_of_a_query_is_what_is_served() -> None:
    raw = "fieldSelector=metadata.namespace!%3Da;b&fieldSelector=metadata.name%3Dx&watch=%zz&watch=0"
    assert attributes("GET", "/api/v1/secrets", raw).name == "x"
    assert Query(raw).get("fieldSelector") == "metadata.name=x"
    assert not Query(raw).flag("watch")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/clusters/a/api", ("a", "/api")),
        ("/clusters/a", ("a", "/")),
        ("/clusters/a%2Fb/api", ("a/b", "/api")),
        ("/api", (None, "/api")),
        ("/clustersx/a", (None, "/clustersx/a")),
    ],
)
def test_the_cluster_is_the_first_part_of_the_path(path: str, expected: tuple[str | None, str]) -> None:
    assert split_cluster(path) == expected


@given(st.text(max_size=60), st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]), st.text(max_size=40))
def test_parsing_never_fails(path: str, method: str, query: str) -> None:
    for prefix in ("", "/api/", "/apis/", "/api/v1/namespaces/"):
        parse_target(method, prefix + path, Query(query))
