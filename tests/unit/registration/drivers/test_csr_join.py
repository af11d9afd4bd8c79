"""Both sides of the csr driver on a real (embedded) hub: asking, approving, issuing, renewing, and who is left waiting."""

from typing import Any

import pytest

from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.kube.certificates import KeyPair
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AgentIdentity
from muster.runtime.client.builtin import SIGNING_REQUESTS
from tests.unit.registration.drivers.conftest import BOOTSTRAP, Agent, client_of, hub_driver, until

TRUSTED = {"auto-approved-csr-users": (BOOTSTRAP,)}


@pytest.fixture
def bootstrap(server: ApiServer) -> InProcessClient:
    return client_of(server, BOOTSTRAP)


async def approve(admin: InProcessClient, name: str) -> None:
    csr = await admin.get(SIGNING_REQUESTS, name)
    csr.setdefault("status", {})["conditions"] = [{"type": "Approved", "status": "True", "reason": "ByHand", "message": "yes"}]
    await admin.update(SIGNING_REQUESTS, csr, subresource="approval")


async def requests_of(admin: InProcessClient) -> list[dict[str, Any]]:
    return (await admin.list(SIGNING_REQUESTS)).items


async def joined(agent: Agent, hub: InProcessClient) -> bool:
    await agent.settle(hub)
    return not agent.driver.problem(agent.stored)


async def test_an_agent_gets_its_certificate_when_an_administrator_approves(
    admin: InProcessClient, bootstrap: InProcessClient
) -> None:
    agent = Agent(AgentIdentity("cluster1", "abcde"))
    progress = await agent.settle(bootstrap)
    assert agent.driver.problem(agent.stored) == "there is no client certificate"
    [csr] = await requests_of(admin)
    assert csr["metadata"]["name"].startswith("cluster1-")
    assert progress.watch is not None
    assert progress.watch.name == csr["metadata"]["name"] == agent.pending["name"].decode()

    await approve(admin, csr["metadata"]["name"])
    await until(lambda: joined(agent, bootstrap))

    assert sorted(agent.stored) == ["tls.crt", "tls.key"]
    assert KeyPair(agent.stored["tls.crt"], agent.stored["tls.key"]).matches()
    assert len(await requests_of(admin)) == 1


async def test_a_trusted_identity_is_approved_and_vouches_for_its_cluster(
    admin: InProcessClient, bootstrap: InProcessClient
) -> None:
    agent = Agent(AgentIdentity("cluster1", "abcde"))
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    await bootstrap.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "cluster1"}})
    async with hub_driver(admin, TRUSTED) as hub:
        await until(lambda: joined(agent, bootstrap))
        assert hub.reconsidered
        assert set(hub.reconsidered) == {"cluster1"}
