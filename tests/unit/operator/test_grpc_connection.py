"""HubConnectionDegraded of agents that reach their hub over gRPC: the gRPC server is asked, with what is in their Secrets alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from muster.api import Condition
from muster.api.operator.v1 import Klusterlet
from muster.operator.klusterlet.connection import ConnectionCheck
from muster.operator.klusterlet.plan import KlusterletPlan
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import BOOTSTRAP_SECRET, HUB_SECRET
from tests.unit.registration.drivers.conftest import until
from tests.unit.registration.drivers.grpc_site import Site, grpc_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with grpc_site(tmp_path) as made:
        yield made


async def check(secrets: Mapping[str, Mapping[str, bytes]], name: str = "c1") -> Condition:
    configured = {"registrationDriver": {"authType": "grpc"}}
    document = {"metadata": {"name": "k"}, "spec": {"clusterName": name, "registrationConfiguration": configured}}
    return await ConnectionCheck(KlusterletPlan(Klusterlet.decode(document), ""), secrets.get).run()


def hub_secret(site: Site) -> dict[str, bytes]:
    """As the agent keeps it, with names of files as others find them."""
    held = {path.name: path.read_bytes() for path in (site.directory / "hub").iterdir()}
    return {**held, "config.yaml": held["config.yaml"].replace(str(site.directory / "hub").encode(), b"/spoke/hub-kubeconfig")}


async def test_it_tells_the_truth_from_no_secret_to_a_denied_cluster(site: Site) -> None:
    async with site.running():
        given = {BOOTSTRAP_SECRET: {"config.yaml": site.bootstrap.read_bytes()}}
        found = await check(given)
        assert (found.status, found.reason) == ("True", "BootstrapSecretFunctional,HubKubeConfigSecretMissing")
        async with site.agent():
            await until(site.available)
        held = {**given, HUB_SECRET: hub_secret(site)}
        found = await check(held, name="")
        assert (found.status, found.reason) == ("False", "HubConnectionFunctional"), found.message
        await site.admin.patch(MANAGED_CLUSTERS, "c1", {"spec": {"hubAcceptsClient": False}})

        async def denied() -> bool:
            said = await check(held)
            return said.reason == "BootstrapSecretFunctional,HubKubeConfigUnauthorized" and "leases" in said.message

        await until(denied)


async def test_what_is_wrong_is_said_by_secret(site: Site) -> None:
    async with site.running():
        config = site.bootstrap.read_bytes()
        foreign = config.replace(b"token: ", b"ignored: ") + b"clientCertFile: /etc/passwd\nclientKeyFile: /etc/passwd\n"
        for content, problem in (
            (config.replace(site.token.encode(), b"nobodys-token"), "valid client certificate or bearer token"),
            (b"url: ''", "url: not set"),
            (foreign, "must be in the Secret itself, not in another file"),
        ):
            found = await check({BOOTSTRAP_SECRET: {"config.yaml": content}})
            assert found.reason == "BootstrapSecretError,HubKubeConfigSecretMissing"
            assert problem in found.message
        found = await check({BOOTSTRAP_SECRET: {"config.yaml": config}}, name="")
        assert "this one has no name yet" in found.message
