"""The Secret that is the agent's whole memory, and the directory that mirrors it for this and other processes.

The Secret holds the names, the credential for one hub with its kubeconfig, and what a driver has begun (`pending.…`). While a
credential for *another* hub is being got, everything of that attempt is kept under the prefix `next.`, and the credential in use
stays whole; once the new one can be used, one write puts it in the other's place. So a hub that was named by mistake, or that
never lets us in, costs nothing.

Every write carries the version that it was decided on: of two agents that overlap, one is told `Conflict` and looks again.
The directory is for its owner alone; files are replaced in one step, the kubeconfig last, and what the Secret no longer has is
removed. Unfinished business is not mirrored.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from muster.machinery.confinement import own
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.machinery.privatefiles import replace_private
from muster.registration.agent.memory.hub_kubeconfig import HubAddress, address_of
from muster.registration.names import AgentIdentity
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SECRETS
from muster.runtime.client.errors import AlreadyExists, Conflict, NotFound
from muster.runtime.client.kubeconfig import KubeconfigError

log = get_logger("muster.registration.agent")

CLUSTER_NAME: Final = "cluster-name"
AGENT_NAME: Final = "agent-name"
KUBECONFIG: Final = "kubeconfig"
PENDING: Final = "pending."
PENDING_HUB: Final = "pending.hub"
"""The fingerprint of the hub for which something is pending, where no kubeconfig says it yet."""
NEXT: Final = "next."

Data = Mapping[str, bytes]
Changes = Mapping[str, bytes | None]


def part_of(data: Data, prefix: str) -> dict[str, bytes]:
    """What is stored for the hub in use (no prefix), or for the next one."""
    if prefix:
        return {key.removeprefix(prefix): value for key, value in data.items() if key.startswith(prefix)}
    return {key: value for key, value in data.items() if not key.startswith(NEXT)}


def opened(
    data: Data, stored: HubAddress | None, wanted: HubAddress, identity: AgentIdentity
) -> tuple[str, dict[str, bytes | None]]:
    """Under which prefix a credential for this hub is to be got, and what has to be changed before that begins."""
    names: dict[str, bytes | None] = {CLUSTER_NAME: identity.cluster.encode(), AGENT_NAME: identity.agent.encode()}
    mark = wanted.fingerprint.encode()
    other_names = any(data.get(key, value) != value for key, value in names.items())
    if other_names or (KUBECONFIG not in data and data.get(PENDING_HUB) != mark):
        return "", {**dict.fromkeys(data, None), **names, PENDING_HUB: mark}
    if KUBECONFIG not in data or stored == wanted:
        return "", {**{key: None for key in data if key.startswith(NEXT)}, **names}
    if data.get(NEXT + PENDING_HUB) == mark:
        return NEXT, names
    return NEXT, {**{key: None for key in data if key.startswith(NEXT)}, **names, NEXT + PENDING_HUB: mark}


def stepped(data: Data, prefix: str, changes: Changes) -> dict[str, bytes | None]:
    """A driver's changes to its part, as changes of the Secret."""
    return {prefix + key: value for key, value in changes.items()}


def settled(data: Data, prefix: str, changes: Changes, kubeconfig: bytes | None) -> dict[str, bytes | None]:
    """The changes that make a part, with a driver's last changes to it, the credential in use."""
    part: dict[str, bytes | None] = {**part_of(data, prefix), **changes}
    result: dict[str, bytes | None] = {}
    if prefix:
        result = {key: None for key in data if key not in (CLUSTER_NAME, AGENT_NAME)}
    result |= part
    if kubeconfig is not None:
        result |= {KUBECONFIG: kubeconfig, PENDING_HUB: None}
    return result


