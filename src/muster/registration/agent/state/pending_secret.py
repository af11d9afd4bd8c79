"""The Secret of an agent's pending registrations: its names, and for each hub the data of its driver.

It is separate from the Secret of the credential, which is complete or missing. The driver's data for a hub (for certificates: the
new private key and the name of its request) is stored under the fingerprint of that hub's address, so an agent that tries several
hubs in turn continues on each. Data of hubs that are no longer configured is dropped. When nothing is pending and there is a
credential, which has the names too, this Secret is deleted.

Only the agent writes it, so it is not watched: it is read at the start, and again after a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.registration.agent.state.kept_secret import Changes, Data, KeptSecret
from muster.registration.drivers.endpoints import HubAddress


class PendingSecret(KeptSecret):
    def begun(self, hub: HubAddress) -> dict[str, bytes]:
        """What was noted for a hub."""
        return _part(self.data, f"{hub.fingerprint}.")

    async def begin(self, names: Data, known: Iterable[HubAddress]) -> None:
        """Keep the names, and what was begun on these hubs."""
        await self.store({**self._of_others(known), **names})

    async def note(self, hub: HubAddress, changes: Changes, names: Data) -> None:
        """What a driver has to remember for a hub, and who the agent is that does."""
        await self.store({**{f"{hub.fingerprint}.{key}": value for key, value in changes.items()}, **names})

    async def move(self, before: HubAddress, after: HubAddress) -> None:
        """What was begun on a hub goes on at its new address."""
        begun = self.begun(before)
        dropped: dict[str, bytes | None] = {f"{before.fingerprint}.{key}": None for key in begun}
        await self.store({**dropped, **{f"{after.fingerprint}.{key}": value for key, value in begun.items()}})

    async def close(self, hub: HubAddress, known: Iterable[HubAddress]) -> None:
        """A credential for this hub is stored: nothing is pending there. What is begun on other known hubs stays."""
        changes = self._of_others(one for one in known if one != hub)
        if _parts(self.data).keys() <= changes.keys():
            await self.remove()
        else:
            await self.store(changes)

    def _of_others(self, known: Iterable[HubAddress]) -> dict[str, bytes | None]:
        kept = tuple(f"{hub.fingerprint}." for hub in known)
        return {key: None for key in _parts(self.data) if not key.startswith(kept)}


def entries(data: Data, key: str) -> list[bytes]:
    """What is noted under this key, of whichever hubs."""
    return [value for name, value in sorted(data.items()) if name.partition(".")[2] == key]


def _parts(data: Data) -> Mapping[str, bytes]:
    """All but the names."""
    return {key: value for key, value in data.items() if "." in key}


def _part(data: Data, prefix: str) -> dict[str, bytes]:
    return {key.removeprefix(prefix): value for key, value in data.items() if key.startswith(prefix)}
