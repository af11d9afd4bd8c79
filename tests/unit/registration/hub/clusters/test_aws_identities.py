"""The hub's side of registration through AWS, by way of acceptance on a hub with its own rights: roles, mappings, records."""

import asyncio

import pytest

from muster.administration.aws.cleanup import moved as moved_records
from muster.administration.aws.cleanup import records_of, remove, remove_other, unclaimed
from muster.api.agents import AWS_ARN_ANNOTATION, AWS_ROLE_ANNOTATION, EKS_ARN_ANNOTATION
from muster.api.cluster.v1 import ManagedCluster
from muster.aws import errors, policies
from muster.aws.arns import parse_cluster_arn
from muster.aws.role_names import CLUSTER_TAG, HUB_ARN_TAG, RoleNames
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.drivers.awsirsa.records import ADMINISTRATOR, Phase, Record, document
from muster.registration.drivers.awsirsa.records import Mapping as MappingKind
from muster.registration.drivers.interfaces import Vote
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, EVENTS
from tests.unit.registration.hub.clusters.aws_play import HUB, MANAGED, NODES, AwsPlay, open_aws_play, pair
from tests.unit.registration.hub.conftest import Play


@pytest.fixture
async def site(play: Play) -> AwsPlay:
    return await open_aws_play(play)


