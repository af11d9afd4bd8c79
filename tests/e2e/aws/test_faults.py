"""What AWS, and whoever else has rights there, does wrong while clusters are accepted and leave: stories 4 and 7, by both mappings.

The hub is whole, as `clusteradm init` makes it, on a local AWS. Its clusters are ManagedClusters and their roles: nobody registers
as them, because nothing here depends on who would.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from muster.api.agents import AWS_ROLE_ANNOTATION, EKS_ARN_ANNOTATION
from muster.api.cluster.v1 import ACCEPTED
from muster.aws import policies
from muster.aws.role_names import CLUSTER_TAG, HUB_ARN_TAG
from muster.fleet.aws import FaultKind
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import EVENTS, PODS
from tests.e2e.aws.steps import HUB_NAMESPACE, initialized, managed_cluster, mapped, until_revoked
from tests.support.aws_site import HUB, HUB_ACCOUNT, MANAGED_ACCOUNT, SECONDS, AwsSite, arn, open_aws_site, pair
from tests.support.local_aws import allow, policy, trusting
from tests.support.sites import beside_kube

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

AUTO = "arn:aws:eks:us-west-2:222222222222:cluster/auto-.*"
CUT = FaultKind.CUT
ERROR, THROTTLED, UNAVAILABLE = FaultKind.ERROR, FaultKind.THROTTLED, FaultKind.UNAVAILABLE


MAPPINGS = ["aws-auth", pytest.param("access-entry", marks=beside_kube)]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MAPPINGS)
async def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AwsSite]:
    async with open_aws_site(tmp_path_factory.mktemp("aws-faults")) as made:
        approving = ("--feature-gates", "ManagedClusterAutoApproval=true", "--auto-approved-arn-patterns", AUTO)
        await initialized(made, HUB, "--aws-mapping", request.param, *approving)
        made.mapping = request.param
        yield made


@pytest.fixture(autouse=True)
def no_faults(site: AwsSite) -> None:
    """Of a test that went before."""
    site.aws.behaviour.faults.clear()


# What happens


async def introduced(site: AwsSite, name: str, says: Mapping[str, str] | None = None, *, role: bool = True) -> None:
    """As its agent would, with whatever it says of itself."""
    if role:
        tags = [{"Key": key, "Value": value} for key, value in pair(name).tags.items()]
        trust = trusting({"AWS": MANAGED_ACCOUNT})
        admin = await site.admin(MANAGED_ACCOUNT)
        await admin.iam("create_role", RoleName=pair(name).managed_role, AssumeRolePolicyDocument=trust, Tags=tags)
    metadata = {"name": name, "annotations": dict(marked(pair(name)) if says is None else says)}
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    await site.hub.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": metadata, "spec": {"hubAcceptsClient": False}})


async def accept(site: AwsSite, name: str, accepts: bool = True) -> None:
    """By hand, so that the hub does what has to be done on AWS."""
    await site.hub.admin.patch(MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": accepts}})


async def until_accepted(site: AwsSite, name: str) -> None:
    await site.hub.seen.until_condition(MANAGED_CLUSTERS, name, ACCEPTED, "True", "HubClusterAdminAccepted", SECONDS)
    assert await is_mapped(site, name)
    role = (await (await site.admin()).iam("get_role", RoleName=pair(name).hub_role))["Role"]
    assert role["AssumeRolePolicyDocument"] == policies.hub_trust(pair(name))


async def until_denied(site: AwsSite, name: str) -> None:
    """The hub says so last, and not at all to whoever accepts again before."""
    await site.hub.seen.until_condition(MANAGED_CLUSTERS, name, ACCEPTED, "False", "HubClusterAdminDenied", SECONDS)


async def until_problem(site: AwsSite, name: str, *words: str, reason: str = "Error") -> str:
    async def told() -> str:
        found = await site.hub.seen.condition(MANAGED_CLUSTERS, name, ACCEPTED)
        message = str(found.get("message"))
        return message if found.get("reason") == reason and all(word in message for word in words) else ""

    found: str = await site.hub.seen.until(told, f"{name} is told of {words}", SECONDS)
    return found


async def is_mapped(site: AwsSite, name: str) -> bool:
    if site.mapping == "aws-auth":
        return pair(name).hub_role_arn in await mapped(site)
    entry = {"clusterName": HUB, "principalArn": pair(name).hub_role_arn}
    return await (await site.admin()).code("eks", "describe_access_entry", **entry) == "OK"


async def until_nothing_left(site: AwsSite, name: str) -> None:
    await until_revoked(site, name)
    assert not await is_mapped(site, name)


async def gone(site: AwsSite, name: str) -> None:
    await site.hub.admin.delete(MANAGED_CLUSTERS, name)
    await site.hub.seen.until_gone(MANAGED_CLUSTERS, name, seconds=SECONDS)
    await until_nothing_left(site, name)


def asked(site: AwsSite, name: str) -> list[str]:
    """What was asked of IAM about a cluster's role."""
    return [one.operation for one in site.aws.calls if pair(name).hub_role in one.resource]


