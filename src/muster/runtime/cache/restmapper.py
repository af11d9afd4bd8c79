"""A RESTMapper that notices when kinds come and go.

It watches CustomResourceDefinitions and APIServices (only name and state): when one changes, discovery of its group is repeated
until it agrees with the definition, then handlers are called with the group. Discovery lags a little behind the condition
`Established`, so discovery decides. APIServices may be watched only from the first missing kind on, for users that only need kinds
to appear: requests for an aggregated API that is gone are then refused by the server itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.objects import GVR
from muster.runtime.cache.informer import Informer, Informers
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import API_SERVICES, CRDS
from muster.runtime.client.errors import KubeError
from muster.runtime.client.restmapper import NoKindMatch, RESTMapper

DISCOVERY_TIMEOUT: Final = 10.0
"""Seconds within which the server is expected to serve a defined kind."""


class FollowedDefinition(msgspec.Struct, frozen=True):
    """The fields of a CustomResourceDefinition or an APIService that are kept."""

    name: str
    group: str
    serves: tuple[GVR, ...]
    """The resources to be served; an APIService promises only its group version: a resource without names."""
    ready: bool
    deleting: bool = False


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None

    def true(self, kind: str) -> bool:
        return any(condition.type == kind and condition.status == "True" for condition in self.conditions or ())


class _Metadata(msgspec.Struct):
    name: str
    uid: str = ""
    resourceVersion: str = ""
    deletionTimestamp: str | None = None


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

    def definition(self) -> FollowedDefinition:
        spec, names = self.spec, self.spec.names
        serves = tuple(
            GVR(f"{spec.group}/{version.name}", names.plural, names.kind, spec.scope == "Namespaced")
            for version in spec.versions or ()
            if version.served
        )
        metadata = self.metadata
        return FollowedDefinition(
            metadata.name, spec.group, serves, self.status.true("Established"), metadata.deletionTimestamp is not None
        )


class _ServiceSpec(msgspec.Struct):
    group: str = ""
    version: str = ""
    service: dict[str, object] | None = None


class _ServiceDocument(msgspec.Struct):
    metadata: _Metadata
    spec: _ServiceSpec = msgspec.field(default_factory=_ServiceSpec)
    status: _Status = msgspec.field(default_factory=_Status)

    def definition(self) -> FollowedDefinition:
        spec = self.spec
        # Those without a service stand for the server's own groups, and for the custom resources, which their definitions report.
        serves = (GVR(f"{spec.group}/{spec.version}", "", ""),) if spec.service else ()
        return FollowedDefinition(self.metadata.name, spec.group, serves, self.status.true("Available"))


_Document = _DefinitionDocument | _ServiceDocument


def _followed(informers: Informers, resource: GVR, form: type[_Document], field_selector: str = "") -> Informer[FollowedDefinition]:
    decode, reduce = _reading(form)
    return informers.of(resource, field_selector=field_selector, decode=decode, reduce=reduce)


@cache
def _reading(form: type[_Document]) -> tuple[Callable[[bytes], FollowedDefinition], Callable[[bytes], bytes]]:
    """Returns the same functions each time: informers are shared by users with equal functions."""
    decode = msgspec.json.Decoder(form).decode
    return lambda raw: decode(raw).definition(), lambda raw: msgspec.json.encode(decode(raw))


def followed_definitions(informers: Informers, name: str = "") -> Informer[FollowedDefinition]:
    """CustomResourceDefinitions: all of them, shared with a DynamicRESTMapper of the same informers, or the one with a name."""
    return _followed(informers, CRDS, _DefinitionDocument, f"metadata.name={name}" if name else "")


class DynamicRESTMapper(RESTMapper):
    """Its owner runs `run` as a task; without it, new kinds are not reported."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Clock = SYSTEM,
        informers: Informers | None = None,
        aggregated_on_miss: bool = False,
    ) -> None:
        """`informers`: those of the client, which their owner runs; without them it has its own. `aggregated_on_miss`: watch
        APIServices only after a kind was requested that is not served."""
        super().__init__(client, clock=clock)
        self._handlers: list[Callable[[str], None]] = []
        self._promises: dict[str, dict[GVR, bool]] = {}
        """By group: the resources that the server is expected to serve (True), or not to serve any longer."""
        self._news = asyncio.Event()
        self._shared = informers is not None
        self._informers = Informers(client, clock=clock) if informers is None else informers
        self._sources: list[Informer[FollowedDefinition]] = []
        self._follow(followed_definitions(self._informers))
        self._follows_services = False
        if not aggregated_on_miss:
            self._follow_services()

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with the group when its kinds came or went."""
        self._handlers.append(handler)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if not self._shared:
                tasks.create_task(self._informers.run())
            expecting: dict[str, asyncio.Task[None]] = {}
            while True:
                await self._news.wait()
                self._news.clear()
                expecting = {group: task for group, task in expecting.items() if not task.done()}
                for group in self._promises.keys() - expecting.keys():
                    expecting[group] = tasks.create_task(self._expect(group))

    async def mapping(self, api_version: str, kind: str) -> GVR:
        try:
            return await super().mapping(api_version, kind)
        except NoKindMatch:
            self._follow_services()
            raise

    async def resource_for(self, group: str, version: str, plural: str) -> GVR | None:
        found = await super().resource_for(group, version, plural)
        if found is None:
            self._follow_services()
        return found

    def _follow_services(self) -> None:
        if not self._follows_services:
            self._follows_services = True
            self._follow(_followed(self._informers, API_SERVICES, _ServiceDocument))

    def _follow(self, source: Informer[FollowedDefinition]) -> None:
        self._sources.append(source)
        source.on_change(self._changed)

    def _changed(self, old: FollowedDefinition | None, new: FollowedDefinition | None) -> None:
        """Record what the server is expected to serve now. Groups that were never requested are ignored."""
        if old == new or (new is not None and not new.ready):
            return
        expected = dict.fromkeys(old.serves if old else (), False) | dict.fromkeys(new.serves if new else (), True)
        changes = {one: there for one, there in expected.items() if self.is_discovered(one.api_version) and self.has(one) != there}
        if changes:
            self._promises.setdefault(next(iter(changes)).group, {}).update(changes)
            self._news.set()

    async def _expect(self, group: str) -> None:
        """Wait until discovery agrees with the definitions of the group, then call the handlers."""
        backoff = Backoff(0.05, 1.0, jitter=0.0)
        end = self._clock.monotonic() + DISCOVERY_TIMEOUT
        while not await self._fulfilled(group) and self._clock.monotonic() < end:
            await sleep(self._clock, backoff.next())
        del self._promises[group]
        for handler in self._handlers:
            handler(group)

    async def _fulfilled(self, group: str) -> bool:
        """Repeat discovery of the group's versions, and check whether they are as expected."""
        for resource in self._promises[group]:
            # A version that is new with its definition was never discovered.
            self._listing(resource.api_version)
        try:
            await self.refresh(group)
        except KubeError:
            return False
        return all(self.has(resource) == there for resource, there in self._promises[group].items())
