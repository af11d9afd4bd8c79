"""The Secret with the agent's credential for one hub, and the directory that mirrors it for this and other processes.

It has a complete credential (the names, the hub configuration, and the files it refers to), written at once, or it does not exist.
Pending data is in a Secret of its own (`pending_secret.py`). While a credential for *another* hub is requested, the one in use
stays complete; once the new one can be used, one write replaces it. So a hub that was configured by mistake, or that never accepts
the cluster, costs nothing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from muster.machinery.logs import get_logger
from muster.registration.agent.state.directory import mirror
from muster.registration.agent.state.kept_secret import Changes, Data, KeptSecret
from muster.registration.agent.state.pending_secret import PendingSecret
from muster.registration.drivers.endpoints import EndpointError, EndpointFormat, HubAddress, HubEndpoint
from muster.registration.drivers.kubeconfigs import KUBECONFIGS
from muster.registration.names import PENDING_SUFFIX, AgentIdentity
from muster.runtime.client import KubeClient

log = get_logger("muster.registration.agent")

CLUSTER_NAME: Final = "cluster-name"
AGENT_NAME: Final = "agent-name"


def names_of(identity: AgentIdentity) -> dict[str, bytes]:
    """The entries with the agent's names."""
    return {CLUSTER_NAME: identity.cluster.encode(), AGENT_NAME: identity.agent.encode()}


class HubSecret(KeptSecret):
    def __init__(self, client: KubeClient, namespace: str, name: str, directory: Path, endpoints: EndpointFormat) -> None:
        super().__init__(client, namespace, name)
        self._directory = directory
        self._format = endpoints
        self.pending = PendingSecret(client, namespace, name + PENDING_SUFFIX)
        self.endpoint: HubEndpoint | None = None
        """The way to the hub whose credential is stored."""
        self._mirroring = asyncio.Lock()
        self._stale = asyncio.Event()
        self._stale.set()

    @property
    def address(self) -> HubAddress | None:
        """The hub whose credential is stored."""
        return None if self.endpoint is None else self.endpoint.address

    @property
    def leads_to_api(self) -> bool:
        """Whether ways to hubs are to their API servers."""
        return self._format.key == KUBECONFIGS.key

    @property
    def has_endpoint(self) -> bool:
        """Whether there is a way to some hub in it, of use or not."""
        return self._format.key in self.data

    def stored(self, hub: HubAddress) -> Data:
        """The credential for this hub; empty when there is none."""
        return self.data if self.address == hub else {}

    def way_to(self, hub: HubAddress) -> dict[str, bytes]:
        """The entry that leads to this hub, where there is one."""
        return {self._format.key: self.data[self._format.key]} if self.address == hub else {}

    def is_of_another(self, identity: AgentIdentity) -> bool:
        """Whether the names in it are not these."""
        return any(self.data.get(key, value) != value for key, value in names_of(identity).items())

    def _changed(self, before: Data) -> None:
        if self.data.get(self._format.key) != before.get(self._format.key):
            self.endpoint = self._read_endpoint()
        self._stale.set()

    def _read_endpoint(self) -> HubEndpoint | None:
        content = self.data.get(self._format.key)
        if content is None:
            return None
        try:
            file = self._directory / self._format.key
            return self._format.read(file, content, f"Secret {self.namespace}/{self.name}", self.data)
        except EndpointError as error:
            log.warning("the stored hub configuration cannot be read", error=str(error))
            return None

    async def tried(self, candidate: Data, directory: Path) -> HubEndpoint:
        """The stored credential with another way, in a directory of its own. Raises EndpointError."""
        files = {**self.data, **candidate}
        await asyncio.to_thread(mirror, directory, files, self._format.key)
        return self._format.read(directory / self._format.key, files[self._format.key])

    async def replace(self, hub: HubAddress, credential: Data) -> None:
        """Make this the credential in use, in one write. What others keep beside a credential stays with one for the same hub."""
        dropped = {} if self.address == hub else dict.fromkeys(self.data)
        await self.store({**dropped, **credential})

    async def store(self, changes: Changes) -> None:
        """Also until the directory shows it. Raises OSError when it cannot be made to."""
        await super().store(changes)
        await self.mirrored()

    async def remove(self) -> None:
        await super().remove()
        await self.mirrored()

    async def mirrored(self) -> None:
        """Until the directory shows what the Secret holds."""
        async with self._mirroring:
            if self._stale.is_set():
                self._stale.clear()
                try:
                    await asyncio.to_thread(mirror, self._directory, self.data, self._format.key)
                except OSError:
                    self._stale.set()
                    raise

    async def run(self) -> None:
        """Keep the directory in step with changes that others make."""
        while True:
            await self._stale.wait()
            try:
                await self.mirrored()
            except OSError as error:
                log.error("cannot write the hub configuration", directory=str(self._directory), error=error.strerror)
                await asyncio.sleep(10)