# Story 4


async def test_story_4_a_call_that_fails_or_is_not_answered_is_made_again(site: AwsSite) -> None:
    faults = [("iam:CreateRole", THROTTLED, False), ("iam:CreateRole", CUT, True), ("iam:PutRolePolicy", ERROR, False)]
    faults += [("iam:PutRolePolicy", CUT, True), ("iam:DeleteRolePolicy", THROTTLED, False), ("iam:DeleteRolePolicy", CUT, True)]
    faults += [("iam:DeleteRole", UNAVAILABLE, False), ("iam:DeleteRole", CUT, True)]
    if site.mapping == "access-entry":
        faults += [("eks:CreateAccessEntry", UNAVAILABLE, False), ("eks:CreateAccessEntry", CUT, True)]
        faults += [("eks:DeleteAccessEntry", THROTTLED, False), ("eks:DeleteAccessEntry", CUT, True)]
    for number in range(3):
        await introduced(site, f"failing-{number}")
    for operation, kind, after in faults:
        site.aws.behaviour.fail(operation, kind, after=after)
    for number in range(3):
        await accept(site, f"failing-{number}")
    for number in range(3):
        await until_accepted(site, f"failing-{number}")
        await gone(site, f"failing-{number}")
    assert not site.aws.behaviour.faults, "each of them has struck"


async def test_story_4_what_is_half_made_is_no_acceptance_and_is_finished(site: AwsSite) -> None:
    await introduced(site, "half")
    broken = site.aws.behaviour.fail("iam:PutRolePolicy", ERROR, times=None)
    await accept(site, "half")
    await until_problem(site, "half", "access policy", "InternalFailure")
    assert pair("half").hub_role in await site.roles()
    assert not await is_mapped(site, "half")
    site.aws.behaviour.faults.remove(broken)
    await until_accepted(site, "half")
    await gone(site, "half")


async def test_story_4_what_a_cluster_says_of_itself_is_not_believed_and_others_are_served(site: AwsSite) -> None:
    await introduced(site, "nonsense", {EKS_ARN_ANNOTATION: "arn:eks:nonsense"}, role=False)
    await introduced(site, "foreign", {**marked(pair("foreign")), AWS_ROLE_ANNOTATION: pair("other").suffix})
    for name in ("nonsense", "foreign"):
        await accept(site, name)
    await until_problem(site, "nonsense", EKS_ARN_ANNOTATION)
    await until_problem(site, "foreign", AWS_ROLE_ANNOTATION, "another hub")
    assert not asked(site, "foreign")
    await introduced(site, "honest")
    await accept(site, "honest")
    await until_accepted(site, "honest")
    for name in ("nonsense", "foreign"):
        await site.hub.admin.delete(MANAGED_CLUSTERS, name)
        await site.hub.seen.until_gone(MANAGED_CLUSTERS, name, seconds=SECONDS)
    await gone(site, "honest")


async def test_story_4_a_role_that_is_there_is_set_right_unless_it_is_anothers(site: AwsSite) -> None:
    admin = await site.admin()
    trust = trusting({"AWS": HUB_ACCOUNT})
    await admin.iam("create_role", RoleName=pair("open").hub_role, AssumeRolePolicyDocument=trust)
    elsewhere = [{"Key": HUB_ARN_TAG, "Value": "arn:aws:eks:eu-central-1:111111111111:cluster/hub-0"}]
    await admin.iam("create_role", RoleName=pair("taken").hub_role, AssumeRolePolicyDocument=trust, Tags=elsewhere)
    for name in ("open", "taken"):
        await introduced(site, name)
        await accept(site, name)
    await until_accepted(site, "open")
    await until_problem(site, "taken", "belongs to the hub arn:aws:eks:eu-central-1")
    await gone(site, "open")
    await site.hub.admin.delete(MANAGED_CLUSTERS, "taken")
    await site.hub.seen.until_gone(MANAGED_CLUSTERS, "taken", seconds=SECONDS)


async def test_story_4_a_person_whom_aws_fails_leaves_it_to_the_hub(site: AwsSite) -> None:
    """And nothing behind: also where the role was made and nobody was told."""
    await introduced(site, "by-hand")
    site.aws.behaviour.fail("iam:CreateRole", CUT, after=True)
    identity = await site.aws.administrator(HUB_ACCOUNT)
    done = await site.run(HUB, "accept", "--clusters", "by-hand", identity=identity)
    assert done.exit_code == 0, done.output
    assert "the hub creates the AWS identity" in done.output
    await until_accepted(site, "by-hand")
    await gone(site, "by-hand")
    said = await site.fails(HUB, "accept", "--clusters", "by-hand", identity=identity)
    assert "by-hand" in said


