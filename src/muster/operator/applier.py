"""Applies and deletes lists of objects.

`Applier` applies documents server-side with one field manager, one after the other, with a result for each: a failure does not stop
the others. It keeps what it applied and what the server stored; if a cache shows that both are unchanged, nothing is sent. So a
reconcile without changes costs no request, and drift of any field (ours, or one that the server defaulted) is reverted.
Deployments of upstream's operator are adopted before (`adoption`).

`remove` deletes objects without waiting: it deletes what still exists and returns what remains, and the caller repeats it.
`remove_and_wait` repeats it for callers that can wait.

A real API server sometimes fails to empty a CRD that is deleted soon after its creation ("storage is (re)initializing"), and then
does not retry for minutes, unless the CRD changes. So `remove` changes a CRD in that state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson

from muster.api import Document
from muster.api.operator.v1 import GROUP, GenerationStatus, RelatedResource
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import GVR, Object, ObjectKey, key_of
from muster.operator.adoption import adopt
from muster.runtime.client import Conflict, KubeClient, KubeError, NotFound
from muster.runtime.client.builtin import DEPLOYMENTS

Wanted = tuple[GVR, Document]
"""A document and its GVR; it need not have `apiVersion` and `kind`."""
Lookup = Callable[[GVR, ObjectKey], Object | None]
"""Returns the cached object."""

TOUCHED: Final = f"{GROUP}/removal-touched"
_PAUSE: Final = 0.2
_VOLATILE: Final = frozenset(("resourceVersion", "managedFields", "generation"))


@dataclass(frozen=True)
class ApplyResult:
    """`result` is the object after it was applied; exactly one of `result` and `error` is set."""

    resource: GVR
    key: ObjectKey
    result: Object | None = None
    error: KubeError | None = None

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.key}: {self.error or 'applied'}"


class ApplyFailed(Exception):
    """Some objects could not be applied; the others were."""

    def __init__(self, outcomes: Sequence[ApplyResult]) -> None:
        self.failures = tuple(outcome for outcome in outcomes if outcome.error is not None)
        super().__init__("; ".join(map(str, self.failures)))


def checked(outcomes: Sequence[ApplyResult]) -> list[Object]:
    """The objects after they were applied. Raises ApplyFailed if one could not be applied."""
    if any(one.error is not None for one in outcomes):
        raise ApplyFailed(outcomes)
    return [outcome.result for outcome in outcomes if outcome.result is not None]


class Applier:
    def __init__(self, client: KubeClient, manager: str, lookup: Lookup | None = None) -> None:
        self._client = client
        self._manager = manager
        self._lookup = lookup
        self._settled: dict[tuple[GVR, ObjectKey], tuple[bytes, bytes]] = {}
        """The digests of the applied document and of the resulting object."""

    async def apply(self, documents: Iterable[Wanted], recorded: Collection[ObjectRef] = ()) -> list[ApplyResult]:
        """`recorded` are objects that exist though the cache may lack them: upstream's operator created them."""
        return [await self._apply(resource, document, recorded) for resource, document in documents]

    async def _apply(self, resource: GVR, document: Document, recorded: Collection[ObjectRef]) -> ApplyResult:
        key = key_of(document)
        current = self._lookup(resource, key) if self._lookup is not None else None
        wanted = _digest(document)
        if current is not None and self._settled.get((resource, key)) == (wanted, _digest(_lasting(current))):
            return ApplyResult(resource, key, current)
        try:
            if resource is DEPLOYMENTS:
                await self._adopt(resource, document, current, ObjectRef(resource, key.name, key.namespace) in recorded)
            result = await self._client.apply(resource, document, manager=self._manager)
        except KubeError as error:
            self._settled.pop((resource, key), None)
            return ApplyResult(resource, key, error=error)
        self._settled[resource, key] = (wanted, _digest(_lasting(result)))
        return ApplyResult(resource, key, result)

    async def _adopt(self, resource: GVR, document: Document, current: Object | None, recorded: bool) -> None:
        if current is None and recorded:
            key = key_of(document)
            with suppress(NotFound):
                current = await self._client.get(resource, key.name, key.namespace)
        if current is not None:
            await adopt(self._client, resource, current, document, self._manager)

    def forget(self) -> None:
        """Apply everything again the next time."""
        self._settled.clear()


