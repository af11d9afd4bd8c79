"""A hub that does not serve every kind: the others are served, and this one as soon as it is there."""

from muster.machinery.objects import Object
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CRDS
from muster.transport.contract.rows import ADDONS_ALPHA, ADDONS_BETA, WORKS
from tests.support.fake_clock import FakeClock
from tests.unit.transport.services.conftest import Hub, service_of, until

NAME = "managedclusteraddons.addon.open-cluster-management.io"


async def serve_beta(admin: KubeClient, served: bool) -> None:
    crd = await admin.get(CRDS, NAME)
    versions: list[Object] = [
        {**version, "served": served or version["name"] != "v1beta1", "storage": version["name"] == "v1alpha1"}
        for version in crd["spec"]["versions"]
    ]
    await admin.patch(CRDS, NAME, {"spec": {"versions": versions}})


async def test_a_kind_that_the_hub_does_not_serve_keeps_nobody_waiting_and_comes_when_it_is_served(hub: Hub) -> None:
    await serve_beta(hub.admin, False)
    await hub.create_cluster("c1")
    clock = FakeClock()
    async with hub.serving(clock=clock) as services:
        beta = service_of(services, ADDONS_BETA)
        assert (beta.served, beta.synced) == (False, False)
        for row in (WORKS, ADDONS_ALPHA):
            assert service_of(services, row).served
            assert service_of(services, row).synced
        await serve_beta(hub.admin, True)
        addon = await hub.create(ADDONS_BETA, {"name": "a", "namespace": "c1"}, spec={})
        await clock.advance(60)
        await until(lambda: beta.synced)
        assert (beta.served, beta.synced) == (True, True)
        assert [event.text("resourceid") for event in beta.list("c1")] == [addon["metadata"]["uid"]]
