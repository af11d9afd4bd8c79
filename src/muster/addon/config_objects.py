"""Configuration objects of addons, of any kind, from caches.

Planning and rendering read `ConfigObjects`; `WatchedConfigObjects` watches exactly the objects that addons refer to. A missing
object, or one of a kind that the hub does not serve, is None: users wait for it, and are notified by a listener.

A reference has group and resource without a version: discovery determines the served version, and is updated when CRDs come or go.
Users pass their complete references to `refer`, after which `get` returns the hub's current objects; objects without references are
no longer watched. `get` alone works too, for users that can wait for a listener: it starts a watch.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, NoReturn, Protocol

import orjson

from muster.addon.agent_addon import ConfigObject
from muster.addon.spec_hash import spec_hash
from muster.api.addon.v1alpha1 import GROUP
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectRef
from muster.machinery.tasks import race, run_all
from muster.runtime.cache import DynamicCache, DynamicRESTMapper, ObservedObject, Presence
from muster.runtime.client import Forbidden, KubeClient, KubeError, NotFound

log = get_logger("muster.addon.config_objects")

SYNC_TIMEOUT: Final = 10.0
"""Seconds to wait for the initial state of new watches."""
_PREFERRED_VERSIONS: Final = {"": "v1", GROUP: "v1alpha1"}
"""The versions that are tried first; for other groups the hub's preferred version is used."""
_GROUP: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?)?", re.ASCII)
_RESOURCE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_NOWHERE: Final = frozenset(("", ".", ".."))
_ASKERS: Final = ""
"""The user of objects that were read without a reference."""


class ConfigKey(NamedTuple):
    """A configuration object; `namespace` is empty for cluster-scoped kinds."""

    group: str
    resource: str
    namespace: str
    name: str

    @property
    def is_sound(self) -> bool:
        """Whether it is a valid name; users write these, and they become part of a path."""
        well_formed = _GROUP.fullmatch(self.group) is not None and _RESOURCE.fullmatch(self.resource) is not None
        return well_formed and self.name not in _NOWHERE and (not self.namespace or self.namespace not in _NOWHERE)


Listener = Callable[[str, str, str, str], None]


class ConfigObjects(Protocol):
    def get(self, group: str, resource: str, namespace: str, name: str) -> ConfigObject | None: ...

    def on_change(self, listener: Listener) -> None:
        """Called with group, resource, namespace and name of an object that changed, was added or deleted."""
        ...


