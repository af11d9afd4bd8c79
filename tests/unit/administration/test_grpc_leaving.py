"""A cluster that leaves says so over gRPC, with what its agents hold and no way to the hub's API server (decision 0007)."""

from __future__ import annotations

from pathlib import Path

from muster.administration.members import unjoin
from muster.administration.members.hub_trust import connect_by_http
from muster.administration.members.unjoin import UnjoinOptions
from muster.administration.progress import SILENT
from muster.machinery.clock import SYSTEM
from muster.operator.klusterlet.connection import open_secret
from muster.registration.drivers import find
from muster.registration.kinds import MANAGED_CLUSTERS
from tests.unit.operator.test_grpc_connection import hub_secret
from tests.unit.registration.drivers.conftest import until
from tests.unit.registration.drivers.grpc_site import grpc_site


async def test_its_acceptance_is_taken_back(tmp_path: Path) -> None:
    async with grpc_site(tmp_path) as site, site.running():
        async with site.agent():
            await until(site.available)
        async with open_secret(find("grpc").endpoints, hub_secret(site), "Secret a/b", "c1") as hub:
            run = unjoin._Leave(hub, UnjoinOptions(cluster_name="c1"), SILENT, SYSTEM, connect_by_http, open_secret)
            assert not await unjoin._leave_hub(run, hub, "delete it by hand"), "deleting it is not the agents' right"
        found = await site.admin.get(MANAGED_CLUSTERS, "c1")
        assert not found["spec"].get("hubAcceptsClient")
        assert run.left == ["ManagedCluster c1 stays on the hub, denied; delete it by hand"]