async def test_an_accepted_cluster_has_a_role_and_an_entry_and_loses_both(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
        role = site.aws.roles[pair().hub_role]
        assert role.trust == policies.hub_trust(pair())
        assert (role.tags[HUB_ARN_TAG], role.tags[CLUSTER_TAG]) == (str(HUB), "c0")
        assert site.aws.inline[pair().hub_role] == {"open-cluster-management": policies.hub_access(HUB)}
        ours = {"rolearn": pair().hub_role_arn, "username": "open-cluster-management:c0"}
        assert (await site.entries())[1:] == [{**ours, "groups": ["system:open-cluster-management:c0"]}]
        assert site.aws.counted() == ["DescribeCluster", "CreateRole", "PutRolePolicy"]
        record = (await site.records())[pair().hub_role]
        assert (record["cluster"], record["arn"], record["phase"]) == ("c0", str(pair().managed), "Granted")
        binding = await site.play.admin.get(CLUSTER_ROLE_BINDINGS, "open-cluster-management:managedcluster:c0")
        assert {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "open-cluster-management:c0"} in binding[
            "subjects"
        ]

        await site.play.deny("c0")
        await site.play.until_condition("c0", "False", "HubClusterAdminDenied")
        await site.until_nothing_left()
        assert site.aws.counted() == ["DeleteRolePolicy", "DeleteRole"]

        await site.play.accept("c0")
        await site.accepted()
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.play.until_gone(MANAGED_CLUSTERS, "c0")
        await site.until_nothing_left()
    text = (await site.play.admin.get(CONFIG_MAPS, "aws-auth", "kube-system"))["data"]
    assert text == {"mapRoles": NODES, "mapUsers": "- userarn: x\n"}


async def test_by_access_entries_where_there_is_no_aws_auth(site: AwsPlay):
    site.aws.mode = "API"
    async with site.running():
        await site.cluster()
        await site.accepted()
        [(entry, _)] = site.aws.entries.values()
        assert (entry.username, entry.groups) == ("open-cluster-management:c0", ("open-cluster-management:c0",))
        assert len(await site.entries()) == 1
        assert site.aws.counted() == ["DescribeCluster", "CreateRole", "PutRolePolicy", "CreateAccessEntry"]
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.until_nothing_left()
        assert site.aws.counted() == ["DeleteAccessEntry", "DeleteRolePolicy", "DeleteRole"]


async def test_neither_a_restart_nor_status_updates_cost_a_call(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
    assert site.aws.is_closed
    site.aws.counted()
    async with site.running():
        for number in range(5):
            change = {"status": {"capacity": {"cpu": str(number)}}}
            await site.play.admin.patch(MANAGED_CLUSTERS, "c0", change, subresource="status")
            await site.play.admin.patch(MANAGED_CLUSTERS, "c0", {"metadata": {"labels": {"n": str(number)}}})
        await site.play.at_rest()
        await site.accepted()
    assert site.aws.counted() == []


async def test_looks_again_after_twelve_hours_and_mends(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
        site.aws.counted()
        site.aws.roles.clear()
        site.aws.inline.clear()
        await site.play.clock.advance(12 * 3600)

        async def mended() -> bool:
            return bool(site.aws.roles) and bool(site.aws.inline)

        await site.play.until(mended)
        assert site.aws.counted() == ["GetRole", "CreateRole", "PutRolePolicy"]


async def test_what_others_do_to_our_entry_is_put_back(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
        await site.play.admin.patch(CONFIG_MAPS, "aws-auth", {"data": {"mapRoles": NODES}}, "kube-system")

        async def back() -> bool:
            return len(await site.entries()) == 2

        await site.play.until(back)


async def test_an_aws_auth_that_does_not_parse_is_never_written(site: AwsPlay):
    broken = NODES + "- rolearn: [\n"
    await site.play.admin.patch(CONFIG_MAPS, "aws-auth", {"data": {"mapRoles": broken}}, "kube-system")
    async with site.running():
        await site.cluster()
        await site.problem("c0", "mapping", "not YAML")
        found = await site.play.admin.get(CONFIG_MAPS, "aws-auth", "kube-system")
        assert found["data"]["mapRoles"] == broken
        await site.play.admin.patch(CONFIG_MAPS, "aws-auth", {"data": {"mapRoles": NODES}}, "kube-system")
        await site.accepted()


async def test_clusters_gone_while_no_hub_ran_leave_nothing(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
    await site.play.let_go(MANAGED_CLUSTERS, "c0")
    await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
    async with site.running():
        await site.until_nothing_left()


async def test_who_comes_second_is_refused_and_its_deletion_touches_nothing(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
        await site.cluster(0, name="thief")
        await site.problem("thief", str(pair().managed), "cluster c0")
        elsewhere = marked(RoleNames(HUB, parse_cluster_arn("arn:aws:eks:eu-central-1:222222222222:cluster/managed-0")))
        await site.cluster(name="region", says=elsewhere)
        await site.problem("region", "whatever their region")
        site.aws.counted()
        for name in ("thief", "region"):
            await site.play.admin.delete(MANAGED_CLUSTERS, name)
            await site.play.until_gone(MANAGED_CLUSTERS, name)
        assert site.aws.counted() == []
        assert len(await site.entries()) == 2
        await site.accepted()


async def test_two_that_come_at_once_for_one_role(site: AwsPlay):
    async with site.running():
        await asyncio.gather(site.cluster(name="a"), site.cluster(name="b"))

        async def settled() -> list[str]:
            found = [(await site.play.condition(name)).get("reason") for name in ("a", "b")]
            return [str(one) for one in found] if sorted(map(str, found)) == ["Error", "HubClusterAdminAccepted"] else []

        await site.play.until(settled)
        assert len(site.aws.roles) == 1


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({EKS_ARN_ANNOTATION: "arn:eks:nonsense"}, "not the ARN"),
        ({EKS_ARN_ANNOTATION: f"{MANAGED}0\n"}, "not the ARN"),
        ({EKS_ARN_ANNOTATION: f'{MANAGED}0"}}'}, "not the ARN"),
        ({EKS_ARN_ANNOTATION: "arn:aws:eks:us-west-2:٢٢٢٢٢٢٢٢٢٢٢٢:cluster/managed-0"}, "not the ARN"),
        ({EKS_ARN_ANNOTATION: f"{MANAGED}0", AWS_ARN_ANNOTATION: f"{MANAGED}1"}, "contradict"),
        ({EKS_ARN_ANNOTATION: f"{MANAGED}0", AWS_ROLE_ANNOTATION: pair(1).suffix}, "another hub"),
        ({AWS_ROLE_ANNOTATION: pair().suffix}, "missing"),
        ({EKS_ARN_ANNOTATION: "arn:aws-cn:eks:cn-north-1:222222222222:cluster/managed-0"}, "partition"),
        ({EKS_ARN_ANNOTATION: f"{MANAGED}0", "agent.open-cluster-management.io/registration-driver": "grpc"}, "another"),
    ],
)
async def test_what_a_cluster_says_of_itself_is_not_believed(site: AwsPlay, annotations, words):
    async with site.running():
        await site.cluster(says=annotations)
        await site.problem("c0", words)
        await site.cluster(1)
        await site.accepted("c1")
    assert set(site.aws.roles) == {pair(1).hub_role}


async def test_the_arn_is_pinned_once_accepted(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
        site.aws.counted()
        await site.play.admin.patch(MANAGED_CLUSTERS, "c0", {"metadata": {"annotations": dict(marked(pair(1)))}})
        await site.problem("c0", "accepted as", str(pair().managed))
        assert site.aws.counted() == []
        # Taking the marks off does not hide from the hub what it has granted.
        gone = dict.fromkeys(marked(pair()))
        await site.play.admin.patch(MANAGED_CLUSTERS, "c0", {"metadata": {"annotations": gone}})
        await site.play.deny("c0")
        await site.until_nothing_left()


async def test_the_spokes_role_may_come_late(site: AwsPlay):
    site.aws.principals = set()
    async with site.running():
        await site.cluster()
        await site.problem("c0", "role", "Invalid principal")
        site.aws.principals.add(pair().managed_role_arn)
        await site.accepted()


async def test_a_role_that_is_there_is_corrected_or_anothers(site: AwsPlay):
    await site.aws.create_role(pair().hub_role, policies.hub_trust(pair(1)), {})
    other = {HUB_ARN_TAG: "arn:aws:eks:eu-central-1:111111111111:cluster/hub-0"}
    await site.aws.create_role(pair(1).hub_role, policies.hub_trust(pair(1)), other)
    async with site.running():
        await site.cluster()
        await site.accepted()
        assert site.aws.roles[pair().hub_role].trust == policies.hub_trust(pair())
        await site.cluster(1)
        await site.problem("c1", "belongs to the hub arn:aws:eks:eu-central-1")
        assert site.aws.roles[pair(1).hub_role].tags == other


async def test_policies_of_others_are_detached_and_named(site: AwsPlay):
    async with site.running():
        await site.cluster()
        await site.accepted()
        site.aws.attached[pair().hub_role] = ["arn:aws:iam::aws:policy/ReadOnlyAccess"]
        await site.play.deny("c0")
        await site.until_nothing_left()

        async def told() -> bool:
            return any("ReadOnlyAccess" in str(event.get("note")) for event in (await site.play.admin.list(EVENTS)).items)

        await site.play.until(told)


async def test_while_aws_hangs_others_are_accepted_and_denied(site: AwsPlay):
    site.aws.gate = asyncio.Event()
    async with site.running():
        for number in range(20):
            await site.cluster(number)
        await site.play.until_condition("c19", "False", "Pending")
        await site.cluster(name="bad", says={EKS_ARN_ANNOTATION: "nonsense"})
        await site.problem("bad", "not the ARN")
        site.aws.gate.set()
        for number in range(20):
            await site.accepted(f"c{number}")
    assert len(await site.entries()) == 21
    assert site.aws.calls.count("DescribeCluster") == 1, "it is the same for all"


async def test_votes(site: AwsPlay):
    site.options |= {"auto-approved-arn-patterns": (r"arn:aws:eks:us-west-2:222222222222:cluster/(managed|managed-.)", "")}
    async with site.running(auto=True) as driver:
        await site.cluster(0, accepts=False)
        await site.accepted("c0")
        bad = {EKS_ARN_ANNOTATION: f"XX{MANAGED}1"}
        await site.cluster(name="prefixed", accepts=False, says=bad)
        await site.cluster(name="other", accepts=False, says=marked(RoleNames(HUB, parse_cluster_arn(f"{MANAGED}long"))))
        await site.play.at_rest()
        for name, vote in (("prefixed", Vote.DENY), ("other", Vote.ABSTAIN)):
            found = await site.play.admin.get(MANAGED_CLUSTERS, name)
            assert not found["spec"].get("hubAcceptsClient")
            assert driver.vote(ManagedCluster.decode(found)) is vote
        await site.play.deny("c0")
        await site.until_nothing_left()


async def test_an_unmarked_cluster_is_of_a_driver_that_is_not_enabled(site: AwsPlay):
    async with site.running():
        await site.play.create_cluster("plain", accepts=True)
        await site.problem("plain", "'csr'", "not enabled")


async def test_a_hub_without_an_aws_identity(site: AwsPlay):
    """An administrator made it; the hub keeps aws-auth, lets the cluster go, and says what is left."""

    def nobody(operation: str) -> Exception:
        return errors.NoIdentity(operation, "", "no credentials")

    site.aws.fault = nobody
    async with site.running():
        await site.cluster()
        await site.problem("c0", "no AWS identity", "clusteradm accept")
        site.aws.fault = lambda operation: None
        await site.accepted()
    site.aws.fault = nobody
    async with site.running():
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.play.until_gone(MANAGED_CLUSTERS, "c0")
        assert len(await site.entries()) == 1
        assert (await site.records())[pair().hub_role]["phase"] == "Left"

        async def told() -> bool:
            return any("clusteradm aws cleanup" in str(event.get("note")) for event in (await site.play.admin.list(EVENTS)).items)

        await site.play.until(told)


async def test_what_an_administrator_has_made_is_looked_at(site: AwsPlay):
    site.options |= {"aws-identity": ("administrator",)}
    async with site.running():
        await site.cluster(accepts=False)
        await site.play.accept("c0")
        await site.problem("c0", "clusteradm accept --clusters c0", "111111111111")
        assert site.aws.counted() == []
        uid = (await site.play.admin.get(MANAGED_CLUSTERS, "c0"))["metadata"]["uid"]
        await site.aws.create_role(pair().hub_role, policies.hub_trust(pair()), {HUB_ARN_TAG: str(HUB), CLUSTER_TAG: "c0"})
        await site.aws.put_role_policy(pair().hub_role, policies.ACCESS_POLICY, policies.hub_access(HUB))
        site.aws.counted()
        record = Record(
            role=pair().hub_role,
            role_arn=pair().hub_role_arn,
            cluster="c0",
            uid=uid,
            arn=str(pair().managed),
            mapping=MappingKind.AWS_AUTH,
            phase=Phase.GRANTING,
            made_by=ADMINISTRATOR,
        )
        await site.play.admin.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **document(record, HUB_NAMESPACE)})
        await site.accepted()
        assert site.aws.counted() == ["GetRole", "GetRolePolicy"]
        assert len(await site.entries()) == 2


TO = {"aws-auth": ("access-entry",), "access-entry": ("aws-auth",)}


async def begin(site: AwsPlay, mapping: str) -> None:
    """A cluster that is mapped so, on a hub that is then told to map in the other way."""
    site.options |= {"aws-mapping": (mapping,)}
    async with site.running():
        await site.cluster()
        await site.accepted()
    site.options |= {"aws-mapping": TO[mapping]}
    site.aws.counted()


async def test_a_cluster_is_moved_to_aws_auth_and_known_all_the_time(site: AwsPlay):
    await begin(site, "access-entry")
    seen: list[int] = []

    def fault(operation: str) -> None:
        seen.append(len(site.aws.entries))

    site.aws.fault = fault
    async with site.running():

        async def moved() -> bool:
            record = (await site.records())[pair().hub_role]
            return record["mapping"] == "aws-auth" and "other" not in record

        await site.play.until(moved)
        assert site.aws.counted() == ["DeleteAccessEntry"]
        assert seen == [1], "the old one was there until the new one was"
        assert (len(site.aws.entries), len(await site.entries())) == (0, 2)
        assert (await site.play.condition("c0"))["status"] == "True"
        await site.play.deny("c0")
        await site.until_nothing_left()


async def test_a_cluster_is_moved_to_an_access_entry_and_what_is_left_in_aws_auth_is_cleaned_up(site: AwsPlay):
    """A hub that makes access entries has no rights on aws-auth."""
    await begin(site, "aws-auth")
    async with site.running():

        async def moved() -> bool:
            return len(site.aws.entries) == 1 and (await site.records())[pair().hub_role]["mapping"] == "access-entry"

        await site.play.until(moved)
        await site.play.at_rest()
        assert site.aws.counted() == ["CreateAccessEntry"], "once"
        assert len(await site.entries()) == 2
        assert (await site.records())[pair().hub_role]["other"] == "aws-auth"
        [left] = moved_records((await records_of(site.play.admin, HUB_NAMESPACE)).values())
        await remove_other(site.play.admin, left, HUB_NAMESPACE)
        assert len(await site.entries()) == 1
        assert "other" not in (await site.records())[pair().hub_role]
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.until_nothing_left()


async def test_a_cluster_that_goes_before_its_old_entry_does_is_let_go_and_on_record(site: AwsPlay):
    await begin(site, "aws-auth")
    async with site.running():
        await site.play.admin.delete(MANAGED_CLUSTERS, "c0")
        await site.play.until_gone(MANAGED_CLUSTERS, "c0")
        assert not site.aws.roles
        assert not site.aws.entries
        assert (await site.records())[pair().hub_role]["phase"] == "Left"
    [left] = await unclaimed(site.play.admin, site.aws, HUB, HUB_NAMESPACE)
    await remove(site.play.admin, site.aws, HUB, left, HUB_NAMESPACE, lambda text: None)
    await site.until_nothing_left()


@pytest.mark.parametrize(("mapping", "operation"), [("aws-auth", "CreateAccessEntry"), ("access-entry", "DeleteAccessEntry")])
async def test_a_move_that_fails_takes_nothing_away_and_is_revoked_whole(site: AwsPlay, mapping: str, operation: str):
    await begin(site, mapping)
    site.aws.fault = lambda asked: errors.Throttled(asked, "Throttling", "x") if asked == operation else None
    async with site.running():

        async def tried_again() -> bool:
            return site.aws.calls.count(operation) > 2

        await site.play.until(tried_again)
        await site.accepted()
        assert len(site.aws.entries) + len(await site.entries()) == (2 if mapping == "aws-auth" else 3)
        site.aws.fault = lambda asked: None
        await site.play.deny("c0")

        async def gone() -> bool:
            left = [one for one in (await site.records()).values() if one["phase"] != "Left"]
            return not site.aws.roles and not site.aws.entries and not left

        await site.play.until(gone)


async def test_what_was_begun_by_one_mapping_is_finished_by_the_other(site: AwsPlay):
    """The hub was told otherwise while a cluster was being accepted."""
    site.aws.fault = lambda asked: errors.Unavailable(asked, "", "x") if asked == "PutRolePolicy" else None
    site.options |= {"aws-mapping": ("access-entry",)}
    async with site.running():
        await site.cluster()
        await site.problem("c0", "access policy")
    site.aws.fault = lambda asked: None
    site.options |= {"aws-mapping": ("aws-auth",)}
    async with site.running():
        await site.accepted()

        async def settled() -> bool:
            record = (await site.records())[pair().hub_role]
            return record["mapping"] == "aws-auth" and "other" not in record

        await site.play.until(settled)
        assert (len(site.aws.entries), len(await site.entries())) == (0, 2)
