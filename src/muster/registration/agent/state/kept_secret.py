"""A Secret of the agent, as it was last written or read.

Every write has the resourceVersion it is based on: of two agents that overlap, one gets `Conflict` and reads again.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from muster.machinery.objects import Object
from muster.runtime.cache import Snapshot
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, NotFound
from muster.runtime.client.builtin import SECRETS

Data = Mapping[str, bytes]
Changes = Mapping[str, bytes | None]
"""What to write; None removes a key."""


class KeptSecret:
    def __init__(self, client: KubeClient, namespace: str, name: str, labels: Mapping[str, str] | None = None) -> None:
        """`labels` are given to it with every write."""
        self._client = client
        self.namespace = namespace
        self.name = name
        self._labels = labels or {}
        self.data: Data = {}
        self._version = ""
        """Of what is there; empty when nothing is."""
        self._removed = ""
        """The last version that was removed."""
        self._listeners: list[Callable[[], None]] = []

    @property
    def reference(self) -> Object:
        """For events."""
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": self.name, "namespace": self.namespace}}

    @property
    def exists(self) -> bool:
        return bool(self._version)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever somebody else has changed the contents; calling what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def seen(self, old: Snapshot | None, new: Snapshot | None) -> None:
        """An event of a watch. The answer to our write may come after the event of its removal, and is of no use then."""
        if new is None and old is not None and not _older(old.resource_version, self._removed):
            self._removed = old.resource_version
        self._take(None if new is None else new.data)

    def read(self, secret: Object) -> None:
        """What somebody else has read of it."""
        self._take(secret)

    async def load(self) -> None:
        """Look at what is there."""
        try:
            self._take(await self._client.get(SECRETS, self.name, self.namespace))
        except NotFound:
            self._take(None)

    def _take(self, secret: Object | None, *, ours: bool = False) -> None:
        version = secret["metadata"]["resourceVersion"] if secret else ""
        if version and (_older(version, self._version) or version == self._removed or _older(version, self._removed)):
            # A late message about a state that we have written over or removed already.
            return
        self._version = version
        data = {key: base64.b64decode(value) for key, value in ((secret or {}).get("data") or {}).items()}
        if data != self.data:
            before, self.data = self.data, data
            self._changed(before)
            for listener in [] if ours else list(self._listeners):
                listener()

    def _changed(self, before: Data) -> None:
        """The contents are others than they were."""

    async def store(self, changes: Changes) -> None:
        """Write what differs. `Conflict` when somebody else has written: `data` is what is there now."""
        differing = {key: value for key, value in changes.items() if self.data.get(key) != value}
        if not differing:
            return
        encoded = {key: None if value is None else base64.b64encode(value).decode() for key, value in differing.items()}
        try:
            self._take(await self._write(encoded), ours=True)
        except (Conflict, AlreadyExists, NotFound) as error:
            if isinstance(error, NotFound) and not self._version:
                # There is no such namespace: nobody came before us.
                raise
            await self._retry_read(error)

    async def remove(self) -> None:
        """Take the Secret away. `Conflict` as for `store`."""
        if not self._version:
            return
        try:
            await self._client.delete(SECRETS, self.name, self.namespace, resource_version=self._version)
        except NotFound:
            pass
        except Conflict as error:
            await self._retry_read(error)
        self._removed = self._version
        self._take(None, ours=True)

    async def _write(self, encoded: Mapping[str, str | None]) -> Object:
        metadata = self._metadata()
        if not self._version:
            data = {key: value for key, value in encoded.items() if value is not None}
            whole = {**self.reference, "metadata": {**self.reference["metadata"], **metadata}, "data": data}
            return await self._client.create(SECRETS, whole)
        patch = {"metadata": {"resourceVersion": self._version, **metadata}, "data": encoded}
        return await self._client.patch(SECRETS, self.name, patch, self.namespace)

    def _metadata(self) -> Object:
        """What a write says beside the contents."""
        return {"labels": dict(self._labels)} if self._labels else {}

    async def _retry_read(self, error: Exception) -> None:
        await self.load()
        raise Conflict(409, "Conflict", f"Secret {self.namespace}/{self.name} has changed: {error}") from error


def _older(version: str, known: str) -> bool:
    return version.isdigit() and known.isdigit() and int(version) < int(known)
