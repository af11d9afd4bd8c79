"""From apiVersion and kind to the resource of the managed cluster's API.

A group version is asked for its resources when the first manifest needs it, so an API that is dead hurts nobody but those who use
it, and an agent whose works use three group versions sends three small requests in its life. What a server does not have is asked
for again, at most every few seconds and once for all who wait.

CustomResourceDefinitions and APIServices are followed (by name and state only): when one changes, its group is forgotten, and once
the server lists what the definition promises, handlers are told the group. Discovery lags a little behind the definition's word
`Established`, therefore the list is what counts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

import msgspec

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.objects import GVR
from muster.runtime.cache.informer import Informer
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import API_SERVICES, CRDS
from muster.runtime.client.errors import KubeError, NotFound, StatusError

ASK_AGAIN: Final = 3.0
"""Seconds for which a miss is remembered."""
FORGOTTEN: Final = 600.0
"""Seconds after which a group version that is not served, and that nobody has asked for since, is forgotten. Whoever waits for it
asks more often."""
PROMISE: Final = 10.0
"""Seconds for which the server is expected to serve what was defined."""
_GROUP_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)


class UnservedKind(Exception):
    """The cluster serves no such kind, as far as it says."""

    def __init__(self, api_version: str, kind: str, why: str = "") -> None:
        super().__init__(f'the server doesn\'t have a resource type "{kind}"' + (f": {why}" if why else ""))
        self.api_version = api_version
        self.kind = kind


class Definition(msgspec.Struct, frozen=True):
    """What is kept of a CustomResourceDefinition or an APIService."""

    group: str
    serves: tuple[GVR, ...]
    """An APIService promises only that its group version answers: a resource without names."""
    ready: bool


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None

    def true(self, kind: str) -> bool:
        return any(one.type == kind and one.status == "True" for one in self.conditions or ())


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""
    resourceVersion: str = ""


class _Names(msgspec.Struct):
    kind: str = ""
    plural: str = ""


class _Version(msgspec.Struct):
    name: str = ""
    served: bool = False


class _DefinitionSpec(msgspec.Struct):
    group: str = ""
    scope: str = ""
    names: _Names = msgspec.field(default_factory=_Names)
    versions: list[_Version] | None = None


class _DefinitionDocument(msgspec.Struct):
    metadata: _Metadata
    spec: _DefinitionSpec = msgspec.field(default_factory=_DefinitionSpec)
    status: _Status = msgspec.field(default_factory=_Status)

    def definition(self) -> Definition:
        spec, names = self.spec, self.spec.names
        serves = tuple(
            GVR(f"{spec.group}/{version.name}", names.plural, names.kind, spec.scope == "Namespaced")
            for version in spec.versions or ()
            if version.served
        )
        return Definition(spec.group, serves, self.status.true("Established"))


class _ServiceSpec(msgspec.Struct):
    group: str = ""
    version: str = ""
    service: dict[str, object] | None = None


class _ServiceDocument(msgspec.Struct):
    metadata: _Metadata
    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)
    status: _Status = msgspec.field(default_factory=_Status)

    def definition(self) -> Definition:
        spec = self.spec
        # Those without a service stand for what the server has itself: definitions tell of that.
        serves = (GVR(f"{spec.group}/{spec.version}", "", ""),) if spec.service else ()
        return Definition(spec.group, serves, self.status.true("Available"))


def _definitions(
    client: KubeClient, resource: GVR, form: type[_DefinitionDocument | _ServiceDocument], clock: Clock
) -> Informer[Definition]:
    decode = msgspec.json.Decoder(form).decode
    return Informer(
        client,
        resource,
        decode=lambda raw: decode(raw).definition(),
        reduce=lambda raw: msgspec.json.encode(decode(raw)),
        clock=clock,
    )


class _Listing:
    """What one group version said it has."""

    __slots__ = ("asked", "asking", "kinds", "why")

    def __init__(self) -> None:
        self.kinds: dict[str, GVR] = {}
        self.asked = float("-inf")
        self.asking = asyncio.Lock()
        self.why = ""
        """Why it could not say, where that is so."""

    def named(self, plural: str) -> GVR | None:
        return next((resource for resource in self.kinds.values() if resource.plural == plural), None)


class Mapper:
    """Knows the kinds of one cluster. `run` is to be a task of its owner; without it nobody is told of new kinds."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._listings: dict[str, _Listing] = {}
        self._tidied = clock.monotonic()
        self._handlers: list[Callable[[str], None]] = []
        self._promises: dict[str, dict[GVR, bool]] = {}
        """By group: what the server is to have, or to have no longer."""
        self._news = asyncio.Event()
        self._sources = [
            _definitions(client, CRDS, _DefinitionDocument, clock),
            _definitions(client, API_SERVICES, _ServiceDocument, clock),
        ]
        for source in self._sources:
            source.on_change(self._changed)

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with a group whose kinds came or went."""
        self._handlers.append(handler)

    def known(self, api_version: str, kind: str) -> GVR | None:
        """What can be said without asking the server."""
        listing = self._listings.get(api_version)
        return None if listing is None else listing.kinds.get(kind)

    async def find(self, api_version: str, kind: str) -> GVR:
        """Raises UnservedKind, or KubeError when the server could not be asked at all."""
        found = self.known(api_version, kind)
        if found is not None:
            return found
        if not kind or _GROUP_VERSION.fullmatch(api_version) is None:
            raise UnservedKind(api_version, kind)
        listing = self._listing(api_version)
        async with listing.asking:
            if kind not in listing.kinds and self._clock.monotonic() - listing.asked >= ASK_AGAIN:
                await self._ask(api_version, listing)
        found = listing.kinds.get(kind)
        if found is None:
            raise UnservedKind(api_version, kind, listing.why)
        return found

    async def locate(self, group: str, version: str, plural: str) -> GVR | None:
        """A resource by its plural: in this version, else in another that is served; None when the cluster has no such thing.

        Raises KubeError when the server could not be asked at all.
        """
        if found := await self._listed(f"{group}/{version}" if group else version, plural):
            return found
        for other in await self._versions(group) if group else ():
            if found := await self._listed(other, plural):
                return found
        return None

    async def _listed(self, api_version: str, plural: str) -> GVR | None:
        if _GROUP_VERSION.fullmatch(api_version) is None:
            return None
        listing = self._listing(api_version)
        found = listing.named(plural)
        if found is None:
            async with listing.asking:
                if listing.named(plural) is None and self._clock.monotonic() - listing.asked >= ASK_AGAIN:
                    await self._ask(api_version, listing)
            found = listing.named(plural)
        return found

    def _listing(self, api_version: str) -> _Listing:
        found = self._listings.get(api_version)
        if found is None:
            self._tidy()
            found = self._listings[api_version] = _Listing()
        return found

    def _tidy(self) -> None:
        """Works can name versions that do not exist, without end."""
        now = self._clock.monotonic()
        if now - self._tidied < FORGOTTEN:
            return
        self._tidied = now
        for api_version, listing in list(self._listings.items()):
            if not listing.kinds and not listing.asking.locked() and now - listing.asked >= FORGOTTEN:
                del self._listings[api_version]

    async def _versions(self, group: str) -> list[str]:
        try:
            return await self._client.api_versions(group)
        except StatusError:
            return []

    async def _ask(self, api_version: str, listing: _Listing) -> None:
        listing.why = ""
        try:
            served = await self._client.api_resources(api_version)
        except NotFound:
            served = []
        except StatusError as error:
            # An aggregated API that is dead, or kinds that the agent may not see. What was known before remains.
            listing.why = f"{api_version} cannot be asked for its resources: {error}"
            listing.asked = self._clock.monotonic()
            return
        listing.kinds = {}
        for resource in served:
            listing.kinds.setdefault(resource.kind, resource)
        listing.asked = self._clock.monotonic()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for source in self._sources:
                tasks.create_task(source.run())
            expecting: dict[str, asyncio.Task[None]] = {}
            while True:
                await self._news.wait()
                self._news.clear()
                expecting = {group: task for group, task in expecting.items() if not task.done()}
                for group in self._promises.keys() - expecting.keys():
                    expecting[group] = tasks.create_task(self._expect(group))

    def _changed(self, old: Definition | None, new: Definition | None) -> None:
        """Remember what of this definition the server is to have now. What nobody has ever asked for is nobody's news."""
        if old == new or (new is not None and not new.ready):
            return
        expected = dict.fromkeys(old.serves if old else (), False) | dict.fromkeys(new.serves if new else (), True)
        changes = {one: there for one, there in expected.items() if one.api_version in self._listings and self._has(one) != there}
        if changes:
            self._promises.setdefault(next(iter(changes)).group, {}).update(changes)
            self._news.set()

    def _has(self, resource: GVR) -> bool:
        listing = self._listings.get(resource.api_version)
        if listing is None or not resource.kind:
            return listing is not None and bool(listing.kinds)
        return listing.kinds.get(resource.kind) == resource

    async def _expect(self, group: str) -> None:
        """Until the server has, and has not, what was defined; then whoever waits for the group is told."""
        backoff = Backoff(0.05, 1.0, jitter=0.0)
        end = self._clock.monotonic() + PROMISE
        while not await self._fulfilled(group) and self._clock.monotonic() < end:
            await sleep(self._clock, backoff.next())
        del self._promises[group]
        for handler in self._handlers:
            handler(group)

    async def _fulfilled(self, group: str) -> bool:
        """Ask the group's versions anew, and see whether they are as promised."""
        for api_version, listing in list(self._listings.items()):
            if api_version.rpartition("/")[0] == group:
                async with listing.asking:
                    try:
                        await self._ask(api_version, listing)
                    except KubeError:
                        return False
        return all(self._has(resource) == there for resource, there in self._promises[group].items())
