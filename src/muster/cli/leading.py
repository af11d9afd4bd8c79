"""Controllers of which one replica works: run when, and as long as, this one leads.

In a pod a leader is known by the pod's name, not by chance: whoever comes back under it after a crash is the only one who can, and
goes on at once instead of waiting for its own lease to run out.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Protocol

from muster.cli.process import ProcessEnv
from muster.machinery.confinement import host_name

if TYPE_CHECKING:
    from muster.runtime.client.base import KubeClient

LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS = 60, 40, 10


class Controllers(Protocol):
    @property
    def ready(self) -> bool:
        """Whether the caches are complete."""

    async def run(self) -> None: ...


class Leading:
    """Of `controllers`; without a lease's name they just run."""

    def __init__(self, client: KubeClient, controllers: Controllers, here: ProcessEnv, lease: str, namespace: str) -> None:
        self._client = client
        self._controllers = controllers
        self._lease = lease
        self._namespace = namespace
        self.identity = here.environ.get("POD_NAME") or f"{host_name()}_{uuid.uuid4()}"
        self._begun = False

    @property
    def begun(self) -> bool:
        """Whether the controllers run."""
        return self._begun

    async def run(self) -> None:
        from muster.runtime.controller.leader_election import LeaderElector

        if not self._lease:
            await self._lead()
            return
        elector = LeaderElector(
            self._client,
            self._lease,
            self._namespace,
            self.identity,
            lease_duration=LEASE_SECONDS,
            renew_deadline=RENEW_SECONDS,
            retry_period=RETRY_SECONDS,
        )
        await elector.run(self._lead)

    async def _lead(self) -> None:
        self._begun = True
        await self._controllers.run()

    def problem(self) -> str | None:
        """One that stands by is well; one that leads has to know what there is."""
        return "the caches are not complete" if self._begun and not self._controllers.ready else None
