"""Names, suffixes and documents, against the figures of the seed and of upstream's own tests."""

import pytest

from muster.administration.aws.prerequisites import Agents, apply, hub_role, issuer, managed_role
from muster.administration.errors import AdministrationError
from muster.aws import policies
from muster.aws.arns import BadArn, EksCluster, parse_cluster_arn, parse_role_arn
from muster.aws.role_names import RoleNames
from tests.support.fake_aws import FakeAws

HUB = parse_cluster_arn("arn:aws:eks:us-west-2:111111111111:cluster/hub-0")
PAIR = RoleNames(HUB, parse_cluster_arn("arn:aws:eks:us-west-2:222222222222:cluster/managed-0"))
PROVIDER = "oidc.eks.us-west-2.amazonaws.com/id/ABC"


def pair(hub_account: str, hub: str, account: str, name: str) -> RoleNames:
    return RoleNames(EksCluster("aws", "us-west-2", hub_account, hub), EksCluster("aws", "us-west-2", account, name))


@pytest.mark.parametrize(
    ("values", "suffix"),
    [
        (("hubaccount1", "hubcluster1", "managedaccount1", "managedcluster1"), "79e99112993014816615711cbd35a9bc"),
        (("123456789012", "hub-cluster1", "123456789012", "managed-cluster1"), "7f8141296c75f2871e3d030f85c35692"),
        (("123456789012", "hub", "567890123456", "spoke"), "138c525cf3b7f74ba3b945e7847792cc"),
        (("111111111111", "hub-0", "222222222222", "managed-0"), "a21fefa5047b57e2e7876e799a5595de"),
        (("111111111111", "hub-0", "222222222222", "managed-1"), "2da69a926081e1109f27b75131bf6245"),
    ],
)
def test_the_suffix(values, suffix):
    assert pair(*values).suffix == suffix


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov", "aws-eusc", "aws-iso", "aws-iso-b", "aws-iso-e", "aws-iso-f"])
def test_every_partition_is_read(partition):
    arn = f"arn:{partition}:eks:us-gov-west-1:111111111111:cluster/hub_0"
    assert str(parse_cluster_arn(arn)) == arn


@pytest.mark.parametrize(
    "arn",
    [
        "",
        "arn:eks:us-west-2:111111111111:cluster/x",
        "arn:aws:eks:us-west-2:11111111111:cluster/x",
        "arn:aws:eks:us-west-2:111111111111:x",
        "arn:aws:eks:us-west-2:111111111111:cluster/",
        "arn:aws:eks:us-west-2:111111111111:cluster/x y",
        "arn:aws:eks:us-west-2:111111111111:cluster/x\n",
        "arn:aws:eks:us-west-2:١١١١١١١١١١١١:cluster/x",
        "arn:aws:eks:us-west-2:111111111111:cluster/ä",
        f"arn:aws:eks:us-west-2:111111111111:cluster/{'x' * 101}",
        "arn:aws-moon:eks:us-west-2:111111111111:cluster/x",
        "arn:aws:eks::111111111111:cluster/x",
        'arn:aws:eks:us-west-2:111111111111:cluster/x"}',
        "xarn:aws:eks:us-west-2:111111111111:cluster/x",
    ],
)
def test_what_is_no_cluster_is_refused(arn):
    with pytest.raises(BadArn):
        parse_cluster_arn(arn)


def test_roles_have_paths():
    found = parse_role_arn("arn:aws:iam::111111111111:role/a/b/name")
    assert (found.path, found.name) == ("/a/b/", "name")


def test_the_hubs_role_trusts_the_managed_clusters_with_its_four_tags():
    [statement] = policies.hub_trust(PAIR)["Statement"]
    assert statement["Principal"] == {"AWS": f"arn:aws:iam::222222222222:role/ocm-managed-cluster-{PAIR.suffix}"}
    assert statement["Condition"]["StringEquals"] == {
        "aws:PrincipalTag/hub_cluster_account_id": "111111111111",
        "aws:PrincipalTag/hub_cluster_name": "hub-0",
        "aws:PrincipalTag/managed_cluster_account_id": "222222222222",
        "aws:PrincipalTag/managed_cluster_name": "managed-0",
    }


@pytest.mark.parametrize(
    ("agents", "subjects"),
    [
        (
            Agents(),
            ["open-cluster-management-agent:klusterlet-registration-sa", "open-cluster-management-agent:klusterlet-work-sa"],
        ),
        (
            Agents("k", "open-cluster-management-x"),
            ["open-cluster-management-x:k-registration-sa", "open-cluster-management-x:k-work-sa"],
        ),
        (Agents("k", mode="Hosted"), ["k:k-registration-sa", "k:k-work-sa"]),
        (Agents("k", mode="Singleton"), ["open-cluster-management-agent:k-work-sa"]),
        (Agents("k", mode="SingletonHosted"), ["k:k-work-sa"]),
    ],
)
def test_whose_pods_take_the_managed_clusters_role(agents, subjects):
    wanted = managed_role(PAIR, f"https://{PROVIDER}/", agents)
    named = [one["Condition"]["StringEquals"][f"{PROVIDER}:sub"] for one in wanted.trust["Statement"]]
    assert named == [f"system:serviceaccount:{one}" for one in subjects]
    assert wanted.tags == PAIR.tags


def test_the_hubs_creator_and_its_limits():
    wanted = hub_role(HUB, PROVIDER)
    assert wanted.name == "hub-0_managed-cluster-identity-creator"
    [roles, *_] = wanted.access["Statement"]
    assert roles["Resource"] == "arn:aws:iam::111111111111:role/ocm-hub-*"
    less = hub_role(HUB, PROVIDER, entries=False)
    assert len(less.access["Statement"]) < len(wanted.access["Statement"])
    with pytest.raises(AdministrationError, match="64"):
        hub_role(EksCluster("aws", "us-west-2", "111111111111", "x" * 32), PROVIDER)
    with pytest.raises(AdministrationError, match="oidc-provider"):
        issuer('https://x"y')


async def test_applied_twice_and_corrected():
    aws = FakeAws(account="222222222222")
    wanted = managed_role(PAIR, PROVIDER, Agents())
    assert await apply(aws, wanted)
    assert not await apply(aws, wanted)
    await aws.update_trust(wanted.name, policies.hub_trust(PAIR))
    assert not await apply(aws, wanted)
    assert aws.roles[wanted.name].trust == wanted.trust
