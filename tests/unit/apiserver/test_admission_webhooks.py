"""Admission webhooks in a running server: addresses, concurrency, changes of configuration, and what one cluster's mean to another.

What webhooks are asked and how their answers read is compared with the real server (`tests/differential/cases/webhooks.py`).
"""

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from tests.support.https_server import Answer, HttpsServer, Received
from tests.unit.apiserver.conftest import eventually

MAPS = object_path("v1", "configmaps", "default")
VALIDATING = object_path("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations")
MUTATING = object_path("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations")
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
Decide = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def webhook(decide: Decide, *hosts: str) -> Iterator[HttpsServer]:
    def behave(received: Received) -> Answer:
        review = received.json
        response = {"uid": review["request"]["uid"], **decide(review["request"])}
        return Answer({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})

    with HttpsServer(behave, hosts=hosts) as server:
        yield server


def deny(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "no"}}


def allow(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def configuration(*servers: HttpsServer, **more: Any) -> dict[str, Any]:
    hooks = [
        {
            "name": f"hook{index}.example.com",
            "clientConfig": {"url": server.url, "caBundle": server.ca_bundle},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        for index, server in enumerate(servers)
    ]
    return {"metadata": {"name": "hooks"}, "webhooks": hooks}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_a_configuration_counts_from_the_next_write_on(client: DirectClient) -> None:
    with webhook(deny) as server:
        await client.create(VALIDATING, configuration(server))
        with pytest.raises(ApiError) as refused:
            await client.create(MAPS, config_map("a"))
        assert refused.value.message == 'admission webhook "hook0.example.com" denied the request: no'
        await client.delete(f"{VALIDATING}/hooks")
        await client.create(MAPS, config_map("a"))
        assert len(server.received) == 1


async def test_webhooks_of_one_cluster_mean_nothing_to_another(server: ApiServer, client: DirectClient) -> None:
    with webhook(deny) as hook:
        await client.create(VALIDATING, configuration(hook))
        await server.client(server.clusters["other"]).create(MAPS, config_map("a"))
        assert hook.received == []


async def test_validating_webhooks_are_asked_at_the_same_time(client: DirectClient) -> None:
    together = threading.Barrier(2, timeout=5)

    def meet(request: dict[str, Any]) -> dict[str, Any]:
        together.wait()
        return {"allowed": True}

    with webhook(meet) as one, webhook(meet) as two:
        await client.create(VALIDATING, configuration(one, two))
        await client.create(MAPS, config_map("a"))
        assert len(one.received) == len(two.received) == 1


async def test_the_first_of_several_refusals_is_told(client: DirectClient) -> None:
    with webhook(deny) as one, webhook(deny) as two:
        await client.create(VALIDATING, configuration(one, two))
        with pytest.raises(ApiError) as refused:
            await client.create(MAPS, config_map("a"))
        assert "hook0.example.com" in refused.value.message


async def test_a_service_is_reached_where_it_leads_under_its_own_name(client: DirectClient) -> None:
    with webhook(deny, "hook.default.svc") as server:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        await client.create(object_path("v1", "services", "default"), {"metadata": {"name": "hook"}, "spec": spec})
        service = {"namespace": "default", "name": "hook", "path": "/x", "port": server.port}
        await client.create(VALIDATING, configuration(server, clientConfig={"service": service, "caBundle": server.ca_bundle}))
        with pytest.raises(ApiError) as refused:
            await client.create(MAPS, config_map("a"))
        assert refused.value.code == 400
        assert server.received[0].path == "/x?timeout=10s"


async def test_a_service_whose_certificate_is_for_another_name_is_not_trusted(client: DirectClient) -> None:
    with webhook(allow) as server:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        await client.create(object_path("v1", "services", "default"), {"metadata": {"name": "hook"}, "spec": spec})
        service = {"namespace": "default", "name": "hook", "port": server.port}
        await client.create(VALIDATING, configuration(server, clientConfig={"service": service, "caBundle": server.ca_bundle}))
        with pytest.raises(ApiError) as refused:
            await client.create(MAPS, config_map("a"))
        assert "tls: failed to verify certificate" in refused.value.message
        assert server.received == []


async def test_a_webhook_that_closes_its_connections_is_dialled_again(client: DirectClient) -> None:
    def close(received: Received) -> Answer:
        review = received.json
        body = {
            "apiVersion": review["apiVersion"],
            "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": True},
        }
        return Answer(body, headers={"Connection": "close"})

    with HttpsServer(close) as server:
        await client.create(VALIDATING, configuration(server))
        for name in ("a", "b", "c"):
            await client.create(MAPS, config_map(name))
        assert len(server.received) == 3


async def test_a_change_that_lost_a_race_is_admitted_anew(client: DirectClient) -> None:
    """While the webhook thinks, somebody else writes: it is asked again about what will really be stored."""
    await client.create(MAPS, config_map("a", mine="0", theirs="0"))
    asked, go_on = threading.Event(), threading.Event()

    def think(request: dict[str, Any]) -> dict[str, Any]:
        if request["object"]["data"]["mine"] == "1" and not asked.is_set():
            asked.set()
            go_on.wait(5)
        return {"allowed": True}

    with webhook(think) as server:
        await client.create(VALIDATING, configuration(server))
        slow = asyncio.create_task(client.merge(f"{MAPS}/a", {"data": {"mine": "1"}}))
        assert await asyncio.to_thread(asked.wait, 5)
        await client.merge(f"{MAPS}/a", {"data": {"theirs": "1"}})
        go_on.set()
        assert (await slow)["data"] == {"mine": "1", "theirs": "1"}
        last = server.received[-1].json["request"]
        assert last["oldObject"]["data"] == {"mine": "0", "theirs": "1"}


async def test_a_webhook_that_forever_changes_its_mind_is_called_twice_at_most(client: DirectClient) -> None:
    def count(request: dict[str, Any]) -> dict[str, Any]:
        seen = int((request["object"].get("data") or {}).get("seen", "0"))
        patch = [{"op": "add", "path": "/data/seen", "value": str(seen + 1)}]
        return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}

    with webhook(count) as one, webhook(count) as two:
        await client.create(MUTATING, configuration(one, two, reinvocationPolicy="IfNeeded"))
        created = await client.create(MAPS, config_map("a", k="v"))
        assert len(one.received) == len(two.received) == 2
        assert created["data"]["seen"] == "4"


