"""What a Namespace says of pods, read and written."""

import pytest

from muster.apiserver.server import ApiServer, ServerConfig
from muster.fleet.in_process import InProcessClient
from muster.operator.pod_namespaces import (
    MAY_DIAL,
    MAY_RUN,
    RUN,
    allow,
    dialled,
    host_port_of,
    may_run,
    not_running,
    on_this_machine,
)
from muster.runtime.client.builtin import NAMESPACES


def test_only_the_label_lets_pods_run() -> None:
    assert may_run({"metadata": {"labels": RUN}})
    for other in ({"labels": {MAY_RUN: "false"}}, {"labels": {MAY_RUN: ""}}, {"annotations": RUN}, {"labels": None}, {}):
        assert not may_run({"metadata": other})
    assert not may_run(None)
    assert "kubectl label namespace x open-cluster-management.io/pods-may-run=true" in not_running("x")


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("127.0.0.1:6443", {("127.0.0.1", 6443)}),
        ("127.0.0.1:6443, [::1]:8443 ,localhost:1", {("127.0.0.1", 6443), ("::1", 8443), ("localhost", 1)}),
        ("127.0.0.1", set()),
        ("127.0.0.1:99999,:5,*:6443,", {("*", 6443)}),
        ("", set()),
    ],
)
def test_places_are_read_one_by_one_and_what_is_none_allows_nothing(text: str, places: set[tuple[str, int]]) -> None:
    assert dialled({"metadata": {"annotations": {MAY_DIAL: text}}}) == places


def test_a_url_leads_to_a_place() -> None:
    assert host_port_of("https://hub.example/clusters/hub") == ("hub.example", 443)
    assert host_port_of("http://[::1]") == ("::1", 80)
    assert host_port_of("127.0.0.1:8090") == ("127.0.0.1", 8090)
    assert host_port_of("https://x:99999") is None
    assert host_port_of("") is None


def test_what_is_on_this_machine_needs_leave() -> None:
    urls = ["https://127.0.0.1:6443/x", "https://hub.example", "", "http://localhost:1", "https://192.0.2.77", "127.0.0.1:6443"]
    assert on_this_machine(urls) == [("127.0.0.1", 6443), ("localhost", 1)]


async def test_places_are_added_to_those_that_are_allowed_already() -> None:
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("default",)))
    await server.start()
    client = InProcessClient(server.client(server.clusters["default"]))
    try:
        await allow(client, "default", [("127.0.0.1", 6443)])
        await allow(client, "default", [("::1", 1), ("127.0.0.1", 6443)])
        found = await client.get(NAMESPACES, "default")
        assert found["metadata"]["annotations"][MAY_DIAL] == "127.0.0.1:6443,[::1]:1"
        await allow(client, "default", [])
        await allow(client, "default", [("::1", 1)])
        await allow(client, "nowhere", [("::1", 1)])
        after = await client.get(NAMESPACES, "default")
        assert after["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"], "nothing new costs no write"
    finally:
        await server.stop(grace=0.1)