class WatchedConfigObjects:
    """Its owner runs `run` as a task; until then, nothing is known."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._mapper = DynamicRESTMapper(client, clock=clock)
        self._cache = DynamicCache(client, clock=clock)
        self._references: dict[str, frozenset[ConfigKey]] = {}
        """By user."""
        self._users: dict[ConfigKey, set[str]] = {}
        self._resolved: dict[ConfigKey, ObjectRef | None] = {}
        """The served resources of objects; None if they are not served."""
        self._followers: dict[str, ConfigKey] = {}
        self._objects: dict[ConfigKey, tuple[ObservedObject, ConfigObject | None]] = {}
        self._listeners: list[Listener] = []
        self._unresolved: set[ConfigKey] = set()
        self._has_unresolved = asyncio.Event()
        self._ended = asyncio.Event()
        self._cache.on_change(lambda follower: self._notify(self._followers.get(follower)))
        self._mapper.on_change(self._kinds_changed)

    async def run(self) -> NoReturn:
        try:
            await run_all({"kinds": self._mapper.run, "objects": self._cache.run, "questions": self._answer})
        finally:
            self._ended.set()

    def on_change(self, listener: Listener) -> None:
        self._listeners.append(listener)

    # References

    async def refer(self, user: str, keys: Iterable[ConfigKey], timeout: float = SYNC_TIMEOUT) -> bool:
        """`user` needs these objects and no others from now on. Waits until their state is known; returns False on a timeout.

        Raises KubeError if discovery fails. When `run` ends, waiting callers are cancelled.
        """
        return await race(self._refer(user, keys, timeout), self._end())

    async def _end(self) -> NoReturn:
        await self._ended.wait()
        raise asyncio.CancelledError("configurations are watched no more")

    async def _refer(self, user: str, keys: Iterable[ConfigKey], timeout: float) -> bool:
        wanted = frozenset(keys)
        before = self._references.get(user, frozenset())
        self._references[user] = wanted
        if not wanted:
            del self._references[user]
        for key in wanted - before:
            self._users.setdefault(key, set()).add(user)
        for key in before - wanted:
            self._users[key].discard(user)
            if not self._users[key]:
                del self._users[key]
                self._unfollow(key)
        for key in sorted(wanted - self._resolved.keys()):
            await self._resolve(key)
        refs = [ref for key in wanted if (ref := self._resolved.get(key)) is not None]
        began = self._clock.monotonic()
        await self._cache.settle(refs, timeout)
        if self._clock.monotonic() - began >= timeout:
            return False
        for ref in refs:
            if self._cache.get(ref).presence is Presence.UNKNOWN:
                await self._get(ref)
        return True

    def users_of(self, key: ConfigKey) -> list[str]:
        return sorted(self._users.get(key, ()))

    async def _resolve(self, key: ConfigKey) -> None:
        resource = None
        if key.is_sound:
            resource = await self._mapper.resource_for(key.group, _PREFERRED_VERSIONS.get(key.group, ""), key.resource)
        if key not in self._users or key in self._resolved:
            # It is no longer needed, or another user was faster.
            return
        if resource is None or resource.namespaced != bool(key.namespace):
            self._resolved[key] = None
            return
        ref = self._resolved[key] = ObjectRef(resource, key.namespace, key.name)
        self._followers[str(ref)] = key
        self._cache.follow(str(ref), frozenset((ref,)))

    async def _get(self, ref: ObjectRef) -> None:
        """Read an object that existed before it was watched, for which there may be no event."""
        found = None
        try:
            found = await self._client.get(ref.resource, ref.name, ref.namespace)
        except NotFound:
            pass
        except Forbidden:
            # It counts as missing until this account may read it.
            return
        if self._cache.get(ref).presence is Presence.UNKNOWN:
            # Otherwise a watch has reported it meanwhile, which is newer than this response.
            self._cache.record_write(ref, found)

    def _unfollow(self, key: ConfigKey) -> None:
        ref = self._resolved.pop(key, None)
        self._objects.pop(key, None)
        if ref is not None:
            self._cache.follow(str(ref), frozenset())
            del self._followers[str(ref)]

    def _kinds_changed(self, group: str) -> None:
        """Notify the users of objects whose kind is newly served, or in another version."""
        for key, ref in list(self._resolved.items()):
            if key.group == group and (ref is None or not self._mapper.has(ref.resource)):
                self._unfollow(key)
                self._notify(key)
                if key in self._unresolved:
                    self._has_unresolved.set()

    def _notify(self, key: ConfigKey | None) -> None:
        if key is not None:
            for listener in self._listeners:
                listener(*key)

    # Reads

    def get(self, group: str, resource: str, namespace: str, name: str) -> ConfigObject | None:
        key = ConfigKey(group, resource, namespace, name)
        if key not in self._users:
            self._unresolved.add(key)
            self._has_unresolved.set()
            return None
        ref = self._resolved.get(key)
        if ref is None:
            return None
        seen = self._cache.get(ref)
        if seen.presence is not Presence.PRESENT:
            self._objects.pop(key, None)
            return None
        known = self._objects.get(key)
        if known is None or (known[0].uid, known[0].version) != (seen.uid, seen.version):
            known = self._objects[key] = (seen, _read(key, seen))
        return known[1]

    async def _answer(self) -> NoReturn:
        """Watch the objects that are read without references."""
        backoff = Backoff(0.1, 30.0)
        while True:
            await self._has_unresolved.wait()
            self._has_unresolved.clear()
            try:
                await self.refer(_ASKERS, self._unresolved)
            except KubeError as error:
                log.warning("discovery of the hub's kinds failed", error=str(error))
                await sleep(self._clock, backoff.next())
                self._has_unresolved.set()
                continue
            backoff.reset()
            for key in self._unresolved:
                self._notify(key)


def _read(key: ConfigKey, seen: ObservedObject) -> ConfigObject | None:
    document = orjson.loads(seen.raw)
    try:
        return ConfigObject(key.group, key.resource, document, spec_hash(document))
    except TypeError as error:
        # Nested more deeply than it could be encoded again.
        log.error("configuration cannot be read", config=str(key), error=str(error))
        return None
