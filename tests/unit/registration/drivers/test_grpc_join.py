"""Both sides of the gRPC driver with all that is between them: a hub's controllers, its gRPC server over TLS, and whole agents.

What stands for the managed cluster reaches the hub by the gRPC server's port alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from muster.registration.agent.failover import objection
from muster.registration.drivers import find
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE, BOOTSTRAP_ROLE, DRIVER_ANNOTATION, cluster_role
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SIGNING_REQUESTS
from muster.runtime.client.errors import Forbidden, KubeError, NotFound
from muster.runtime.install import binding, rule
from tests.unit.registration.drivers.conftest import until
from tests.unit.registration.drivers.grpc_hub import approve
from tests.unit.registration.drivers.grpc_site import Site, grpc_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with grpc_site(tmp_path) as made:
        yield made


def holding(probe: Callable[[], Any]) -> Callable[[], Awaitable[Any]]:
    async def asked() -> Any:
        return probe()

    return asked


async def test_a_cluster_joins_by_list_and_its_agent_alone_gets_rights(site: Site) -> None:
    async with site.running(), site.agent() as agent:
        await until(site.available)
        assert agent.state.phase == "serving"
        found = await site.admin.get(MANAGED_CLUSTERS, "c1")
        assert found["metadata"]["annotations"][DRIVER_ANNOTATION] == "grpc"
        bound = await site.admin.get(CLUSTER_ROLE_BINDINGS, cluster_role("c1"))
        certificate = x509.load_pem_x509_certificate((site.directory / "hub" / "tls.crt").read_bytes())
        assert site.signer.authority.signed(certificate)
        [user] = [one["name"] for one in bound["subjects"] if one["kind"] == "User"]
        assert user in certificate.subject.rfc4514_string()
    held = {path.name: path.read_bytes() for path in (site.directory / "hub").iterdir()}
    assert set(held) == {"cluster-name", "agent-name", "config.yaml", "tls.crt", "tls.key"}
    assert site.token.encode() not in b"".join(held.values())


async def test_an_administrator_approves_and_accepts_and_the_agent_is_in(site: Site) -> None:
    async with site.running(auto_approval=False), site.agent():
        [csr] = await until(lambda: requests(site))
        assert not (csr.get("status") or {}).get("conditions")
        await site.accept()
        await approve(site.admin, csr["metadata"]["name"])
        await until(site.available)
        assert len(await requests(site)) == 1


async def requests(site: Site) -> list[dict[str, Any]]:
    return (await site.admin.list(SIGNING_REQUESTS)).items


async def test_certificates_are_renewed_over_and_over_while_the_cluster_stays(site: Site) -> None:
    async with site.running(grpc_signing_duration="6s"), site.agent() as agent:
        await until(site.available)
        file, seen = site.directory / "hub" / "tls.crt", set()

        async def three() -> bool:
            seen.add(file.read_bytes())
            assert agent.state.phase == "serving"
            return len(seen) >= 3

        await until(three, 60)
        assert await site.available()


async def test_an_agent_and_a_hub_that_come_back_go_on_where_they_were(site: Site) -> None:
    async with site.running(), site.agent():
        await until(site.available)
    before = await requests(site)
    async with site.running(), site.agent() as agent:
        await until(holding(lambda: agent.state.phase == "serving"))
        await until(site.available)
    assert [one["metadata"]["uid"] for one in await requests(site)] == [one["metadata"]["uid"] for one in before]


async def test_whether_the_hub_lets_an_agent_in_is_asked_over_grpc(site: Site) -> None:
    driver = find("grpc")
    async with site.running(auto_approval=False):
        async with site.connected(site.bootstrap, "c1") as hub:
            assert await driver.missing_to_register(hub, "c1") == ()
            assert await objection(hub, "c1", "grpc") == ""
            missing = await driver.missing_to_serve(hub, "c1")
        assert "list and watch leases" in missing
        assert "list and watch manifestworks" in missing
        stranger = site.directory / "stranger.yaml"
        stranger.write_bytes(site.bootstrap.read_bytes().replace(site.token.encode(), b"nobodys-token"))
        async with site.connected(stranger, "c1") as hub:
            assert "valid client certificate or bearer token" in await objection(hub, "c1", "grpc")
        async with site.agent():
            [csr] = await until(lambda: requests(site))
            await site.accept()
            await approve(site.admin, csr["metadata"]["name"])
            await until(site.available)
        async with site.connected(site.directory / "hub" / "config.yaml") as hub:
            assert await driver.missing_to_serve(hub, "c1") == ()
        await site.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": False}})
        await until(lambda: denied_to_serve(site))
    async with site.connected(site.bootstrap, "c1") as hub:
        with pytest.raises(KubeError):
            await asyncio.wait_for(driver.missing_to_register(hub, "c1"), 20)


async def denied_to_serve(site: Site) -> bool:
    async with site.connected(site.directory / "hub" / "config.yaml") as hub:
        return "list and watch leases" in await find("grpc").missing_to_serve(hub, "c1")


async def test_what_an_agent_holds_leads_it_to_its_own_cluster_alone(site: Site) -> None:
    async with site.running(), site.agent():
        await until(site.available)
        await site.admin.create(
            MANAGED_CLUSTERS,
            {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, "metadata": {"name": "c2"}},
        )
        async with site.connected(site.directory / "hub" / "config.yaml", "c2") as hub:
            for question in (hub.get(MANAGED_CLUSTERS, "c2"), hub.list(SIGNING_REQUESTS)):
                with pytest.raises((Forbidden, NotFound)) as refused:
                    await question
                assert isinstance(refused.value, Forbidden)


async def test_a_cluster_with_the_longest_name_joins_too(site: Site) -> None:
    name = "c" * 63
    async with site.running(), site.agent(name):
        await until(lambda: site.available(name))


async def test_a_cluster_that_an_administrator_prepared_is_joined(site: Site) -> None:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    await site.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": True}})
    async with site.running(), site.agent():
        await until(site.available)
        found = await site.admin.get(MANAGED_CLUSTERS, "c1")
        assert found["metadata"]["annotations"][DRIVER_ANNOTATION] == "grpc"


async def test_a_token_for_one_name_introduces_no_other_cluster(site: Site) -> None:
    """Decision 0018: that is asked by the gRPC server, so a request that went past it proves nothing."""
    await site.admin.delete(CLUSTER_ROLE_BINDINGS, f"{BOOTSTRAP_ROLE}:agent-registration")
    rules = [
        rule("certificates.k8s.io", ["certificatesigningrequests"], ["create", "list", "watch"]),
        rule(MANAGED_CLUSTERS.group, ["managedclusters"], ["create", "list", "watch", "get"], ["c1"]),
    ]
    await site.admin.create(CLUSTER_ROLES, {"metadata": {"name": "one-name"}, "rules": rules})
    agent = {"kind": "ServiceAccount", "name": BOOTSTRAP_ACCOUNT, "namespace": BOOTSTRAP_NAMESPACE}
    await site.admin.create(CLUSTER_ROLE_BINDINGS, binding("one-name", "ClusterRole", "one-name", agent))
    async with site.running():
        async with site.connected(site.bootstrap, "c2") as hub:
            assert len(await find("grpc").missing_to_register(hub, "c2")) == 2
        async with site.agent("c1"):
            await until(site.available)
        with pytest.raises(NotFound):
            await site.admin.get(MANAGED_CLUSTERS, "c2")
