"""An agent whose identity is AWS': it waits to be accepted, writes down how it will go to the hub, and never loses that again.

The hub knows the role of a kubeconfig's program once it is mapped, as EKS would; what signs tokens is not played here.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from muster.kube import yaml
from muster.machinery.authentication import UserInfo
from muster.registration.agent.agent import Agent
from muster.registration.drivers.awsirsa.driver import AwsIrsaDriver
from muster.registration.drivers.endpoints import HubEndpoint
from muster.registration.drivers.interfaces import HubContext, HubDriver
from muster.registration.drivers.kubeconfigs import KubeconfigEndpoint
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import EVENTS, SECRETS
from muster.runtime.client.errors import Unauthorized
from tests.support.agents import agent_running
from tests.unit.registration.agent.conftest import Fleet, Link, until

HUB_ARN = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
ARN = "arn:aws:eks:us-west-2:222222222222:cluster/managed-0"
SUFFIX = "a21fefa5047b57e2e7876e799a5595de"
ROLE = f"arn:aws:iam::111111111111:role/ocm-hub-{SUFFIX}"
MARKS = {
    "eks-managed-cluster-arn": ARN,
    "agent.open-cluster-management.io/managed-cluster-arn": ARN,
    "agent.open-cluster-management.io/managed-cluster-iam-role-suffix": SUFFIX,
}
OPTIONS = {"hub-cluster-arn": (HUB_ARN,), "managed-cluster-arn": (ARN,), "managed-cluster-role-suffix": (SUFFIX,)}


class Driver(AwsIrsaDriver):
    def hub(self, context: HubContext) -> HubDriver:
        raise AssertionError("agents have no use for it")


class MappedLink(Link):
    """Lets in whom the hub has mapped, as it has at that moment."""

    def __init__(self, site: Site, role: str) -> None:
        groups = ("system:open-cluster-management:c1", "system:authenticated")
        super().__init__(site.fleet.hub, UserInfo("open-cluster-management:c1", groups=groups))
        self._site = site
        self._role = role

    def _check(self) -> None:
        self._site.tried += 1
        if self._role not in self._site.mapped:
            raise Unauthorized(401, "Unauthorized", "Unauthorized")

    async def exchange(self, *given: Any, **more: Any) -> bytes:
        self._check()
        return await super().exchange(*given, **more)

    async def lines(self, *given: Any) -> AsyncGenerator[bytes, None]:
        self._check()
        async for line in super().lines(*given):
            yield line


class Site:
    """The fleet with a hub that knows AWS roles."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.hub = fleet.hub
        self.mapped: set[str] = set()
        self.tried = 0

    def connect(self, endpoint: HubEndpoint) -> Link:
        assert isinstance(endpoint, KubeconfigEndpoint)
        user = yaml.load(endpoint.file.read_bytes())["users"][0]["user"]
        return MappedLink(self, user["exec"]["args"][-1]) if "exec" in user else self.fleet.connect(endpoint)

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Agent]:
        chosen = replace(self.fleet.options, **{"driver_options": OPTIONS, **options})
        client = Link(self.fleet.spoke, self.fleet.account)
        clock, random = self.fleet.clock, self.fleet.random
        made = Agent(client, chosen, clock=clock, random=random, connect=self.connect, driver=Driver())
        async with agent_running(made) as agent:
            yield agent

    async def accept(self) -> None:
        await self.hub.accept()
        self.mapped.add(ROLE)

    async def join(self) -> None:
        await until(self.hub.cluster, "the ManagedCluster")
        await self.accept()
        await until(self.hub.available, "the cluster being available")

    async def version(self) -> str:
        secret = await self.fleet.admin.get(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE)
        return str(secret["metadata"]["resourceVersion"])

    async def user(self) -> dict[str, Any]:
        return yaml.load((await self.fleet.stored())["kubeconfig"])["users"][0]["user"]

    async def events(self) -> dict[str, str]:
        found = (await self.fleet.admin.list(EVENTS, AGENT_NAMESPACE)).items
        return {one["reason"]: one["note"] for one in found}


@pytest.fixture
def site(fleet: Fleet) -> Site:
    return Site(fleet)


