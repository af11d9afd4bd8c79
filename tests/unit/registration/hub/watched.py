"""A cluster as its agent would treat it, without an agent: joined, renewing, saying things about itself."""

from datetime import datetime

from muster.api.cluster.v1 import AVAILABLE
from muster.machinery.golang.timestamps import format_micro_time
from muster.machinery.objects import Object
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import LEASE
from muster.runtime.client.builtin import LEASES, NAMESPACES
from tests.unit.registration.hub.conftest import Play


class Watched:
    """A cluster that was accepted, with a lease of its own, and what its agent does."""

    def __init__(self, play: Play, name: str = "c1") -> None:
        self.play = play
        self.name = name

    async def join(self, status: str = "True") -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        await self.play.admin.create(NAMESPACES, namespace)
        await self.play.create_cluster(self.name, accepts=True)
        await self.report(HubAcceptedManagedCluster=status, **{AVAILABLE: "True"})

    async def report(self, **conditions: str) -> None:
        since = "2026-01-01T00:00:00Z"
        said = [
            {"type": kind, "status": status, "reason": "Said", "message": "", "lastTransitionTime": since}
            for kind, status in conditions.items()
        ]
        await self.play.admin.patch(MANAGED_CLUSTERS, self.name, {"status": {"conditions": said}}, subresource="status")

    async def lease(self) -> Object | None:
        return await self.play.get(LEASES, LEASE, self.name)

    async def renew(self, moment: datetime | None = None) -> None:
        spec = {"renewTime": format_micro_time(moment or self.play.clock.now())}
        await self.play.admin.patch(LEASES, LEASE, {"spec": spec}, self.name)

    async def available(self) -> str:
        return str((await self.play.condition(self.name, AVAILABLE)).get("status"))
