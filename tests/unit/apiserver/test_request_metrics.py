"""Requests count under the names and labels of kube-apiserver; names that clients make up do not count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from muster.apiserver.long_running_requests import OpenRequests
from muster.apiserver.nonresource.metrics import ServerMetrics
from muster.machinery.authorization import AccessAttributes

LABELS = 'verb="GET",group="apps",version="v1",resource="deployments",subresource="",component="apiserver"'
SERVER: Any = SimpleNamespace(
    fairness=SimpleNamespace(in_flight=1, waiting=2, rejected=3),
    clusters={"a": SimpleNamespace(part={OpenRequests: [1, 2]}.get)},
    store=SimpleNamespace(revision=1794833710),
    controllers=SimpleNamespace(backlog=4),
)
DEPLOYMENTS: Any = SimpleNamespace(subresources={"scale": None})


def lines(metrics: ServerMetrics) -> list[str]:
    return metrics.render().decode().splitlines()


def test_a_request_counts_by_what_it_asked_for_and_how_long_it_took() -> None:
    metrics = ServerMetrics(SERVER)
    asked = AccessAttributes("get", "apps", "v1", "deployments", namespace="ns", name="web")
    for seconds in (0.004, 0.03):
        metrics.count(asked, DEPLOYMENTS, 200, seconds)
    metrics.count(asked, DEPLOYMENTS, 404, 0.5)
    text = lines(metrics)
    assert "# TYPE apiserver_request_total counter" in text
    assert f'apiserver_request_total{{{LABELS},code="200"}} 2' in text
    assert f'apiserver_request_total{{{LABELS},code="404"}} 1' in text
    assert "# TYPE apiserver_request_duration_seconds histogram" in text
    assert f'apiserver_request_duration_seconds_bucket{{{LABELS},le="0.005"}} 1' in text
    assert f'apiserver_request_duration_seconds_bucket{{{LABELS},le="+Inf"}} 3' in text
    assert f"apiserver_request_duration_seconds_count{{{LABELS}}} 3" in text
    assert f"apiserver_request_duration_seconds_sum{{{LABELS}}} 0.534" in text


def test_how_long_a_watch_took_is_not_told() -> None:
    metrics = ServerMetrics(SERVER)
    metrics.count(AccessAttributes("watch", "apps", "v1", "deployments"), DEPLOYMENTS, 200, 60.0)
    assert not [line for line in lines(metrics) if line.startswith("apiserver_request_duration_seconds")]


def test_names_that_are_not_served_count_by_their_verb_alone() -> None:
    metrics = ServerMetrics(SERVER)
    metrics.count(AccessAttributes("get", 'x"} 1', "v1", "made-up"), None, 404, 0.1)
    metrics.count(AccessAttributes("get", "apps", "v1", "deployments", "made-up"), DEPLOYMENTS, 404, 0.1)
    counted = [line for line in lines(metrics) if line.startswith("apiserver_request_total{")]
    nameless = 'verb="GET",group="",version="",resource="",subresource="",component="apiserver",code="404"'
    assert counted == [f"apiserver_request_total{{{nameless}}} 2"]


def test_what_the_server_knows_is_read_at_the_scrape() -> None:
    text = lines(ServerMetrics(SERVER))
    for line in (
        "# TYPE apiserver_current_inflight_requests gauge",
        "apiserver_current_inflight_requests 1",
        "apiserver_current_inqueue_requests 2",
        "# TYPE apiserver_rejected_requests_total counter",
        "apiserver_rejected_requests_total 3",
        "apiserver_longrunning_requests 2",
        "muster_clusters 1",
        "muster_store_revision 1794833710",
        "muster_controller_backlog 4",
    ):
        assert line in text
    for name in ("process_cpu_seconds_total", "process_max_resident_memory_bytes", "process_start_time_seconds"):
        assert [line for line in text if line.startswith(f"{name} ")]
