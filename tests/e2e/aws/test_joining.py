"""Stories 1 to 4: a hub for AWS identities, a cluster that introduces itself and one that is accepted; and what may go wrong.

Nobody is played: clusters are a local AWS' EKS clusters, people use `clusteradm`. What AWS does wrong meanwhile is in
`test_faults.py`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml

from muster.api.cluster.v1 import ACCEPTED, AVAILABLE
from muster.aws import policies
from muster.machinery.objects import GVR
from muster.operator.names import CLUSTER_MANAGERS, KLUSTERLETS
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS
from tests.e2e.aws.steps import (
    AGENTS,
    HUB_NAMESPACE,
    SESSION_SECONDS,
    accepted,
    applied_work,
    as_agent,
    hub_secret,
    hub_token,
    initialized,
    join_words,
    joined,
    managed_cluster,
    managed_role,
    mapped,
    no_requests,
    refused,
)
from tests.support.aws_site import HUB, HUB_ACCOUNT, MANAGED_ACCOUNT, SECONDS, AwsSite, arn, open_aws_site, pair

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
SUFFIX = "a21fefa5047b57e2e7876e799a5595de"
"""Of managed-0 and hub-0, as it was worked out by hand."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AwsSite]:
    async with open_aws_site(tmp_path_factory.mktemp("aws-joining"), "managed-0", "managed-1", "plain") as made:
        made.aws.behaviour.longest_session = SESSION_SECONDS
        yield made


async def test_story_1_a_hub_is_initialized_for_aws_identities(site: AwsSite) -> None:
    said = await initialized(site)
    manager = await site.hub.admin.get(CLUSTER_MANAGERS, "cluster-manager")
    drivers = manager["spec"]["registrationConfiguration"]["registrationDrivers"]
    assert drivers == [{"authType": "awsirsa", "awsirsa": {"hubClusterArn": str(arn(HUB))}}, {"authType": "csr"}]
    assert "clusteradm join --hub-token" in said
    account = await site.hub.admin.get(SERVICE_ACCOUNTS, "registration-controller-sa", HUB_NAMESPACE)
    creator = f"arn:aws:iam::{HUB_ACCOUNT}:role/hub-0_managed-cluster-identity-creator"
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == creator
    deployment = await site.hub.admin.get(DEPLOYMENTS, "cluster-manager-registration-controller", HUB_NAMESPACE)
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--hub-cluster-arn={arn(HUB)}" in arguments
    assert site.aws.url not in json.dumps(deployment), "where AWS is, pods learn from their node"


