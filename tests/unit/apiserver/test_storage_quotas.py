"""What anybody may create without end has an end: by number and by bytes, for one owner and for nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.apiserver.admission import storage_quotas
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from muster.machinery.authentication import UserInfo
from tests.e2e.registration.test_attacks import signing_request

EVENTS = object_path("v1", "events", "default")
NEW_EVENTS = object_path("events.k8s.io/v1", "events", "default")
REQUESTS = object_path("certificates.k8s.io/v1", "certificatesigningrequests")
BINDINGS = object_path("rbac.authorization.k8s.io/v1", "clusterrolebindings")


def event(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    return {"metadata": {"name": name, **more}, "involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}


def allow(monkeypatch: pytest.MonkeyPatch, storage: str, *, objects: int = 10_000, size: int = 16 << 20) -> None:
    monkeypatch.setitem(storage_quotas.QUOTAS, storage, replace(storage_quotas.QUOTAS[storage], objects=objects, size=size))


@pytest.fixture
async def agent(server: ApiServer, client: DirectClient) -> DirectClient:
    return await somebody(server, client, "agent")


async def somebody(server: ApiServer, client: DirectClient, name: str) -> DirectClient:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    await client.create(BINDINGS, {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]})
    return server.client(server.clusters["default"], UserInfo(name, groups=("system:authenticated",)))


async def test_events_of_a_namespace_are_limited_by_number(
    client: DirectClient, agent: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, "/events", objects=3)
    await client.create(EVENTS, event("before"))
    for number in range(2):
        await agent.create(EVENTS, event(f"e{number}"))
    with pytest.raises(ApiError, match=r'exceeded quota of 3 objects .* events in the namespace "default"') as refused:
        await agent.create(EVENTS, event("e3"))
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    await agent.create(EVENTS.replace("/default/", "/kube-public/"), event("elsewhere", "kube-public"))
    await client.create(EVENTS, event("administrators-are-not-bound"))
    await agent.merge(f"{EVENTS}/e1", {"count": None})
    for name in ("e0", "before"):
        await client.delete(f"{EVENTS}/{name}")
    await agent.create(EVENTS, event("e4"))


async def test_events_are_limited_by_their_bytes_also_when_they_grow(agent: DirectClient, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, "/events", size=20_000)
    await agent.create(EVENTS, event("e"))
    with pytest.raises(ApiError, match="exceeded quota"):
        await agent.create(EVENTS, event("large", annotations={"a": "x" * 20_000}))
    with pytest.raises(ApiError, match="exceeded quota"):
        await agent.merge(f"{EVENTS}/e", {"metadata": {"annotations": {"a": "x" * 20_000}}})
    await agent.merge(f"{EVENTS}/e", {"metadata": {"annotations": {"a": "x" * 2_000}}})


async def test_certificate_requests_are_limited_for_each_requester(
    server: ApiServer, client: DirectClient, agent: DirectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(monkeypatch, "certificates.k8s.io/certificatesigningrequests", objects=2)
    other = await somebody(server, client, "other")
    made = [(await agent.create(REQUESTS, signing_request("c", "c", ())))["metadata"]["name"] for _ in range(2)]
    with pytest.raises(ApiError, match=r'exceeded quota of 2 objects .* requests by "agent"'):
        await agent.create(REQUESTS, signing_request("c", "c", ()))
    await other.create(REQUESTS, signing_request("c", "c", ()))
    await client.delete(f"{REQUESTS}/{made[0]}")
    await agent.create(REQUESTS, signing_request("c", "c", ()))
