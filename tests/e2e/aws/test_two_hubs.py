"""One managed cluster on two hubs, by AWS identities: a Klusterlet, a namespace and a role for each; neither knows of the other.

With the first it joins by `clusteradm join`; for the second there is a Klusterlet of another name, which whoever manages a cluster
from two hubs makes by hand.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import yaml

from muster.api.cluster.v1 import ACCEPTED, AVAILABLE
from muster.operator.names import KLUSTERLETS
from muster.operator.pod_namespaces import MAY_DIAL
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from tests.e2e.aws.steps import AGENTS, accepted, applied_work, hub_token, initialized, joined, managed_role, mapped, until_revoked
from tests.support.aws_site import HUB, HUB_ACCOUNT, SECONDS, AwsSite, arn, open_aws_site, pair

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

CLUSTER, SECOND_HUB, SECOND = "managed-0", "hub-1", "second"
NAMESPACE = f"open-cluster-management-{SECOND}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AwsSite]:
    async with open_aws_site(tmp_path_factory.mktemp("aws-two-hubs"), SECOND_HUB, CLUSTER) as made:
        await initialized(made, SECOND_HUB)
        await accepted(made, CLUSTER)
        await join_second(made)
        yield made


async def join_second(site: AwsSite) -> None:
    await managed_role(site, CLUSTER, SECOND_HUB, "--klusterlet", SECOND, "--namespace", NAMESPACE)
    admin = site.grounds[CLUSTER].admin
    # A node of Muster's lets pods dial what their namespace says of this machine; `join` says it of the hub.
    dialled = {MAY_DIAL: urlsplit(site.grounds[SECOND_HUB].url).netloc}
    await admin.apply(NAMESPACES, {"metadata": {"name": NAMESPACE, "annotations": dialled}}, manager="test")
    secret = {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": NAMESPACE}}
    await admin.apply(SECRETS, {**secret, "stringData": {"kubeconfig": await bootstrap_kubeconfig(site)}}, manager="test")
    arns = {"hubClusterArn": str(arn(SECOND_HUB)), "managedClusterArn": str(arn(CLUSTER))}
    driver = {"registrationDriver": {"authType": "awsirsa", "awsIrsa": arns}}
    spec = {"clusterName": CLUSTER, "namespace": NAMESPACE, "registrationConfiguration": driver}
    await admin.apply(KLUSTERLETS, {"metadata": {"name": SECOND}, "spec": spec}, manager="test")
    await site.grounds[SECOND_HUB].seen.until_found(MANAGED_CLUSTERS, CLUSTER, seconds=SECONDS)
    words = ("accept", "--clusters", CLUSTER, "--wait")
    await site.ok(SECOND_HUB, *words, identity=await site.aws.administrator(HUB_ACCOUNT))


async def bootstrap_kubeconfig(site: AwsSite) -> str:
    ground, told = site.grounds[SECOND_HUB], await hub_token(site, SECOND_HUB)
    place = {"server": told["hub-apiserver"], "certificate-authority-data": base64.b64encode(ground.ca).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": place}],
        "users": [{"name": "bootstrap", "user": {"token": told["hub-token"]}}],
        "contexts": [{"name": "bootstrap", "context": {"cluster": "hub", "user": "bootstrap"}}],
        "current-context": "bootstrap",
    }
    return yaml.safe_dump(document)


async def kubeconfig(site: AwsSite, namespace: str) -> Any:
    found = await site.grounds[CLUSTER].admin.get(SECRETS, "hub-kubeconfig-secret", namespace)
    return yaml.safe_load(base64.b64decode(found["data"]["kubeconfig"]))


async def works(site: AwsSite, hub: str) -> None:
    """A work of this hub comes to the cluster and goes again."""
    await (await applied_work(site, CLUSTER, f"of-{hub}", hub)).until_gone_on_cluster()


async def test_both_hubs_have_the_cluster_each_by_a_role_of_its_own(site: AwsSite) -> None:
    first, second = pair(CLUSTER), pair(CLUSTER, SECOND_HUB)
    assert {first.hub_role, second.hub_role} <= await site.roles()
    for hub, own, namespace, klusterlet in ((HUB, first, AGENTS, "klusterlet"), (SECOND_HUB, second, NAMESPACE, SECOND)):
        await site.grounds[hub].seen.until_condition(MANAGED_CLUSTERS, CLUSTER, AVAILABLE, "True", "", SECONDS)
        assert set(await mapped(site, hub)) == {own.hub_role_arn}
        account = await site.grounds[CLUSTER].admin.get(SERVICE_ACCOUNTS, f"{klusterlet}-registration-sa", namespace)
        assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == own.managed_role_arn
        (user,) = (await kubeconfig(site, namespace))["users"]
        assert own.hub_role_arn in user["user"]["exec"]["args"]
        await works(site, hub)


async def test_one_hub_lets_it_go_and_the_other_does_not_notice(site: AwsSite) -> None:
    await joined(site, CLUSTER)
    second = site.grounds[SECOND_HUB]
    before = await kubeconfig(site, AGENTS)
    await second.admin.patch(MANAGED_CLUSTERS, CLUSTER, {"spec": {"hubAcceptsClient": False}})
    await until_revoked(site, CLUSTER, SECOND_HUB)
    await second.seen.until_condition(MANAGED_CLUSTERS, CLUSTER, ACCEPTED, "False", "HubClusterAdminDenied", SECONDS)
    assert pair(CLUSTER).hub_role in await site.roles()
    await works(site, HUB)
    assert await kubeconfig(site, AGENTS) == before
    await site.grounds[CLUSTER].admin.delete(KLUSTERLETS, SECOND)
    await site.grounds[CLUSTER].seen.until_gone(KLUSTERLETS, SECOND, seconds=SECONDS)
    await site.grounds[CLUSTER].seen.until_gone(NAMESPACES, NAMESPACE, seconds=SECONDS)
    await works(site, HUB)
