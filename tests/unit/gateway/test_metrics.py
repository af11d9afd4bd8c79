"""What the gateway counts, and that nobody can make it count without end."""

from datetime import timedelta

import pytest

from muster.gateway.metrics import MAX_RESOURCES, ClusterStatus, GatewayMetrics
from muster.gateway.relay import RequestKind, Traffic
from muster.kube.request_info import RequestInfo
from muster.machinery.metrics import Metrics
from tests.support.fake_clock import FakeClock

CLUSTERS = {"foo", "bar"}
REQUESTS = "ocm_proxy_proxied_resource_requests_by_resource_total"
DURATIONS = "ocm_proxy_proxied_request_duration_seconds"


def resource(name: str, verb: str = "list") -> RequestInfo:
    return RequestInfo(True, "", verb, version="v1", resource=name)


@pytest.fixture
def registry() -> Metrics:
    return Metrics()


@pytest.fixture
def metrics(registry: Metrics) -> GatewayMetrics:
    return GatewayMetrics(registry, set(CLUSTERS).__contains__, clock=FakeClock())


def lines(registry: Metrics, name: str) -> list[str]:
    return [line for line in registry.render().decode().splitlines() if line.startswith(name)]


def test_a_request_counts_by_resource_and_by_cluster_and_is_timed(metrics: GatewayMetrics, registry: Metrics) -> None:
    metrics.answered("foo", resource("pods"), 200, 0.01)
    assert lines(registry, REQUESTS) == [f'{REQUESTS}{{resource="pods",verb="list",code="200"}} 1']
    by_cluster = "ocm_proxy_proxied_requests_by_cluster_total"
    assert lines(registry, by_cluster) == [f'{by_cluster}{{cluster="foo",code="200"}} 1']
    count = f'{DURATIONS}_count{{resource="pods",verb="list",cluster="foo",code="200"}} 1'
    assert lines(registry, f"{DURATIONS}_count") == [count]


def test_a_stream_is_counted_and_not_timed(metrics: GatewayMetrics, registry: Metrics) -> None:
    metrics.answered("foo", resource("pods", "watch"), 200, None)
    assert lines(registry, DURATIONS) == []
    assert len(lines(registry, REQUESTS)) == 1


@pytest.mark.parametrize(
    ("kind", "name"),
    [(RequestKind.REQUEST, "requests_in_flight"), (RequestKind.STREAM, "open_streams"), (RequestKind.UPGRADE, "open_upgrades")],
)
def test_what_the_relay_has_under_way_is_shown_while_it_lasts(
    metrics: GatewayMetrics, registry: Metrics, kind: RequestKind, name: str
) -> None:
    traffic: Traffic = metrics
    for _ in range(2):
        traffic.began("bar", kind)
    traffic.ended("bar", kind)
    assert lines(registry, f"ocm_proxy_{name}") == [f'ocm_proxy_{name}{{cluster="bar"}} 1']
    traffic.ended("bar", kind)
    assert lines(registry, f"ocm_proxy_{name}") == []


def test_bytes_count_by_direction(metrics: GatewayMetrics, registry: Metrics) -> None:
    metrics.sent("foo", 10)
    metrics.received("foo", 3)
    metrics.received("foo", 4)
    assert set(lines(registry, "ocm_proxy_proxied_bytes_total")) == {
        'ocm_proxy_proxied_bytes_total{cluster="foo",direction="to_cluster"} 10',
        'ocm_proxy_proxied_bytes_total{cluster="foo",direction="from_cluster"} 7',
    }


def test_names_that_clients_make_up_are_all_one(metrics: GatewayMetrics, registry: Metrics) -> None:
    for number in range(1000):
        metrics.answered(f"c{number}", resource(f"r{number}", f"v{number}"), 404, 0.1)
        metrics.answered("foo", RequestInfo(False, f"/p{number}", f"m{number}"), 100_000 + number, 0.1)
        metrics.answered("foo", None, 400, 0.1)
    assert set(lines(registry, REQUESTS)) == {
        f'{REQUESTS}{{resource="other",verb="other",code="404"}} 1000',
        f'{REQUESTS}{{resource="",verb="other",code="other"}} 1000',
        f'{REQUESTS}{{resource="other",verb="other",code="400"}} 1000',
    }


def test_a_resource_that_some_cluster_serves_has_its_name_but_not_without_end(metrics: GatewayMetrics, registry: Metrics) -> None:
    for code in (403, 200, 403):
        metrics.answered("foo", resource("widgets"), code, 0.1)
    assert f'{REQUESTS}{{resource="widgets",verb="list",code="403"}} 1' in lines(registry, REQUESTS)
    for number in range(MAX_RESOURCES * 2):
        metrics.answered("foo", resource(f"r{number}"), 200, 0.1)
    assert len(lines(registry, REQUESTS)) < MAX_RESOURCES + 5


def test_a_cluster_that_is_gone_takes_its_series_with_it(registry: Metrics) -> None:
    clusters = set(CLUSTERS)
    metrics = GatewayMetrics(registry, clusters.__contains__)
    metrics.began("foo", RequestKind.UPGRADE)
    for cluster in clusters:
        metrics.answered(cluster, resource("pods"), 200, 0.1)
        metrics.sent(cluster, 1)
    clusters.remove("foo")
    metrics.forget("foo")
    metrics.sent("foo", 1)
    metrics.ended("foo", RequestKind.UPGRADE)
    metrics.answered("foo", resource("pods"), 101, None)
    text = registry.render().decode()
    assert 'cluster="foo"' not in text
    assert 'cluster="bar"' in text


def test_reviews_and_what_is_known_of_clusters_are_read(registry: Metrics) -> None:
    clock = FakeClock()
    metrics = GatewayMetrics(registry, set(CLUSTERS).__contains__, clock=clock)
    metrics.reviewed(0.01, True)
    metrics.reviewed(10.0, False)
    metrics.read_review_cache(lambda: 7, lambda: 2)
    expires = clock.now() + timedelta(seconds=90)
    metrics.read_clusters(lambda: [ClusterStatus("foo", True, expires), ClusterStatus("bar", False), ClusterStatus("new", None)])
    text = registry.render().decode()
    for line in (
        'ocm_proxy_cluster_escalation_access_review_duration_seconds_count{success="true"} 1',
        'ocm_proxy_cluster_escalation_access_review_duration_seconds_count{success="false"} 1',
        'ocm_proxy_access_review_cache_total{result="hit"} 7',
        'ocm_proxy_access_review_cache_total{result="miss"} 2',
        'ocm_proxy_cluster_up{cluster="foo"} 1',
        'ocm_proxy_cluster_up{cluster="bar"} 0',
        'ocm_proxy_credential_expiry_seconds{cluster="foo"} 90',
    ):
        assert line in text
    assert 'cluster="new"' not in text