async def test_a_cluster_registers_without_any_request_and_its_secret_says_how(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        cluster = await until(site.hub.cluster, "the ManagedCluster")
        assert cluster["metadata"]["annotations"].items() >= MARKS.items()
        await site.hub.set_condition("HubAcceptedManagedCluster", "False", "Error")
        await site.fleet.advance(130)
        assert await site.fleet.stored() == {}
        await site.join()
    assert not await site.hub.requests_made()
    stored = await site.fleet.stored()
    assert (stored["cluster-name"], set(stored)) == (b"c1", {"cluster-name", "agent-name", "kubeconfig"})
    given = yaml.load(stored["kubeconfig"])
    assert given["clusters"] == [
        {"name": "hub", "cluster": {"server": site.hub.url, "certificate-authority-data": _encoded(b"ca of the hub\n")}}
    ]
    words = "aws-token --region us-west-2 --cluster-name hub-0 --output json --role-arn"
    assert (await site.user())["exec"] == {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "muster",
        "args": [*words.split(), ROLE],
    }
    assert "EKSRegistrationRequestApproved" in await site.events()


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def test_a_restart_writes_nothing_and_asks_for_nothing(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        await site.join()
    version = await site.version()
    site.hub.requests.clear()
    async with site.running() as agent:
        await until(lambda: agent.ready, "serving")
        await until(lambda: site.hub.count("PUT", "/leases/"), "a renewed lease")
    assert await site.version() == version
    assert site.hub.count("POST", "/managedclusters") == 0


async def test_a_role_or_mapping_that_is_not_there_yet_is_waited_for(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running() as agent:
        await until(site.hub.cluster, "the ManagedCluster")
        await site.hub.accept()
        await until(lambda: agent.state.phase == "serving", "serving")
        version = await site.version()
        await site.fleet.advance(300)
        assert agent.state.phase == "serving"
        site.mapped.add(ROLE)
        await site.fleet.advance(70)
        await until(site.hub.available, "the cluster being available")
        assert await site.version() == version


async def test_a_hub_that_refuses_for_long_takes_nothing_from_the_agent(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running() as agent:
        await site.join()
        version = await site.version()
        before = await site.hub.renewed()
        site.mapped.clear()
        tried = site.tried
        await site.fleet.advance(900)
        assert site.tried > tried + 10
        assert agent.state.phase == "serving"
        assert await site.version() == version
        site.mapped.add(ROLE)
        await site.fleet.advance(130)
        await until(lambda: _renewed_since(site, before), "a renewed lease")
        assert await site.version() == version
        assert agent.unhealthy() is None


async def _renewed_since(site: Site, before: str) -> bool:
    return await site.hub.renewed() > before


async def test_another_cluster_of_the_name_on_the_hub_does_not_end_serving(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running() as agent:
        await site.join()
        version = await site.version()
        await site.hub.replace_cluster("somebody-else")
        await site.fleet.advance(120)
        assert agent.state.phase == "serving"
        assert await site.version() == version


async def test_what_another_agent_wrote_for_the_same_role_is_written_anew(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        await site.join()
    theirs = "--region us-west-2 eks get-token --cluster-name hub-0 --output json --role"
    document = yaml.load((await site.fleet.stored())["kubeconfig"])
    ours = document["users"][0]["user"]["exec"]
    document["users"][0]["user"]["exec"] = {**ours, "command": "/awscli/dist/aws", "args": [*theirs.split(), ROLE]}
    data = {"kubeconfig": _encoded(yaml.dump(document).encode()), "others": _encoded(b"kept")}
    await site.fleet.admin.patch(SECRETS, "hub-kubeconfig-secret", {"data": data}, AGENT_NAMESPACE)
    site.hub.requests.clear()
    async with site.running():
        await until(lambda: site.hub.count("PUT", "/leases/"), "a renewed lease")
    assert (await site.user())["exec"] == ours
    assert (await site.fleet.stored())["others"] == b"kept"
    assert site.hub.count("POST", "/managedclusters") == 0


async def test_the_program_of_aws_by_option_is_written_as_aws_itself_would(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        await site.join()
    async with site.running(driver_options={**OPTIONS, "token-command": ("/awscli/dist/aws",)}) as agent:
        await until(lambda: agent.ready, "serving")
        words = "--region us-west-2 eks get-token --cluster-name hub-0 --output json --role"
        found = (await site.user())["exec"]
    assert (found["command"], found["args"]) == ("/awscli/dist/aws", [*words.split(), ROLE])


async def test_another_hub_by_the_same_kubeconfig_is_registered_with(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        await site.join()
    other = {**OPTIONS, "hub-cluster-arn": (HUB_ARN.replace("hub-0", "hub-1"),), "managed-cluster-role-suffix": ()}
    await site.fleet.advance(1)
    async with site.running(driver_options=other):
        await until(lambda: _says(site, "ManagedClusterArnDiffers"), "what is in the way")
        assert ROLE in (await site.fleet.stored())["kubeconfig"].decode()


async def _says(site: Site, reason: str) -> str:
    return (await site.events()).get(reason, "")


async def test_an_agent_whose_bootstrap_token_died_before_acceptance_gets_in_by_itself(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        await until(site.hub.cluster, "the ManagedCluster")
    await site.fleet.give(site.hub.kubeconfig(token="expired"))
    async with site.running() as agent:
        await until(lambda: "expired or was revoked" in agent.state.problem, "a clear problem")
        await site.fleet.advance(600)
        assert site.tried < 25
        assert await site.fleet.stored() == {}
        await site.accept()
        await site.fleet.advance(65)
        await until(site.hub.available, "the cluster being available")
    assert await site.fleet.stored("hub-kubeconfig-secret-pending") == {}


async def test_a_bootstrap_token_that_dies_while_the_agent_waits_is_noticed(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running() as agent:
        await until(site.hub.cluster, "the ManagedCluster")
        await until(lambda: site.hub.count("GET", "/managedclusters/c1"), "a look at it")
        site.hub.refusing = True
        await site.fleet.advance(150)
        await until(lambda: "expired or was revoked" in agent.state.problem, "a clear problem")
        site.hub.refusing = False


@pytest.mark.parametrize("accepted", [False, True])
async def test_a_cluster_made_beforehand_or_by_other_means_waits_for_its_arn(site: Site, accepted: bool) -> None:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    await site.hub.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "c1"}})
    if accepted:
        await site.hub.accept()
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        said = await until(lambda: _says(site, "ManagedClusterArnMissing"), "what is in the way")
        assert f"clusteradm accept --clusters c1 --managed-cluster-arn {ARN}" in said
        await site.fleet.advance(200)
        assert await site.fleet.stored() == {}
        patch = {"metadata": {"annotations": {"eks-managed-cluster-arn": ARN}}}
        await site.hub.admin.patch(MANAGED_CLUSTERS, "c1", patch)
        await site.join()
        cluster = await until(lambda: _marked(site), "all marks")
    assert cluster["metadata"]["annotations"].items() >= MARKS.items()


async def _marked(site: Site) -> Any:
    cluster = await site.hub.cluster() or {}
    return cluster if len(MARKS.keys() & cluster["metadata"]["annotations"].keys()) == 3 else None


async def test_another_clusters_managed_cluster_is_left_alone(site: Site) -> None:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    foreign = {"agent.open-cluster-management.io/managed-cluster-arn": ARN.replace("managed-0", "managed-9")}
    await site.hub.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "c1", "annotations": foreign}})
    await site.hub.accept()
    await site.fleet.give(site.hub.kubeconfig())
    async with site.running():
        said = await until(lambda: _says(site, "ManagedClusterArnDiffers"), "what is in the way")
        assert "managed-9" in said
    assert await site.fleet.stored() == {}


async def test_an_agent_that_changes_from_certificates_keeps_them_until_it_is_let_in(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.fleet.running():
        await site.fleet.join()
    certificate = (await site.fleet.stored())["tls.crt"]
    await site.fleet.advance(1)
    async with site.running():
        await until(lambda: _says(site, "ManagedClusterArnMissing"), "what is in the way")
        assert (await site.fleet.stored())["tls.crt"] == certificate
        patch = {"metadata": {"annotations": {"eks-managed-cluster-arn": ARN}}}
        await site.hub.admin.patch(MANAGED_CLUSTERS, "c1", patch)
        site.mapped.add(ROLE)
        await until(lambda: _by_role(site), "the new way")
        await until(lambda: _marked(site), "all marks")


async def test_an_agent_that_changes_back_to_certificates_asks_for_one_and_goes_by_it(site: Site) -> None:
    await site.fleet.give(site.hub.kubeconfig())
    async with site.fleet.running():
        await site.fleet.join()
    await site.hub.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"annotations": {"eks-managed-cluster-arn": ARN}}})
    await site.fleet.advance(1)
    async with site.running():
        await until(lambda: _by_role(site), "the way by the role")
    await site.fleet.advance(1)
    site.hub.requests.clear()
    async with site.fleet.running():
        await until(lambda: _asked_again(site), "another request for a certificate")
        await site.hub.approve()
        await until(lambda: _by_certificate(site), "the way by the certificate")
        await until(lambda: site.hub.count("PUT", "/leases/"), "a renewed lease")


async def _asked_again(site: Site) -> bool:
    return len(await site.hub.requests_made()) == 2


async def _by_certificate(site: Site) -> bool:
    return await site.user() == {"client-certificate": "tls.crt", "client-key": "tls.key"}


async def _by_role(site: Site) -> bool:
    return "exec" in await site.user()
