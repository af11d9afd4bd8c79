"""A RESTMapper that hears of kinds that come and go.

CustomResourceDefinitions and APIServices are followed (by name and state only): when one changes, its group is asked for anew, and
once the server lists what the definition promises, handlers are told the group. Discovery lags a little behind the definition's
word `Established`, therefore the list is what counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.objects import GVR
from muster.runtime.cache.informer import Informer
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import API_SERVICES, CRDS
from muster.runtime.client.errors import KubeError
from muster.runtime.client.restmapper import RESTMapper

DISCOVERY_TIMEOUT: Final = 10.0
"""Seconds for which the server is expected to serve what was defined."""


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


class DynamicRESTMapper(RESTMapper):
    """`run` is to be a task of its owner; without it nobody is told of new kinds."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM) -> None:
        super().__init__(client, clock=clock)
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
        changes = {one: there for one, there in expected.items() if self.is_asked_for(one.api_version) and self.has(one) != there}
        if changes:
            self._promises.setdefault(next(iter(changes)).group, {}).update(changes)
            self._news.set()

    async def _expect(self, group: str) -> None:
        """Until the server has, and has not, what was defined; then whoever waits for the group is told."""
        backoff = Backoff(0.05, 1.0, jitter=0.0)
        end = self._clock.monotonic() + DISCOVERY_TIMEOUT
        while not await self._fulfilled(group) and self._clock.monotonic() < end:
            await sleep(self._clock, backoff.next())
        del self._promises[group]
        for handler in self._handlers:
            handler(group)

    async def _fulfilled(self, group: str) -> bool:
        """Ask the group's versions anew, and see whether they are as promised."""
        for resource in self._promises[group]:
            # A version that came with its definition was never asked for.
            self._listing(resource.api_version)
        try:
            await self.refresh(group)
        except KubeError:
            return False
        return all(self.has(resource) == there for resource, there in self._promises[group].items())
