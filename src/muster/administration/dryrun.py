"""A client that records its writes, and in a dry run persists none.

A dry run sends every write with `dryRun=All`: the server checks permission, admission and validity, and stores nothing. The result
is kept in memory, so that later reads find it as if it existed. If a write needs something that the same run would have created
first (its namespace, its CRD), the server cannot check it, and it is assumed valid; the same goes for transports without dry runs,
such as gRPC. Access reviews change nothing and are sent as they are.

Code that waits for a change, or needs a token, checks `is_dry_run` first: nothing will change, and no token is issued.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final, TypeVar

from muster.api import Document
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.objects import Object
from muster.runtime.client import Conflict, DelegatingClient, Kind, KubeClient, NotFound, Send, StatusError, Write, WriteTarget
from muster.runtime.client.builtin import CRDS, NAMESPACES

T = TypeVar("T")

REVIEWS: Final = frozenset(
    (
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
        "localsubjectaccessreviews",
        "subjectaccessreviews",
        "tokenreviews",
    )
)
TOKEN: Final = "<token>"
"""Shown in a dry run in place of a token."""


@dataclass
class Journal:
    """The accepted writes, in order; refused ones are not included."""

    writes: list[Write] = field(default_factory=list)

    def documents(self) -> list[Document]:
        """The whole objects that were written, each in its last version; kubectl could apply them."""
        found: dict[WriteTarget, Document] = {}
        for write in self.writes:
            if write.verb in ("apply", "create", "update") and write.body is not None and not write.target.subresource:
                found[write.object_target] = write.body
        return list(found.values())


def is_dry_run(client: KubeClient) -> bool:
    return isinstance(client, JournalingClient) and client.dry_run


class JournalingClient(DelegatingClient):
    def __init__(self, inner: KubeClient, journal: Journal, *, dry_run: bool = False) -> None:
        super().__init__(inner)
        self.journal = journal
        self.dry_run = dry_run
        self._made: dict[WriteTarget, Object | None] = {}
        """In a dry run: the objects that would exist now. None: deleted."""

    def as_user(self, name: str) -> JournalingClient:
        other = JournalingClient(self._inner.as_user(name), self.journal, dry_run=self.dry_run)
        other._made = self._made
        return other

    async def get(self, resource: Kind[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        target = WriteTarget.of(resource, namespace, name, subresource)
        if target not in self._made:
            return await self._inner.get(resource, name, namespace, subresource=subresource)
        found = self._made[target]
        if found is None:
            raise NotFound(404, "NotFound", f"{target.resource} {namespace}/{name}: deleted in this dry run")
        return resource.decode(deepcopy(found))

    async def write(self, write: Write, send: Send, dry_run: bool) -> Object:
        if write.target.resource.plural in REVIEWS:
            return await send(dry_run)
        answer = await self._pretend(write, send) if self.dry_run else await send(dry_run)
        # Later changes that the caller makes to its document are not part of the write.
        self.journal.writes.append(replace(write, body=deepcopy(write.body)))
        return answer

    async def _pretend(self, write: Write, send: Send) -> Object:
        try:
            answer = await send(True)
        except (NotFound, Conflict):
            # A Conflict about the resourceVersion of an object that exists only in this dry run.
            if not self._made_here(write.object_target):
                raise
            answer = self._imagine(write)
        except StatusError as error:
            if error.code != HTTPStatus.METHOD_NOT_ALLOWED:
                raise
            answer = self._imagine(write)
        if write.verb == "delete":
            self._made[write.object_target] = None
        elif not write.target.subresource:
            self._made[write.object_target] = deepcopy(answer)
        return answer

    def _made_here(self, write_target: WriteTarget) -> bool:
        namespace = WriteTarget(NAMESPACES, "", write_target.namespace)
        definition = WriteTarget(CRDS, "", f"{write_target.resource.plural}.{write_target.resource.group}")
        return any(self._made.get(needed) is not None for needed in (write_target, namespace, definition))

    def _imagine(self, write: Write) -> Object:
        body = write.body or {}
        if write.verb == "patch":
            patched: Object = apply_merge_patch(self._made.get(write.object_target) or {}, body)
            return patched
        metadata = {"uid": "", "resourceVersion": "0", "generation": 1, **(body.get("metadata") or {})}
        return {**body, "metadata": metadata}