def _lasting(obj: Object) -> Object:
    """The object without the fields that status reports change."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _VOLATILE}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if not k.startswith("deployment.kubernetes.io/")}
    rest = {name: value for name, value in obj.items() if name not in ("status", "apiVersion", "kind")}
    return {**rest, "metadata": {**metadata, "annotations": annotations}}


def _digest(value: Any) -> bytes:
    return sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()


def labelled(documents: Iterable[Wanted], labels: Mapping[str, str]) -> list[Wanted]:
    """The documents with these labels added to their own."""
    return [(resource, _labelled(document, labels)) for resource, document in documents]


def _labelled(document: Document, labels: Mapping[str, str]) -> Document:
    metadata = document["metadata"]
    return {**document, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}


@dataclass(frozen=True)
class ObjectRef:
    """A reference to an object."""

    resource: GVR
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.resource.kind} {ObjectKey(self.namespace, self.name)}"


def recorded_refs(records: Iterable[RelatedResource], kinds: Iterable[GVR]) -> frozenset[ObjectRef]:
    """The objects that a status lists, of these kinds."""
    known = {(kind.group, kind.plural): kind for kind in kinds}
    found = ((known.get((one.group, one.resource)), one) for one in records)
    return frozenset(ObjectRef(kind, one.name, one.namespace) for kind, one in found if kind is not None)


def object_refs(documents: Iterable[Wanted]) -> list[ObjectRef]:
    return [ObjectRef(resource, key.name, key.namespace) for resource, key in ((r, key_of(d)) for r, d in documents)]


async def remove(
    client: KubeClient,
    objects: Iterable[ObjectRef],
    *,
    in_order: bool = False,
    keep: Callable[[Object], bool] | None = None,
    propagation: str = "",
    clock: Clock = SYSTEM,
) -> list[ObjectRef]:
    """Delete the objects that still exist; returns those that remain for now, because of finalizers.

    With `in_order`, nothing after the first that remains is deleted. Objects for which `keep` is true are neither deleted nor
    returned.
    """
    remaining = []
    for ref in objects:
        if await _remains(client, ref, keep, propagation, clock):
            remaining.append(ref)
            if in_order:
                break
    return remaining


async def _remains(
    client: KubeClient, ref: ObjectRef, keep: Callable[[Object], bool] | None, propagation: str, clock: Clock
) -> bool:
    try:
        found = await client.get(ref.resource, ref.name, ref.namespace)
        if keep is not None and keep(found):
            return False
        metadata = found["metadata"]
        if metadata.get("deletionTimestamp"):
            await _touch(client, ref, found, clock)
            return True
        await client.delete(ref.resource, ref.name, ref.namespace, uid=metadata["uid"], propagation=propagation)
        await client.get(ref.resource, ref.name, ref.namespace)
    except NotFound:
        return False
    except Conflict:
        # Another object has the same name by now: it is checked the next time.
        return True
    return True


async def _touch(client: KubeClient, ref: ObjectRef, found: Object, clock: Clock) -> None:
    """Change a CRD from time to time, so that the API server retries its removal."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    if not any(
        condition["type"] == "Terminating" and condition.get("reason") == "InstanceDeletionFailed" for condition in conditions
    ):
        return
    last = (found["metadata"].get("annotations") or {}).get(TOUCHED, "")
    now = format_time(clock.now())
    if last != now:
        await client.patch(ref.resource, ref.name, {"metadata": {"annotations": {TOUCHED: now}}}, ref.namespace)


async def remove_and_wait(
    client: KubeClient,
    objects: Sequence[ObjectRef],
    *,
    within: float,
    in_order: bool = False,
    keep: Callable[[Object], bool] | None = None,
    propagation: str = "",
    clock: Clock = SYSTEM,
) -> list[ObjectRef]:
    """Repeat `remove` until nothing remains, or `within` seconds have passed; returns what remains."""
    deadline = clock.monotonic() + within
    while True:
        left = await remove(client, objects, in_order=in_order, keep=keep, propagation=propagation, clock=clock)
        if not left or clock.monotonic() >= deadline:
            return left
        await sleep(clock, _PAUSE)


def generations(objects: Iterable[tuple[GVR, Object]]) -> tuple[GenerationStatus, ...]:
    """The generations for a status: of applied objects with a generation."""
    return tuple(
        GenerationStatus(
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            namespace=obj["metadata"].get("namespace") or "",
            name=obj["metadata"]["name"],
            last_generation=obj["metadata"]["generation"],
        )
        for resource, obj in objects
        if obj["metadata"].get("generation")
    )


def related(objects: Iterable[ObjectRef]) -> tuple[RelatedResource, ...]:
    """The related resources for a status."""
    return tuple(
        RelatedResource(
            group=ref.resource.group,
            version=ref.resource.version,
            resource=ref.resource.plural,
            namespace=ref.namespace,
            name=ref.name,
        )
        for ref in objects
    )
