"""Executes a plan of writes in order, with an event on the Placement for each.

Every write has the resourceVersion that was read: a change in between is a Conflict, and the reconcile is repeated. The first
failure ends it (`NotWritten`), since later writes may depend on it.

A new decision takes two writes, because its status is a subresource: for a moment it exists without clusters, never with wrong
ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from muster.api.cluster.v1beta1 import Placement, PlacementDecision
from muster.machinery.objects import Object, ObjectKey
from muster.placement.hub.decision_index import DecisionIndex, WrittenDecision
from muster.placement.hub.decision_plan import Change, Create, Decision, Delete, Write
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, KubeError, NotFound, Unreachable, served
from muster.runtime.controller import EventRecorder

DECISIONS: Final = served(PlacementDecision)
NOTE_LENGTH: Final = 1000


class NotWritten(Exception):
    """A decision could not be written."""

    def __init__(self, name: str, cause: KubeError) -> None:
        self.name = name
        self.cause = cause
        super().__init__(f"PlacementDecision {name} could not be written: {cause}")

    @property
    def ordinary(self) -> bool:
        """Whether the failure is transient: a conflict, or an unreachable server."""
        return isinstance(self.cause, AlreadyExists | Conflict | NotFound | Unreachable)

    @property
    def failure(self) -> KubeError:
        """The error of the reconcile. A decision that was deleted or created in between is a conflict."""
        return Conflict(409, "Conflict", str(self)) if isinstance(self.cause, AlreadyExists | NotFound) else self.cause


class DecisionWriter:
    def __init__(self, client: KubeClient, events: EventRecorder, index: DecisionIndex) -> None:
        self._client = client
        self._events = events
        self._index = index

    async def write(self, placement: Placement, writes: Sequence[Write], warnings: Sequence[str]) -> None:
        """Raises NotWritten."""
        for write in writes:
            try:
                match write:
                    case Create(name, decision):
                        await self._create(placement, name, decision)
                    case Change():
                        await self._change(placement, write)
                    case Delete(name):
                        await self._delete(placement, name)
            except KubeError as error:
                if isinstance(error, NotFound):
                    self._forget(placement, write.name)
                raise NotWritten(write.name, error) from error
            self._record_event(placement, write, warnings)

    async def _create(self, placement: Placement, name: str, decision: Decision) -> None:
        key = ObjectKey(placement.metadata.namespace, name)
        there = self._index.get(key)
        if there is not None:
            # Of a deleted placement of the same name: names of other owners are not used.
            await self._remove(there)
        try:
            answer = await self._client.create(DECISIONS, _document(placement, name, decision))
        except AlreadyExists:
            # Just created and not in the cache yet, or another owner's: the next reconcile decides.
            self._record(await self._client.get(DECISIONS, name, key.namespace))
            raise
        written = self._record(answer)
        if decision.clusters:
            await self._set_clusters(written, decision)

    async def _change(self, placement: Placement, change: Change) -> None:
        written = self._index.get(ObjectKey(placement.metadata.namespace, change.name))
        assert written is not None, "planned from what is there"
        if change.labels:
            body = {"metadata": {**_seen(written), "labels": dict(change.decision.labels)}}
            written = self._record(await self._client.patch(DECISIONS, change.name, body, written.key.namespace))
        if change.clusters:
            await self._set_clusters(written, change.decision)

    async def _set_clusters(self, written: WrittenDecision, decision: Decision) -> None:
        clusters = [
            {"clusterName": cluster, "reason": "", **({"score": score} if score else {})} for cluster, score in decision.clusters
        ]
        body = {"metadata": _seen(written), "status": {"decisions": clusters}}
        key = written.key
        self._record(await self._client.patch(DECISIONS, key.name, body, key.namespace, subresource="status"))

    async def _delete(self, placement: Placement, name: str) -> None:
        written = self._index.get(ObjectKey(placement.metadata.namespace, name))
        if written is not None:
            await self._remove(written)

    async def _remove(self, written: WrittenDecision) -> None:
        key = written.key
        try:
            answer = await self._client.delete(DECISIONS, key.name, key.namespace, uid=written.uid)
        except NotFound:
            answer = {}
        if not (answer.get("metadata") or {}).get("finalizers"):
            self._index.record_delete(key, written.uid)

    def _record(self, answer: Object) -> WrittenDecision:
        return self._index.record_write(PlacementDecision.decode(answer))

    def _forget(self, placement: Placement, name: str) -> None:
        key = ObjectKey(placement.metadata.namespace, name)
        if written := self._index.get(key):
            self._index.record_delete(key, written.uid)

    def _record_event(self, placement: Placement, write: Write, warnings: Sequence[str]) -> None:
        namespace = placement.metadata.namespace
        kind = {"apiVersion": DECISIONS.api_version, "kind": DECISIONS.kind}
        related: Object = {**kind, "metadata": {"name": write.name, "namespace": namespace}}
        done = _DONE[type(write)]
        note = f"Decision {write.name} is {done.lower()} with placement {placement.metadata.name} in namespace {namespace}"
        if warned := isinstance(write, Change) and bool(warnings):
            note = f"{note}: {'; '.join(warnings)}"
        level: Literal["Normal", "Warning"] = "Warning" if warned else "Normal"
        reason = f"Decision{done.removesuffix('d')}"
        self._events.event(placement.document(), level, reason, note, action=f"Decision{done}", related=related)


_DONE: Final[Mapping[type[Write], str]] = {Create: "Created", Change: "Updated", Delete: "Deleted"}


def scores_note(totals: Mapping[str, int]) -> str:
    # As many as fit: no pair is shorter than four characters with the blank after it.
    text = " ".join(f"{cluster}:{totals[cluster]}" for cluster in sorted(totals)[: NOTE_LENGTH // 4 + 1])
    return text if len(text) <= NOTE_LENGTH else f"{text[:NOTE_LENGTH]}......"


def _seen(written: WrittenDecision) -> Object:
    return {"uid": written.uid, "resourceVersion": written.resource_version}


def _document(placement: Placement, name: str, decision: Decision) -> Object:
    resource, metadata = placement.resource, placement.metadata
    owner = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": DECISIONS.api_version,
        "kind": DECISIONS.kind,
        "metadata": {
            "name": name,
            "namespace": metadata.namespace,
            "labels": dict(decision.labels),
            "ownerReferences": [owner],
        },
    }