async def test_story_3_a_cluster_introduces_itself_and_is_not_let_in(site: AwsSite) -> None:
    words = await join_words(site, "managed-0")
    without = [word for word in words if word not in ("--eks-hub-cluster-arn", str(arn(HUB)))]
    assert "hub-cluster-arn is required" in await site.fails("managed-0", *without)
    wrong = (*words, "--eks-managed-cluster-arn", "arn:eks:us-west-2:222222222222:managed-0")
    assert "--managed-cluster-arn" in await site.fails("managed-0", *wrong)
    assert await site.grounds["managed-0"].seen.find(NAMESPACES, AGENTS) is None, "nothing was applied"

    await joined(site, "managed-0")
    cluster = await managed_cluster(site, "managed-0")
    assert not cluster["spec"].get("hubAcceptsClient")
    annotations = cluster["metadata"]["annotations"]
    assert annotations["eks-managed-cluster-arn"] == str(arn("managed-0"))
    assert annotations["agent.open-cluster-management.io/managed-cluster-arn"] == str(arn("managed-0"))
    assert annotations["agent.open-cluster-management.io/managed-cluster-iam-role-suffix"] == SUFFIX
    klusterlet = (await site.grounds["managed-0"].admin.get(KLUSTERLETS, "klusterlet"))["spec"]
    driver = {"hubClusterArn": str(arn(HUB)), "managedClusterArn": str(arn("managed-0"))}
    assert klusterlet["registrationConfiguration"]["registrationDriver"] == {"authType": "awsirsa", "awsIrsa": driver}
    for account in ("klusterlet-registration-sa", "klusterlet-work-sa"):
        found = await site.grounds["managed-0"].admin.get(SERVICE_ACCOUNTS, account, AGENTS)
        role = f"arn:aws:iam::{MANAGED_ACCOUNT}:role/ocm-managed-cluster-{SUFFIX}"
        assert found["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == role
    assert await no_requests(site, "managed-0")
    assert "kubeconfig" not in ((await hub_secret(site, "managed-0")) or {}).get("data", {})
    assert pair("managed-0").hub_role not in await site.roles()


async def test_story_4_whoever_may_not_accept_leaves_nothing_on_aws(site: AwsSite) -> None:
    """alice has every right on AWS and on the hub that `accept` needs, but that one."""
    await joined(site, "managed-0")
    if (await managed_cluster(site, "managed-0"))["spec"].get("hubAcceptsClient"):
        pytest.skip("it has been accepted before")
    await give(site, "alice", [("cluster.open-cluster-management.io", "managedclusters", ["get", "list", "patch", "update"])])
    await give(site, "alice", [("", "configmaps", ["get", "list", "create", "update", "delete"])])
    await give(site, "alice", [("operator.open-cluster-management.io", "clustermanagers", ["get", "list"])])
    await give(site, "alice", [("apiextensions.k8s.io", "customresourcedefinitions", ["get", "list"])])
    identity = await site.aws.administrator(HUB_ACCOUNT)
    said = await site.fails(HUB, "accept", "--clusters", "managed-0", identity=identity, user="alice")
    assert "managedclusters/accept" in said or "HubAcceptsClient" in said
    assert pair("managed-0").hub_role not in await site.roles()
    assert pair("managed-0").hub_role_arn not in await mapped(site)


async def give(site: AwsSite, user: str, rules: list[tuple[str, str, list[str]]]) -> None:
    group = "rbac.authorization.k8s.io"
    roles = GVR(f"{group}/v1", "clusterroles", "ClusterRole", namespaced=False)
    bindings = GVR(f"{group}/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
    for api, resource, verbs in rules:
        name = f"test-{user}-{resource}"
        rule = {"apiGroups": [api], "resources": [resource], "verbs": verbs}
        await site.hub.admin.apply(roles, {"metadata": {"name": name}, "rules": [rule]}, manager="test")
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        await site.hub.admin.apply(bindings, binding, manager="test")


async def test_story_4_an_accepted_cluster_is_known_by_its_role_and_works(site: AwsSite) -> None:
    await accepted(site, "managed-0")
    own = pair("managed-0")
    role = (await (await site.admin()).iam("get_role", RoleName=own.hub_role))["Role"]
    assert role["AssumeRolePolicyDocument"] == policies.hub_trust(own)
    access = await (await site.admin()).iam("get_role_policy", RoleName=own.hub_role, PolicyName=policies.ACCESS_POLICY)
    assert access["PolicyDocument"] == policies.hub_access(own.hub)
    entry = (await mapped(site))[own.hub_role_arn]
    assert entry["groups"] == ["system:open-cluster-management:managed-0"]
    stored = await hub_secret(site, "managed-0")
    assert stored is not None
    data = {key: base64.b64decode(value).decode() for key, value in stored["data"].items()}
    assert data["cluster-name"] == "managed-0"
    assert data["agent-name"]
    (user,) = yaml.safe_load(data["kubeconfig"])["users"]
    assert own.hub_role_arn in user["user"]["exec"]["args"]
    assert await no_requests(site, "managed-0")
    work = await applied_work(site, "managed-0", "hello")
    await work.until_gone_on_cluster()
    before = await managed_cluster(site, "managed-0")
    said = await site.ok(HUB, "accept", "--clusters", "managed-0", identity=await site.aws.administrator(HUB_ACCOUNT))
    assert "already set" in said
    assert (await managed_cluster(site, "managed-0"))["metadata"]["generation"] == before["metadata"]["generation"]


async def test_story_3_a_name_that_another_cluster_has_is_refused(site: AwsSite) -> None:
    await accepted(site, "managed-0")
    if "plain" in site.done:
        pytest.skip("it has joined before")
    words = [*await join_words(site, "managed-0"), "--eks-managed-cluster-arn", str(arn("plain"))]
    said = await site.fails("plain", *words)
    assert f"managed-0 is another cluster on the hub: {arn('managed-0')}" in said
    assert await site.grounds["plain"].seen.find(NAMESPACES, AGENTS) is None, "nothing was applied"


async def test_story_3_who_joins_again_changes_nothing(site: AwsSite) -> None:
    await accepted(site, "managed-0")
    before, stored = await managed_cluster(site, "managed-0"), await hub_secret(site, "managed-0")
    words = [*await join_words(site, "managed-0"), "--eks-managed-cluster-arn", str(arn("managed-0")), "--wait"]
    await site.ok("managed-0", *words)
    after = await managed_cluster(site, "managed-0")
    assert (after["spec"], after["metadata"]["annotations"]) == (before["spec"], before["metadata"]["annotations"])
    now = await hub_secret(site, "managed-0")
    assert now is not None
    assert stored is not None
    assert now["data"] == stored["data"]


async def test_story_4_nobody_lets_themselves_in(site: AwsSite) -> None:
    """Whoever has the token that clusters join with may introduce one, and not accept it."""
    await initialized(site)
    async with as_agent(site, (await hub_token(site))["hub-token"]) as newcomer:
        evil = {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": "evil", "annotations": {"eks-managed-cluster-arn": str(arn("managed-0"))}},
            "spec": {"hubAcceptsClient": True},
        }
        assert "HubAcceptsClient" in await refused(newcomer.create(MANAGED_CLUSTERS, evil))
        evil["spec"] = {}
        await newcomer.create(MANAGED_CLUSTERS, evil)
        await refused(newcomer.patch(MANAGED_CLUSTERS, "evil", {"spec": {"hubAcceptsClient": True}}))
    await site.hub.admin.delete(MANAGED_CLUSTERS, "evil")


async def test_story_2_both_ways_to_register_are_there_side_by_side(site: AwsSite) -> None:
    await accepted(site, "managed-0")
    before, on_aws = await mapped(site), await site.roles()
    await accepted(site, "plain")
    cluster = await managed_cluster(site, "plain")
    assert not [one for one in cluster["metadata"].get("annotations", {}) if "arn" in one]
    assert not await no_requests(site, "plain")
    assert await no_requests(site, "managed-0")
    assert (await mapped(site), await site.roles()) == (before, on_aws), "AWS has not heard of it"
    calls = len(site.aws.calls)
    await site.hub.admin.patch(MANAGED_CLUSTERS, "plain", {"spec": {"hubAcceptsClient": False}})
    await site.hub.seen.until_condition(MANAGED_CLUSTERS, "plain", ACCEPTED, "False", "HubClusterAdminDenied", SECONDS)
    assert not [one for one in list(site.aws.calls)[calls:] if one.operation.startswith("iam:")]
    assert await site.hub.seen.condition(MANAGED_CLUSTERS, "managed-0", AVAILABLE)


async def test_story_4_a_role_that_comes_late_is_waited_for(site: AwsSite) -> None:
    """The cluster's own role is missing, so IAM refuses the trust in it; nobody has to do anything once it is there."""
    await joined(site, "managed-1", role=False)
    if pair("managed-1").managed_role in await site.roles(MANAGED_ACCOUNT):
        pytest.skip("it has been made before")
    await site.hub.admin.patch(MANAGED_CLUSTERS, "managed-1", {"spec": {"hubAcceptsClient": True}})
    said = await site.hub.seen.until_condition(MANAGED_CLUSTERS, "managed-1", ACCEPTED, "False", "", SECONDS)
    assert "awsirsa" in said["message"]
    assert "kubeconfig" not in ((await hub_secret(site, "managed-1")) or {}).get("data", {}), "False is no acceptance"
    await managed_role(site, "managed-1")
    await site.hub.seen.until_condition(MANAGED_CLUSTERS, "managed-1", AVAILABLE, "True", "", SECONDS)
