"""Stories 5 to 8: clusters that have been let in, for how long, how they leave or are sent away, and what they cannot do.

Attacks with tokens and roles are in `tests/unit/fleet/aws`, those on what a cluster says of itself in
`tests/unit/registration/hub/clusters/test_aws_identities.py`; here are those of an agent that has been let in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from muster.api.cluster.v1 import ACCEPTED, AVAILABLE
from muster.fleet.aws import FaultKind
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.objects import GVR
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import CONFIG_MAPS, LEASES, NAMESPACES, PODS
from muster.runtime.client.errors import Conflict, NotFound, Unauthorized
from muster.runtime.client.http import HttpClient
from muster.work.kinds import MANIFEST_WORKS
from tests.e2e.aws.steps import (
    AGENTS,
    HUB_NAMESPACE,
    SESSION_SECONDS,
    accepted,
    agent_token,
    applied_work,
    apply_work,
    as_agent,
    hub_secret,
    init,
    is_nobody,
    joined,
    managed_cluster,
    mapped,
    own_role,
    refused,
    until_revoked,
)
from tests.support.aws_site import HUB, SECONDS, AwsSite, arn, open_aws_site, pair
from tests.support.sites import beside_kube

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
ROLE_BINDINGS = GVR("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AwsSite]:
    async with open_aws_site(tmp_path_factory.mktemp("aws-serving"), "managed-0", "managed-1") as made:
        made.aws.behaviour.longest_session = SESSION_SECONDS
        yield made


async def pods(site: AwsSite, cluster: str) -> dict[str, int]:
    """Its agents', with how often each was restarted."""
    found = (await site.grounds[cluster].admin.list(PODS, AGENTS)).items
    return {pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in found}


@beside_kube
async def test_story_6_sessions_of_seconds_cost_no_restart_and_no_new_secret(site: AwsSite) -> None:
    await accepted(site, "managed-0")

    async def renewed() -> str:
        return str((await site.hub.admin.get(LEASES, "managed-cluster-lease", "managed-0"))["spec"]["renewTime"])

    stored, running = await hub_secret(site, "managed-0"), await pods(site, "managed-0")
    seen, before = len(site.aws.calls), await renewed()
    # Its agent has something to say every second.
    await site.hub.admin.patch(MANAGED_CLUSTERS, "managed-0", {"spec": {"leaseDurationSeconds": 1}})

    async def sessions() -> bool:
        site.forget_tokens()
        calls = [one for one in list(site.aws.calls)[seen:] if one.operation == "sts:AssumeRole" and one.result == "OK"]
        return len([one for one in calls if pair("managed-0").managed_role in one.caller]) >= 2

    await site.hub.seen.until(sessions, "sessions ended and others began", SECONDS)
    for number in range(2):
        await (await applied_work(site, "managed-0", f"short-{number}")).until_gone_on_cluster()
    assert await pods(site, "managed-0") == running
    assert await hub_secret(site, "managed-0") == stored

    async def later() -> bool:
        return before < await renewed()

    await site.hub.seen.until(later, "the lease is renewed", SECONDS)
    assert (await site.hub.seen.condition(MANAGED_CLUSTERS, "managed-0", AVAILABLE))["status"] == "True"
    await site.hub.admin.patch(MANAGED_CLUSTERS, "managed-0", {"spec": {"leaseDurationSeconds": 60}})


@beside_kube
async def test_story_6_an_sts_that_is_away_for_a_while_costs_nobody_anything(site: AwsSite) -> None:
    """Shorter than the hub waits for a lease: the cluster stays available, and goes on by itself."""
    await accepted(site, "managed-0")
    stored, running = await hub_secret(site, "managed-0"), await pods(site, "managed-0")
    away = site.aws.behaviour.fail("sts:*", FaultKind.UNAVAILABLE, times=None)
    seen, told = len(site.aws.calls), 0

    async def tried() -> bool:
        """The agents have something to say all the time, so that they need tokens."""
        nonlocal told
        told += 1
        site.forget_tokens()
        await apply_work(site, "managed-0", "meanwhile", {"told": str(told)})
        await asyncio.sleep(0.5)
        calls = [one for one in list(site.aws.calls)[seen:] if one.operation.startswith("sts:AssumeRole")]
        return len([one for one in calls if one.result == "ServiceUnavailable"]) >= 2

    await site.hub.seen.until(tried, "sessions ended and no others began", SECONDS)
    assert (await site.hub.seen.condition(MANAGED_CLUSTERS, "managed-0", AVAILABLE))["status"] == "True"
    site.aws.behaviour.faults.remove(away)
    await (await applied_work(site, "managed-0", "meanwhile", data={"told": "last"})).until_gone_on_cluster()
    assert await pods(site, "managed-0") == running
    assert await hub_secret(site, "managed-0") == stored
    assert (await site.hub.seen.condition(MANAGED_CLUSTERS, "managed-0", AVAILABLE))["status"] == "True"


