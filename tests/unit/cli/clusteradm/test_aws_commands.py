"""What `clusteradm` does on AWS for clusters that register by it: told by a dry run, done where it is missing, finished later."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from muster.aws.arns import parse_cluster_arn
from muster.aws.role_names import RoleNames
from muster.fleet.aws import LocalAws
from muster.registration.drivers.awsirsa.aws_auth_edit import put_in
from muster.registration.drivers.awsirsa.aws_auth_map import mapped
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.drivers.awsirsa.records import Mapping, Phase, beginning, document, recorded
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES
from tests.support.local_aws import REGION, Botocore, local_aws, trusting
from tests.unit.cli.clusteradm.conftest import AVAILABLE, FRESH, Fleet, condition
from tests.unit.cli.clusteradm.test_basics import PROGRAM

HUB_ARN = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
PAIR = RoleNames(parse_cluster_arn(HUB_ARN), parse_cluster_arn("arn:aws:eks:us-west-2:222222222222:cluster/managed-0"))
INIT = ("init", "--registration-drivers=csr,awsirsa", f"--hub-cluster-arn={HUB_ARN}", "--force")


@dataclass
class Site:
    fleet: Fleet
    aws: LocalAws

    async def roles(self) -> set[str]:
        admin = Botocore(self.aws, await self.aws.administrator("111111111111"))
        return {one["RoleName"] for one in (await admin.iam("list_roles"))["Roles"]}

    async def entries(self) -> str:
        found = await self.fleet.admin().get(CONFIG_MAPS, "aws-auth", "kube-system")
        return str((found.get("data") or {}).get("mapRoles") or "")


@pytest.fixture
async def site(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A hub that leaves AWS to whoever accepts clusters; who runs `clusteradm` is the administrator of its account."""
    async with local_aws(tmp_path / "aws") as aws:
        for name, value in aws.environ(REGION, await aws.administrator("111111111111")).items():
            monkeypatch.setenv(name, value)
        spokes = Botocore(aws, await aws.administrator("222222222222"))
        trust = trusting({"AWS": "222222222222"})
        await spokes.iam("create_role", RoleName=PAIR.managed_role, AssumeRolePolicyDocument=trust)
        await fleet.admin().apply(NAMESPACES, {"metadata": {"name": HUB_NAMESPACE}}, manager="test")
        await fleet.ok(*INIT, "--aws-identity=administrator")
        yield Site(fleet, aws)


async def test_a_dry_run_says_what_would_be_made_and_makes_nothing(site: Site) -> None:
    fleet = site.fleet
    await fleet.cluster("c0", metadata={"annotations": dict(marked(PAIR))})
    before, asked = await fleet.revision(), len(site.aws.calls)
    said = await fleet.ok("accept", "--clusters", "c0", "--dry-run")
    assert f"role {PAIR.hub_role_arn} would be made and mapped, with your AWS identity" in said
    own = ("--hub-cluster-arn", HUB_ARN, "--oidc-provider", "oidc.example.com", "--apply", "--dry-run")
    said = await fleet.ok("aws", "prerequisites", "hub", *own)
    assert "hub-0_managed-cluster-identity-creator would be made, or set right" in said
    said = await fleet.ok("aws", "prerequisites", "managed", *own, "--managed-cluster-arn", str(PAIR.managed))
    assert f"role {PAIR.managed_role_arn} would be made, or set right" in said
    assert await fleet.revision() == before
    assert len(site.aws.calls) == asked, "and asks nobody"
    await fleet.ok("accept", "--clusters", "c0")
    await fleet.admin().delete(MANAGED_CLUSTERS, "c0")
    before, roles = await fleet.revision(), await site.roles()
    assert f"role {PAIR.hub_role_arn} of cluster c0 would be removed" in await fleet.ok("aws", "cleanup", "--dry-run")
    assert (await fleet.revision(), await site.roles()) == (before, roles)
    assert f"role {PAIR.hub_role_arn} of cluster c0 is removed" in await fleet.ok("aws", "cleanup")
    assert PAIR.hub_role not in await site.roles()