async def test_story_4_patterns_let_clusters_in_and_a_denial_stays(site: AwsSite) -> None:
    stranger = str(arn("auto-1")).replace(MANAGED_ACCOUNT, "333333333333")
    says = {"account": stranger, "prefixed": f"XX{arn('auto-1')}", "longer": f"{arn('auto-1')}\n", "empty": ""}
    for name, said in says.items():
        await introduced(site, name, {EKS_ARN_ANNOTATION: said}, role=False)
    await introduced(site, "auto-0")
    await until_accepted(site, "auto-0")
    cluster = await managed_cluster(site, "auto-0")
    assert "open-cluster-management.io/automatically-accepted-on" in cluster["metadata"]["annotations"]
    for name in says:
        assert not (await managed_cluster(site, name))["spec"].get("hubAcceptsClient"), name
        await site.hub.admin.delete(MANAGED_CLUSTERS, name)
    await accept(site, "auto-0", accepts=False)
    await until_nothing_left(site, "auto-0")
    await introduced(site, "auto-1")
    await until_accepted(site, "auto-1")
    assert not (await managed_cluster(site, "auto-0"))["spec"]["hubAcceptsClient"], "it was looked at before this one"
    for name in ("auto-0", "auto-1"):
        await gone(site, name)


@beside_kube
async def test_story_4_a_hub_that_is_killed_between_two_steps_goes_on_there(site: AwsSite) -> None:
    await introduced(site, "killed")
    site.aws.behaviour.fail("iam:PutRolePolicy", FaultKind.HANG)
    await accept(site, "killed")

    async def begun() -> bool:
        return not site.aws.behaviour.faults

    await site.hub.seen.until(begun, "the call that is never answered", SECONDS)
    assert not await is_mapped(site, "killed")
    for pod in (await site.hub.admin.list(PODS, HUB_NAMESPACE)).items:
        if "registration-controller" in pod["metadata"]["name"]:
            await site.hub.admin.delete(PODS, pod["metadata"]["name"], HUB_NAMESPACE)
    await until_accepted(site, "killed")
    await gone(site, "killed")


# Story 7


async def test_story_7_policies_of_others_are_taken_off_and_named(site: AwsSite) -> None:
    await introduced(site, "attached")
    await accept(site, "attached")
    await until_accepted(site, "attached")
    admin, role = await site.admin(), {"RoleName": pair("attached").hub_role}
    document = policy(allow("s3:*"))
    foreign = (await admin.iam("create_policy", PolicyName="foreign", PolicyDocument=document))["Policy"]["Arn"]
    await admin.iam("attach_role_policy", **role, PolicyArn=foreign)
    await admin.iam("put_role_policy", **role, PolicyName="inline", PolicyDocument=document)
    held = site.aws.behaviour.fail("iam:DetachRolePolicy", ERROR, times=None)
    await accept(site, "attached", accepts=False)
    await until_problem(site, "attached", "role", "detach_role_policy", reason="HubClusterAdminDenied")
    await site.hub.admin.delete(MANAGED_CLUSTERS, "attached")
    assert await site.hub.seen.find(MANAGED_CLUSTERS, "attached"), "it stays until its role is gone"
    site.aws.behaviour.faults.remove(held)
    await site.hub.seen.until_gone(MANAGED_CLUSTERS, "attached", seconds=SECONDS)
    await until_nothing_left(site, "attached")

    async def named() -> bool:
        return any(foreign in str(event.get("note")) for event in (await site.hub.admin.list(EVENTS)).items)

    await site.hub.seen.until(named, "an event names the policy", SECONDS)
    await admin.iam("delete_policy", PolicyArn=foreign)


async def test_story_7_what_is_gone_already_holds_nobody_up(site: AwsSite) -> None:
    await introduced(site, "emptied")
    await accept(site, "emptied")
    await until_accepted(site, "emptied")
    admin, role = await site.admin(), {"RoleName": pair("emptied").hub_role}
    await admin.iam("delete_role_policy", **role, PolicyName=policies.ACCESS_POLICY)
    await admin.iam("delete_role", **role)
    if site.mapping == "access-entry":
        await admin.eks("delete_access_entry", clusterName=HUB, principalArn=pair("emptied").hub_role_arn)
    await gone(site, "emptied")


async def test_story_7_a_role_that_is_made_anew_is_the_same_cluster_again(site: AwsSite) -> None:
    """Denied and accepted again: another role under the same name, to which the mapping is bound anew."""
    await introduced(site, "again")
    await accept(site, "again")
    await until_accepted(site, "again")
    before: Any = (await (await site.admin()).iam("get_role", RoleName=pair("again").hub_role))["Role"]
    await accept(site, "again", accepts=False)
    await until_denied(site, "again")
    await until_nothing_left(site, "again")
    await accept(site, "again")
    await until_accepted(site, "again")
    after: Any = (await (await site.admin()).iam("get_role", RoleName=pair("again").hub_role))["Role"]
    assert before["RoleId"] != after["RoleId"]
    assert {CLUSTER_TAG, HUB_ARN_TAG} <= {tag["Key"] for tag in after["Tags"]}
    await gone(site, "again")