async def test_story_7_a_denied_cluster_is_out_at_once_and_back_when_it_is_accepted_again(site: AwsSite) -> None:
    await accepted(site, "managed-0")
    token = await agent_token(site, "managed-0")
    async with as_agent(site, token) as agent:
        await agent.get(MANAGED_CLUSTERS, "managed-0")
        await site.hub.admin.patch(MANAGED_CLUSTERS, "managed-0", {"spec": {"hubAcceptsClient": False}})
        await until_revoked(site, "managed-0")
        await site.hub.seen.until(lambda: is_nobody(site, agent), "its token is nobody's", SECONDS)
    await site.hub.seen.until_condition(MANAGED_CLUSTERS, "managed-0", ACCEPTED, "False", "HubClusterAdminDenied", SECONDS)
    stored = await hub_secret(site, "managed-0")
    await accepted(site, "managed-0")
    await (await applied_work(site, "managed-0", "again")).until_gone_on_cluster()
    now = await hub_secret(site, "managed-0")
    assert now is not None
    assert stored is not None
    assert now["data"] == stored["data"], "the way to the hub is the same"


async def updated(agent: HttpClient, name: str, change: dict[str, Any]) -> None:
    """Agents may update their ManagedCluster, and not patch it; the hub writes there too."""
    while True:
        found = await agent.get(MANAGED_CLUSTERS, name)
        with suppress(Conflict):
            await agent.update(MANAGED_CLUSTERS, dict(apply_merge_patch(found, change)))
            return


async def test_story_8_an_agent_has_its_own_cluster_and_nothing_else(site: AwsSite) -> None:
    await accepted(site, "managed-0")
    await accepted(site, "managed-1")
    async with as_agent(site, await agent_token(site, "managed-0")) as agent:
        await agent.get(MANAGED_CLUSTERS, "managed-0")
        other = await managed_cluster(site, "managed-1")
        await refused(agent.get(MANAGED_CLUSTERS, "managed-1"))
        await refused(agent.list(MANAGED_CLUSTERS))
        await refused(agent.list(MANIFEST_WORKS, "managed-1"))
        await refused(agent.get(LEASES, "managed-cluster-lease", "managed-1"))
        await refused(agent.update(MANAGED_CLUSTERS, other, subresource="status"))
        await refused(agent.create(MANIFEST_WORKS, {"metadata": {"name": "x"}, "spec": {}}, "managed-1"))
        # What decides whom its role is, it may not touch.
        await refused(agent.get(CONFIG_MAPS, "aws-auth", "kube-system"))
        await refused(agent.patch(CONFIG_MAPS, "aws-auth", {"data": {"mapRoles": "[]"}}, "kube-system"))
        await refused(agent.list(CONFIG_MAPS, HUB_NAMESPACE))
        # Who it is was decided when it was accepted.
        for mark in ("eks-managed-cluster-arn", "agent.open-cluster-management.io/managed-cluster-arn"):
            changed = {"metadata": {"annotations": {mark: str(arn("managed-1"))}}}
            assert "of a cluster that is accepted" in await refused(updated(agent, "managed-0", changed))
        moved = {"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": "mine"}}}
        await refused(updated(agent, "managed-0", moved))
    # On AWS neither.
    assume = {"RoleArn": pair("managed-1").hub_role_arn, "RoleSessionName": "s1"}
    assert await (await own_role(site, "managed-0")).code("sts", "assume_role", **assume) == "AccessDenied"