class HubSecret:
    def __init__(self, client: KubeClient, namespace: str, name: str, directory: Path) -> None:
        self._client = client
        self.namespace = namespace
        self.name = name
        self.directory = directory
        self.data: Data = {}
        self.address: HubAddress | None = None
        """The hub whose credential is stored."""
        self._version = ""
        self._listeners: list[Callable[[], None]] = []
        self._mirroring = asyncio.Lock()
        self._stale = asyncio.Event()
        self._stale.set()

    @property
    def reference(self) -> Object:
        """For events."""
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": self.name, "namespace": self.namespace}}

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever somebody else has changed the contents; calling what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def seen(self, old: Snapshot | None, new: Snapshot | None) -> None:
        """What a watch of this Secret tells."""
        self._take(None if new is None else new.data)

    def _take(self, secret: Object | None, *, ours: bool = False) -> None:
        version = secret["metadata"]["resourceVersion"] if secret else ""
        if _older(version, self._version):
            return
        self._version = version
        data = {key: base64.b64decode(value) for key, value in ((secret or {}).get("data") or {}).items()}
        if data != self.data:
            if data.get(KUBECONFIG) != self.data.get(KUBECONFIG):
                self.address = self._read_address(data)
            self.data = data
            self._stale.set()
            for listener in [] if ours else list(self._listeners):
                listener()

    def _read_address(self, data: Data) -> HubAddress | None:
        if KUBECONFIG not in data:
            return None
        try:
            return address_of(data[KUBECONFIG], f"Secret {self.namespace}/{self.name}", self.directory)
        except KubeconfigError as error:
            log.warning("the stored kubeconfig of the hub cannot be read", error=str(error))
            return None

    async def store(self, changes: Changes) -> None:
        """Write what differs. `Conflict` when somebody else has written: `data` is what is there now."""
        differing = {key: value for key, value in changes.items() if self.data.get(key) != value}
        if differing:
            encoded = {key: None if value is None else base64.b64encode(value).decode() for key, value in differing.items()}
            try:
                self._take(await self._write(encoded), ours=True)
            except (Conflict, AlreadyExists, NotFound) as error:
                if isinstance(error, NotFound) and not self._version:
                    # There is no such namespace: nobody came before us.
                    raise
                await self._look()
                raise Conflict(409, "Conflict", f"Secret {self.namespace}/{self.name} has changed: {error}") from error
        await self.mirrored()

    async def _write(self, encoded: Mapping[str, str | None]) -> Object:
        if not self._version:
            data = {key: value for key, value in encoded.items() if value is not None}
            return await self._client.create(SECRETS, {**self.reference, "data": data})
        patch = {"metadata": {"resourceVersion": self._version}, "data": encoded}
        return await self._client.patch(SECRETS, self.name, patch, self.namespace)

    async def _look(self) -> None:
        try:
            self._take(await self._client.get(SECRETS, self.name, self.namespace))
        except NotFound:
            self._take(None)

    async def mirrored(self) -> None:
        """Until the directory shows what the Secret holds."""
        async with self._mirroring:
            if self._stale.is_set():
                self._stale.clear()
                files = {key: value for key, value in self.data.items() if not key.startswith((PENDING, NEXT))}
                try:
                    await asyncio.to_thread(mirror, self.directory, files)
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
                log.error("cannot write the hub kubeconfig", directory=str(self.directory), error=error.strerror)
                await asyncio.sleep(10)


def _older(version: str, known: str) -> bool:
    """A late message about a state that we have written over already."""
    return version.isdigit() and known.isdigit() and int(version) < int(known)


def mirror(directory: Path, files: Data) -> None:
    """Make the directory hold exactly these files."""
    own(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_mode & 0o777 != 0o700:
        directory.chmod(0o700)
    for name in sorted(files, key=lambda name: (name == KUBECONFIG, name)):
        _write_file(directory / name, files[name])
    for path in directory.iterdir():
        if path.name not in files and path.is_file():
            path.unlink(missing_ok=True)


def _write_file(path: Path, content: bytes) -> None:
    try:
        if path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o600:
            return
    except OSError:
        # Not there or not readable: it is about to be replaced.
        pass
    replace_private(path, content)
