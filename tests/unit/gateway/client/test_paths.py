"""Where requests for a cluster go: one prefix, once, with everything behind it as the caller wrote it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.client import GatewayApi, NoCluster, Route, WrongTarget, gateway_base_url, using_cluster

PREFIX = "/apis/proxy.open-cluster-management.io/v1alpha1/clustergateways"
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
segments = st.from_regex(r"([A-Za-z0-9:@!$&'()*+,;=~_-]|%[0-9A-F]{2}){1,12}", fullmatch=True).filter(
    lambda text: text.lower().replace("%2e", ".") not in (".", "..")
)
inner_paths = st.lists(segments, max_size=6).map(lambda parts: "".join(f"/{part}" for part in parts))
bases = st.sampled_from(["", "/clusters/hub", "/k8s/clusters/c-1"])
queries = st.from_regex(r"(\?[A-Za-z0-9=&%/:,.*-]{0,30})?", fullmatch=True)


@given(bases, names, inner_paths, st.sampled_from(["", "/"]), queries)
def test_the_prefix_comes_once_and_all_else_stays_as_it_was(base: str, cluster: str, inner: str, slash: str, query: str) -> None:
    hub = f"https://hub.example.com:6443{base}"
    target = Route(hub, cluster).target(f"{hub}{inner}{slash}{query}")
    assert target == f"{base}{PREFIX}/{cluster}/proxy{inner}{slash}{query}"


@given(names, names, inner_paths)
def test_a_cluster_that_is_a_hub_itself_is_asked_for_its_own_clusters(outer: str, inner: str, path: str) -> None:
    """A prefix in what is asked is no sign of having been here before."""
    hub = "https://hub"
    nested = Route(hub, inner).target(f"{hub}{path}")
    assert Route(hub, outer).target(f"{hub}{nested}") == f"{PREFIX}/{outer}/proxy{nested}"


@given(names, inner_paths, st.sampled_from(["..", ".", "%2e%2E", ".%2e", "%2e"]), inner_paths)
def test_a_path_that_could_lead_to_another_cluster_is_refused(cluster: str, before: str, dots: str, behind: str) -> None:
    with pytest.raises(WrongTarget, match="another cluster"):
        Route("https://hub", cluster).target(f"https://hub{before}/{dots}{behind}")


@given(names, bases)
def test_a_clusters_address_is_the_hubs_with_the_prefix(cluster: str, base: str) -> None:
    for slash in ("", "/"):
        url = gateway_base_url(f"https://hub:1{base}{slash}", cluster)
        assert urlsplit(url).path == f"{base}{PREFIX}/{cluster}/proxy"
        assert url.startswith("https://hub:1/")


@pytest.mark.parametrize(
    "url",
    [
        "https://other:6443/api",
        "http://hub:6443/api",
        "https://hub/api",
        "https://hub:6443/api",
        "https://hub:6443/clusters/hubba/api",
        "https://hub:geheim@evil/clusters/hub/api",
    ],
)
def test_what_is_not_for_the_hub_is_not_sent_to_a_cluster(url: str) -> None:
    with pytest.raises(WrongTarget) as refusal:
        Route("https://hub:6443/clusters/hub", "foo").target(url)
    assert "geheim" not in str(refusal.value)


def test_the_same_server_may_be_spelled_differently() -> None:
    route = Route("https://Hub.example.com", "foo")
    for url in ("https://hub.example.com:443/api", "https://HUB.example.com/api", "wss://hub.example.com/api"):
        assert route.target(url) == f"{PREFIX}/foo/proxy/api"


@pytest.mark.parametrize("name", ["", "a/b", "..", "Foo", "a.b", "a%2fb", "x" * 64])
def test_what_names_no_cluster_never_gets_into_a_path(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a cluster"):
        gateway_base_url("https://hub", name)
    with pytest.raises(ValueError, match="cannot name a cluster"), using_cluster(name):
        pass


@pytest.mark.parametrize("url", ["", "hub", "ftp://hub", "https://", "https://hub?x=1", "https://u:geheim@hub", "https://hub:0"])
def test_what_is_no_address_is_refused_by_name(url: str) -> None:
    with pytest.raises(ValueError, match="hub_url: ") as refusal:
        gateway_base_url(url, "foo")
    assert "geheim" not in str(refusal.value)


def test_another_group_and_version_can_be_told() -> None:
    api = GatewayApi("cluster.core.oam.dev", "v1beta1")
    assert gateway_base_url("https://hub", "foo", api) == "https://hub/apis/cluster.core.oam.dev/v1beta1/clustergateways/foo/proxy"
    with pytest.raises(ValueError, match="version: 'v1/x'"):
        GatewayApi(version="v1/x")


def test_the_cluster_of_the_context_counts_where_none_is_given() -> None:
    strict, lenient = Route("https://hub/base"), Route("https://hub/base", fallback_to_hub=True)
    with using_cluster("foo"):
        assert strict.target("https://hub/base/api") == lenient.target("https://hub/base/api") == f"/base{PREFIX}/foo/proxy/api"
        with using_cluster("bar"):
            assert strict.target("https://hub/base/api").startswith(f"/base{PREFIX}/bar/")
            assert Route("https://hub/base", "foo").target("https://hub/base/api").startswith(f"/base{PREFIX}/foo/")
        with using_cluster(None):
            assert lenient.target("https://hub/base/api?watch=1") == "/base/api?watch=1"
    with pytest.raises(NoCluster, match="using_cluster"):
        strict.target("https://hub/base/api")
    assert Route("https://hub", fallback_to_hub=True).target("https://hub") == "/"