async def test_what_a_cluster_lacks_that_was_accepted_by_other_means_is_made(site: Site) -> None:
    """The condition tells to run `accept`, so that has to do it."""
    fleet = site.fleet
    await fleet.cluster("c0", metadata={"annotations": dict(marked(PAIR))}, spec={"hubAcceptsClient": True})
    failed = [
        condition("HubAcceptedManagedCluster", "False", "Error", "role: is created by the administrator who accepts the cluster")
    ]
    await fleet.admin().patch(MANAGED_CLUSTERS, "c0", {"status": {"conditions": failed}}, subresource="status")
    said = await fleet.ok("accept", "--clusters", "c0")
    assert f"role {PAIR.hub_role_arn} made" in said
    assert PAIR.hub_role in await site.roles()
    assert PAIR.hub_role_arn in await site.entries()
    await fleet.admin().patch(MANAGED_CLUSTERS, "c0", {"status": {"conditions": AVAILABLE}}, subresource="status")
    asked = len(site.aws.calls)
    assert "nothing was changed" in await fleet.ok("accept", "--clusters", "c0")
    assert len(site.aws.calls) == asked, "what is well is left alone"


async def test_a_cluster_that_is_moved_here_from_csr_is_told_which_it_is_and_gets_its_role(site: Site) -> None:
    fleet = site.fleet
    await fleet.cluster("c0", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    await fleet.ok("accept", "--clusters", "c0", "--managed-cluster-arn", str(PAIR.managed))
    assert PAIR.hub_role in await site.roles()
    found = await fleet.admin().get(CONFIG_MAPS, PAIR.hub_role, HUB_NAMESPACE)
    record = recorded(found)
    assert record is not None
    assert (record.cluster, record.made_by) == ("c0", "administrator")


async def test_an_entry_that_a_moved_cluster_left_in_aws_auth_is_cleaned_up(site: Site) -> None:
    fleet, admin = site.fleet, site.fleet.admin()
    await fleet.cluster("c0", metadata={"annotations": dict(marked(PAIR))}, spec={"hubAcceptsClient": True})
    uid = (await admin.get(MANAGED_CLUSTERS, "c0"))["metadata"]["uid"]
    begun = beginning(PAIR, "c0", uid, Mapping.ACCESS_ENTRY)
    record = msgspec.structs.replace(begun, phase=Phase.GRANTED, other=Mapping.AWS_AUTH)
    await admin.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **document(record, HUB_NAMESPACE)})
    await put_in(admin, mapped(record))
    before = await fleet.revision()
    entry = f"entry for {PAIR.hub_role_arn} of cluster c0 in aws-auth"
    assert f"{entry} would be removed" in await fleet.ok("aws", "cleanup", "--dry-run")
    assert await fleet.revision() == before
    assert f"{entry} is removed" in await fleet.ok("aws", "cleanup")
    assert PAIR.hub_role_arn not in await site.entries()
    assert recorded(await admin.get(CONFIG_MAPS, PAIR.hub_role, HUB_NAMESPACE)) == msgspec.structs.replace(record, other=None)
    assert "nothing is left on AWS" in await fleet.ok("aws", "cleanup")
    await admin.patch(CONFIG_MAPS, "aws-auth", {"data": {"mapRoles": "- ["}}, "kube-system")
    await admin.patch(CONFIG_MAPS, PAIR.hub_role, {"data": document(record, HUB_NAMESPACE)["data"]}, HUB_NAMESPACE)
    assert "aws-auth: mapRoles is not YAML" in await fleet.fails("aws", "cleanup")


async def test_what_a_hub_that_is_gone_has_left_is_cleaned_up(site: Site) -> None:
    fleet = site.fleet
    await fleet.cluster("c0", metadata={"annotations": dict(marked(PAIR))})
    await fleet.ok("accept", "--clusters", "c0")
    said = await fleet.ok("aws", "cleanup", "--hub-cluster-arn", HUB_ARN, context=FRESH)
    assert f"role {PAIR.hub_role_arn} of cluster c0 is removed" in said
    assert PAIR.hub_role not in await site.roles()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("aws pre", ["prerequisites"]),
        ("aws prerequisites hub --aws-m", ["--aws-mapping"]),
        ("aws prerequisites hub --aws-mapping a", ["auto", "aws-auth", "access-entry"]),
        ("aws prerequisites managed --mode S", ["Singleton", "SingletonHosted"]),
        ("init --aws-i", ["--aws-identity"]),
        ("init --aws-identity ad", ["administrator"]),
        ("join --eks-", ["--eks-hub-cluster-arn", "--eks-managed-cluster-arn"]),
    ],
)
def test_options_are_completed(words: str, completed: list[str]) -> None:
    line = f"clusteradm {words}"
    told = {"_CLUSTERADM_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run([PROGRAM], env={**os.environ, **told}, capture_output=True, text=True, check=False)
    assert [one.removeprefix("plain,") for one in done.stdout.split()] == completed