async def test_story_8_a_cluster_that_claims_anothers_arn_gets_nothing_and_takes_nothing(site: AwsSite) -> None:
    await accepted(site, "managed-0")
    role = await (await site.admin()).iam("get_role", RoleName=pair("managed-0").hub_role)
    before = await mapped(site)
    annotations = {"eks-managed-cluster-arn": str(arn("managed-0"))}
    await site.hub.admin.create(
        MANAGED_CLUSTERS,
        {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": "thief", "annotations": annotations},
            "spec": {"hubAcceptsClient": True},
        },
    )
    said = await site.hub.seen.until_condition(MANAGED_CLUSTERS, "thief", ACCEPTED, "False", "Error", SECONDS)
    assert "has the role of cluster managed-0" in said["message"]
    await site.hub.admin.delete(MANAGED_CLUSTERS, "thief")
    await site.hub.seen.until_gone(MANAGED_CLUSTERS, "thief", seconds=SECONDS)
    assert await mapped(site) == before
    assert (await (await site.admin()).iam("get_role", RoleName=pair("managed-0").hub_role))["Role"] == role["Role"]


async def test_story_5_an_agent_takes_back_its_own_acceptance_and_cannot_give_it(site: AwsSite) -> None:
    await accepted(site, "managed-1")
    async with as_agent(site, await agent_token(site, "managed-1")) as agent:
        await updated(agent, "managed-1", {"spec": {"hubAcceptsClient": False}})
        with suppress(Unauthorized):  # it may be out before it can try
            await refused(updated(agent, "managed-1", {"spec": {"hubAcceptsClient": True}}))
    await until_revoked(site, "managed-1")
    await site.hub.seen.until_condition(MANAGED_CLUSTERS, "managed-1", ACCEPTED, "False", "HubClusterAdminDenied", SECONDS)
    bindings = (await site.hub.admin.list(ROLE_BINDINGS, "managed-1")).items
    assert not [one for one in bindings if one["metadata"]["name"].endswith(":registration")]


async def test_story_5_unjoin_tells_the_hub_by_the_identity_that_agents_have(site: AwsSite) -> None:
    """Their kubeconfig is of use in their pods only; whoever may have tokens of their account gets as far as they do. No AWS
    identity of the caller's own is needed, and one of somebody else is not used."""
    await accepted(site, "managed-1")
    stranger = await site.aws.administrator("333333333333")
    said = await site.ok("managed-1", "unjoin", "--cluster-name", "managed-1", identity=stranger)
    assert "The hub was told that managed-1 leaves" in said
    site.done.discard("managed-1")
    await until_revoked(site, "managed-1")
    await site.hub.seen.until_condition(MANAGED_CLUSTERS, "managed-1", ACCEPTED, "False", "HubClusterAdminDenied", SECONDS)
    assert await site.grounds["managed-1"].seen.find(NAMESPACES, AGENTS) is None
    await site.hub.admin.delete(MANAGED_CLUSTERS, "managed-1")
    await site.hub.seen.until_gone(MANAGED_CLUSTERS, "managed-1", seconds=SECONDS)


async def test_story_7_a_deleted_cluster_leaves_nothing_on_aws(site: AwsSite) -> None:
    """Its agent has access until its works are gone. By access entries, which the hub is told to make from now on."""
    await joined(site, "managed-1")
    await site.hub.admin.patch(MANAGED_CLUSTERS, "managed-1", {"spec": {"hubAcceptsClient": False}})
    await until_revoked(site, "managed-1")
    await init(site, HUB, "--aws-mapping=access-entry")
    await accepted(site, "managed-1")
    entry = {"clusterName": HUB, "principalArn": pair("managed-1").hub_role_arn}
    made = (await (await site.admin()).eks("describe_access_entry", **entry))["accessEntry"]
    assert made["kubernetesGroups"] == ["open-cluster-management:managed-1"]
    assert pair("managed-1").hub_role_arn not in await mapped(site)
    await applied_work(site, "managed-1", "last")
    await site.hub.admin.delete(MANAGED_CLUSTERS, "managed-1")
    await site.hub.seen.until_gone(MANAGED_CLUSTERS, "managed-1", seconds=SECONDS)
    assert await site.grounds["managed-1"].seen.find(CONFIG_MAPS, "last", "default") is None
    assert pair("managed-1").hub_role not in await site.roles()
    assert await (await site.admin()).code("eks", "describe_access_entry", **entry) == "ResourceNotFoundException"
    with pytest.raises(NotFound):
        await site.hub.admin.get(CONFIG_MAPS, pair("managed-1").hub_role, HUB_NAMESPACE)
