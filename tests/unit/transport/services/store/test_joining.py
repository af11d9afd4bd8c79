"""How clusters join a hub without Kubernetes: what a newcomer may say, in whose name it is written, and what comes back."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from muster.api.agents import CSR_USER, DRIVER_ANNOTATION, GRPC_DRIVER, GRPC_SIGNER
from muster.runtime.client import AlreadyExists, Forbidden
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from muster.runtime.install import binding, rule
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, SIGNING_REQUEST_ROW
from muster.transport.contract.types import Action
from tests.unit.transport.services.store.hubs import (
    CREATE,
    STATUS,
    UPDATE,
    RunningHub,
    agent_of,
    data_of,
    newcomer,
    running_hub,
    signing_request,
)

SERVER = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"


async def test_a_newcomer_makes_its_cluster_and_a_request_that_says_who_asked(hub: RunningHub) -> None:
    who = newcomer("c1")
    await hub.publish(CLUSTERS, CREATE, {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": False}}, who)
    await hub.publish(SIGNING_REQUEST_ROW, CREATE, signing_request("c1", "c1-abcde"), who)
    cluster = await hub.admin.get(CLUSTERS.resource, "c1")
    assert cluster["spec"]["hubAcceptsClient"] is False
    assert cluster["metadata"]["annotations"][DRIVER_ANNOTATION] == GRPC_DRIVER
    request = await hub.admin.get(SIGNING_REQUEST_ROW.resource, "c1-abcde")
    assert request["spec"]["signerName"] == GRPC_SIGNER
    assert request["metadata"]["annotations"] == {CSR_USER: who.user.name}
    assert request["spec"]["username"] == SERVER
    assert (hub.told(CLUSTERS, "c1"), hub.told(SIGNING_REQUEST_ROW, "c1")) == ([Action.CREATE], [Action.CREATE])


async def test_a_cluster_that_exists_already_is_said_so(hub: RunningHub) -> None:
    body = {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": False}}
    await hub.publish(CLUSTERS, CREATE, body, newcomer("c1"))
    with pytest.raises(AlreadyExists):
        await hub.publish(CLUSTERS, CREATE, body, newcomer("c1"))


async def test_an_answer_to_a_request_is_told_at_once(hub: RunningHub) -> None:
    await hub.publish(SIGNING_REQUEST_ROW, CREATE, signing_request("c1", "c1-abcde"), newcomer("c1"))
    row = SIGNING_REQUEST_ROW
    request = await hub.admin.get(row.resource, "c1-abcde")
    approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "", "lastUpdateTime": "2026-11-16T00:00:00Z"}
    request = await hub.admin.update(row.resource, {**request, "status": {"conditions": [approved]}}, subresource="approval")
    certificate = base64.b64encode(hub.hub.server.ca_pem).decode()
    status = {**request["status"], "certificate": certificate}
    await hub.admin.update(row.resource, {**request, "status": status}, subresource="status")
    (known,) = hub.known(row, "c1")
    assert data_of(known)["status"]["certificate"] == certificate
    assert hub.told(row, "c1") == [Action.CREATE, Action.UPDATE, Action.UPDATE]


async def test_a_token_for_one_name_makes_that_cluster_and_no_other(hub: RunningHub) -> None:
    token = "only-c1"
    rules = [rule("cluster.open-cluster-management.io", ["managedclusters"], ["create"], ["c1"])]
    await hub.admin.apply(CLUSTER_ROLES, {"metadata": {"name": token}, "rules": rules}, manager="test")
    user = {"kind": "User", "name": token, "apiGroup": "rbac.authorization.k8s.io"}
    await hub.admin.apply(CLUSTER_ROLE_BINDINGS, binding(token, "ClusterRole", token, user), manager="test")
    for name in ("c1", "c2"):
        body = {"metadata": {"name": name}, "spec": {"hubAcceptsClient": False}}
        who = newcomer(name, token)
        if name == "c1":
            await hub.publish(CLUSTERS, CREATE, body, who)
        else:
            with pytest.raises(Forbidden):
                await hub.publish(CLUSTERS, CREATE, body, who)
    with pytest.raises(Exception, match="c2"):
        await hub.admin.get(CLUSTERS.resource, "c2")


async def test_a_newcomer_cannot_accept_itself(hub: RunningHub) -> None:
    with pytest.raises(Forbidden):
        await hub.publish(CLUSTERS, CREATE, {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": True}}, newcomer("c1"))
    assert hub.known(CLUSTERS, "c1") == []


async def test_before_a_cluster_is_accepted_the_hubs_rules_refuse_its_agent(hub: RunningHub) -> None:
    await hub.publish(CLUSTERS, CREATE, {"metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": False}}, newcomer("c1"))
    cluster = await hub.admin.get(CLUSTERS.resource, "c1")
    with pytest.raises(Forbidden):
        await hub.publish(CLUSTERS, STATUS, {**cluster, "status": {"version": {"kubernetes": "v1"}}}, agent_of("c1"))


async def test_rights_that_are_taken_away_are_gone_with_the_next_call(hub: RunningHub) -> None:
    agent = await hub.join("c1")
    lease = data_of(hub.known(LEASE_ROW, "c1")[0])
    await hub.publish(LEASE_ROW, UPDATE, {**lease, "spec": {"renewTime": "2026-11-16T00:00:00.000000Z"}}, agent)
    for name in ("open-cluster-management:managedcluster:registration", "open-cluster-management:managedcluster:work"):
        await hub.admin.patch(CLUSTER_ROLES, name, {"rules": []})
    lease = data_of(hub.known(LEASE_ROW, "c1")[0])
    with pytest.raises(Forbidden):
        await hub.publish(LEASE_ROW, UPDATE, {**lease, "spec": {"renewTime": "2026-11-16T00:00:01.000000Z"}}, agent)


async def test_the_audit_log_has_the_agent_and_the_newcomer_as_those_who_wrote(database: str, tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with running_hub(database, tmp_path, audit_log=log) as hub:
        agent = await hub.join("c1")
        cluster = await hub.admin.get(CLUSTERS.resource, "c1")
        await hub.publish(CLUSTERS, STATUS, {**cluster, "status": {"version": {"kubernetes": "v1"}}}, agent)
        await hub.publish(SIGNING_REQUEST_ROW, CREATE, signing_request("c1", "c1-abcde"), agent)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    written = {
        (record["verb"], record["objectRef"]["resource"], record["objectRef"].get("subresource", "")): record["user"]["username"]
        for record in records
        if record["verb"] in ("create", "update") and record["user"]["username"] != "system:apiserver"
    }
    assert written["create", "managedclusters", ""] == newcomer("c1").user.name
    assert written["update", "managedclusters", "status"] == agent.user.name
    assert written["create", "certificatesigningrequests", ""] == SERVER
