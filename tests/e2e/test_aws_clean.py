"""A hub that goes takes back what its clusters have on AWS first; what it cannot take back is named, and can be found later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.registration.kinds import MANAGED_CLUSTERS
from tests.support.aws_site import HUB, HUB_ACCOUNT, MANAGED_ACCOUNT, AwsSite, arn, open_aws_site, pair
from tests.support.sites import beside_kube

pytestmark = [beside_kube, pytest.mark.timeout(300)]
CREATOR = "hub-0_managed-cluster-identity-creator"


async def registered(site: AwsSite, cluster: str) -> None:
    """From nothing, on a hub that makes roles by itself."""
    hub, managed = await site.aws.administrator(HUB_ACCOUNT), await site.aws.administrator(MANAGED_ACCOUNT)
    here = ("--hub-cluster-arn", str(arn(HUB)))
    await site.ok(HUB, "aws", "prerequisites", "hub", *here, "--oidc-provider", site.hub.issuer, "--apply", identity=hub)
    await site.ok(HUB, "init", "--registration-drivers", "awsirsa", *here, "--aws-identity=hub", "--wait")
    both = (*here, "--managed-cluster-arn", str(arn(cluster)))
    issuer = ("--oidc-provider", site.grounds[cluster].issuer)
    await site.ok(cluster, "aws", "prerequisites", "managed", *both, *issuer, "--apply", identity=managed)
    told = json.loads(await site.ok(HUB, "get", "token", "-o", "json"))
    words = [word for key, value in told.items() for word in (f"--{key}", value)]
    await site.ok(cluster, "join", *words, "--cluster-name", cluster, "--registration-auth=aws-irsa", *both, "--wait")
    await site.ok(HUB, "accept", "--clusters", cluster, "--wait")


async def test_what_the_hub_may_take_back_it_does_and_the_rest_is_named(tmp_path: Path) -> None:
    async with open_aws_site(tmp_path, "managed-0") as site:
        await registered(site, "managed-0")
        role = pair("managed-0").hub_role
        assert role in await site.roles()
        said = await site.ok(HUB, "clean", "--force")
        assert "aws cleanup" not in said
        assert await site.roles() == {CREATOR}

        # Again, and now the hub's role is gone before the hub is.
        await site.ok("managed-0", "unjoin", "--cluster-name", "managed-0", "--force")
        await registered(site, "managed-0")
        admin = await site.admin()
        await admin.iam("delete_role_policy", RoleName=CREATOR, PolicyName="open-cluster-management")
        await admin.iam("delete_role", RoleName=CREATOR)
        said = await site.ok(HUB, "clean", "--force")
        command = f"aws cleanup --hub-cluster-arn {arn(HUB)}"
        assert f"left: role {pair('managed-0').hub_role_arn} of cluster managed-0: run {command}" in said
        assert await site.roles() == {role}
        assert not await site.hub.seen.find(MANAGED_CLUSTERS, "managed-0")
        await site.ok(HUB, *command.split(), identity=await site.aws.administrator(HUB_ACCOUNT))
        assert await site.roles() == set()