async def test_a_write_the_server_itself_makes_is_admitted_too(client: DirectClient) -> None:
    """Service accounts of a new namespace come from a controller, whose writes webhooks may refuse."""
    accounts = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["serviceaccounts"], "operations": ["CREATE"]}]
    with webhook(allow) as server:
        await client.create(VALIDATING, configuration(server, rules=accounts))
        await client.create(object_path("v1", "namespaces"), {"metadata": {"name": "fresh"}})
        await eventually(lambda: server.received, "the controller's write is reviewed")
        assert server.received[0].json["request"]["name"] == "default"


PODS = object_path("v1", "pods", "default")
POD_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "example/main:1"}]}}


async def test_a_mutating_webhook_sees_a_pod_with_its_account_token_priority_and_tolerations(client: DirectClient) -> None:
    with webhook(allow) as server:
        await client.create(MUTATING, configuration(server, rules=[POD_RULE]))
        await client.create(PODS, POD)
        seen = server.received[0].json["request"]["object"]["spec"]
    assert seen["serviceAccountName"] == "default"
    assert seen["priority"] == 0
    assert [toleration["key"] for toleration in seen["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    mounts = [mount["name"] for mount in seen["containers"][0]["volumeMounts"]]
    assert mounts == [volume["name"] for volume in seen["volumes"]]
    assert mounts[0].startswith("kube-api-access-")


async def test_a_container_from_a_webhook_mounts_the_volume_that_the_first_round_added(client: DirectClient) -> None:
    add = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "example/side:1"}}
    patch = base64.b64encode(json.dumps([add]).encode()).decode()
    with webhook(lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}) as server:
        await client.create(MUTATING, configuration(server, rules=[POD_RULE]))
        spec = (await client.create(PODS, POD))["spec"]
        assert len(server.received) == 1
    assert len(spec["volumes"]) == 1
    assert [[mount["name"] for mount in container["volumeMounts"]] for container in spec["containers"]] == [
        [spec["volumes"][0]["name"]]
    ] * 2
