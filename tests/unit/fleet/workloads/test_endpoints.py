"""Services find their pods, so that webhooks and remote API servers named by Service are reached."""

from typing import Any

import pytest

from muster.apiserver.service_resolver import ServiceResolver
from muster.fleet.workloads.endpoints import endpoints_of, slice_of, target_port
from muster.runtime.client.builtin import ENDPOINT_SLICES
from tests.support.stage import PODS, SERVICES, Stage

embedded_only = pytest.mark.parametrize("stage", [False], ids=["embedded"], indirect=True)
"""Nodes of servers elsewhere write no endpoints: loopback addresses are not taken there."""


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    ports = [{"name": "https", "port": 443, "targetPort": "hook"}]
    wanted = {"selector": {"app": "web"}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": wanted}


def pieces(stage: Stage, name: str = "web") -> list[dict[str, Any]]:
    found = stage.cluster.scan("discovery.k8s.io/endpointslices", "default")
    return [each for each in found if each["metadata"]["labels"].get("kubernetes.io/service-name") == name]


def ready(stage: Stage) -> list[str]:
    return [each["addresses"][0] for piece in pieces(stage) for each in piece["endpoints"] or () if each["conditions"]["ready"]]


@embedded_only
async def test_a_service_leads_to_its_ready_pods_and_the_server_finds_the_way(stage: Stage) -> None:
    await stage.client.create(SERVICES, service())
    await stage.until(lambda: pieces(stage), "there is a slice")
    ports = {"ports": [{"name": "hook", "containerPort": 9443}]}
    await stage.pod("web", "serve", container=ports)
    status = await stage.ready("web")
    await stage.until(lambda: ready(stage) == [status["podIP"]], "the pod is listed")
    assert stage.cluster.part(ServiceResolver).resolve("default", "web", 443) == (status["podIP"], 9443)
    (piece,) = pieces(stage)
    assert piece["endpoints"][0]["targetRef"]["name"] == "web"
    assert piece["metadata"]["ownerReferences"][0]["kind"] == "Service"
    await stage.until(lambda: stage.read("web", "/endpoints").get("subsets"), "Endpoints say so too")
    assert stage.read("web", "/endpoints")["subsets"][0]["addresses"][0]["ip"] == status["podIP"]
    await stage.client.delete(PODS, "web", "default")
    await stage.gone("web")
    await stage.until(lambda: not ready(stage), "it is listed no longer")


@embedded_only
async def test_a_service_that_goes_takes_its_endpoints_along(stage: Stage) -> None:
    await stage.client.create(SERVICES, service())
    await stage.until(lambda: pieces(stage) and stage.read("web", "/endpoints"), "it has endpoints")
    await stage.client.delete(SERVICES, "web", "default")
    await stage.until(lambda: not pieces(stage) and not stage.read("web", "/endpoints"), "they are gone")


@embedded_only
async def test_a_slice_somebody_deletes_or_bends_is_mended(stage: Stage) -> None:
    await stage.client.create(SERVICES, service())
    (piece,) = await stage.until(lambda: pieces(stage), "there is a slice")
    await stage.client.patch(ENDPOINT_SLICES, piece["metadata"]["name"], {"endpoints": [{"addresses": ["10.0.0.9"]}]}, "default")
    await stage.until(lambda: not pieces(stage)[0].get("endpoints"), "it is mended")
    await stage.client.delete(ENDPOINT_SLICES, piece["metadata"]["name"], "default")
    await stage.until(lambda: pieces(stage), "there is another")


def pod(name: str, ip: str, ready: str = "True", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"name": "hook", "containerPort": 1}]}]},
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
    }


def test_pods_that_end_or_are_not_ready_are_listed_but_not_ready() -> None:
    wanted = service()
    wanted["metadata"]["uid"] = "u"
    pods = [pod("a", "127.64.0.1"), pod("b", "127.64.0.2", "False"), pod("c", "127.64.0.3", deletionTimestamp="t")]
    conditions = [each["conditions"] for each in slice_of(wanted, pods)["endpoints"]]
    assert conditions == [
        {"ready": True, "serving": True, "terminating": False},
        {"ready": False, "serving": False, "terminating": False},
        {"ready": False, "serving": True, "terminating": True},
    ]
    (subset,) = endpoints_of(wanted, pods)["subsets"]
    assert [each["ip"] for each in subset["addresses"]] == ["127.64.0.1"]
    assert [each["ip"] for each in subset["notReadyAddresses"]] == ["127.64.0.2"]


def test_a_port_is_found_by_number_by_name_or_not_at_all() -> None:
    pods = [pod("a", "127.64.0.1")]
    assert target_port({"port": 80}, pods) == 80
    assert target_port({"port": 80, "targetPort": "hook"}, pods) == 1
    assert target_port({"port": 80, "targetPort": "absent"}, pods) is None
