"""A client that notes what is written through it, and in a dry run lets nothing through.

A dry run sends every write with `dryRun=All`: the server checks permission, admission and validity, and stores nothing. What it
would have made is remembered, so that whoever reads it back goes on as if it were there. Where a write needs something that this
very run would have made first (its namespace, its definition), the server cannot check it, and it is taken as given. Reviews change
nothing and are simply asked.

Whoever waits for something to happen, or needs a token, asks `is_dry_run` first: nothing will happen, and no token is issued.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import orjson

from muster.api import Document
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.objects import Object
from muster.runtime.client.base import APPLY, JSON, KubeClient, Query
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.client.errors import Conflict, NotFound

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
"""What a dry run shows where a token would be."""


@dataclass(frozen=True)
class Target:
    """What a path names."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @classmethod
    def of(cls, path: str) -> Target | None:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:1] == ["api"] and len(parts) >= 3:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) >= 4:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        rest += [""] * (3 - len(rest))
        return cls(group, version, namespace, rest[0], rest[1], rest[2])


@dataclass(frozen=True)
class Write:
    verb: str
    """apply, create, update, patch or delete."""
    target: Target
    body: Document | None

    @property
    def name(self) -> str:
        metadata: Mapping[str, Any] = (self.body or {}).get("metadata") or {}
        return self.target.name or str(metadata.get("name") or metadata.get("generateName") or "")

    def __str__(self) -> str:
        target = self.target
        kind = (
            target.plural + (f".{target.group}" if target.group else "") + (f"/{target.subresource}" if target.subresource else "")
        )
        return f"{self.verb} {kind} {target.namespace + '/' if target.namespace else ''}{self.name}".rstrip()


@dataclass
class Journal:
    """In order. A write that was refused is not in it."""

    writes: list[Write] = field(default_factory=list)

    def documents(self) -> list[Document]:
        """What was written as a whole, the last word on each object; with it the same could be made by kubectl."""
        found: dict[tuple[Target, str], Document] = {}
        for write in self.writes:
            if write.verb in ("apply", "create", "update") and write.body is not None and not write.target.subresource:
                found[_collection(write.target), write.name] = write.body
        return list(found.values())


def _collection(target: Target) -> Target:
    return Target(target.group, target.version, target.namespace, target.plural, "", "")


def is_dry_run(client: KubeClient) -> bool:
    return isinstance(client, JournalingClient) and client.dry_run


class JournalingClient(KubeClient):
    def __init__(self, inner: KubeClient, journal: Journal, *, dry_run: bool = False) -> None:
        self._inner = inner
        self.journal = journal
        self.dry_run = dry_run
        self._made: dict[str, Object | None] = {}
        """In a dry run, by path: what would be there now. None: deleted."""

    @property
    def server(self) -> str:
        return self._inner.server

    def as_user(self, name: str) -> JournalingClient:
        other = JournalingClient(self._inner.as_user(name), self.journal, dry_run=self.dry_run)
        other._made = self._made
        return other

    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        target = Target.of(path)
        if method in ("GET", "HEAD"):
            return self._remembered(path) or await self._inner.exchange(method, path, query, body, media, idempotent=idempotent)
        if target is None or target.plural in REVIEWS:
            return await self._inner.exchange(method, path, query, body, media, idempotent=idempotent)
        write = Write(_verb(method, media), target, _document(body))
        if self.dry_run:
            answer = await self._pretend(method, path, query, body, media, write)
        else:
            answer = await self._inner.exchange(method, path, query, body, media, idempotent=idempotent)
        self.journal.writes.append(write)
        return answer

    def _remembered(self, path: str) -> bytes | None:
        if path not in self._made:
            return None
        found = self._made[path]
        if found is None:
            raise NotFound(404, "NotFound", f"{path}: deleted in this dry run")
        return orjson.dumps(found)

    async def _pretend(self, method: str, path: str, query: Query, body: bytes | None, media: str, write: Write) -> bytes:
        place = path if write.target.name else f"{path}/{write.name}"
        if write.verb == "delete" and write.body is not None:
            # Options of a deletion count where there is a body; the query is not looked at then.
            body = orjson.dumps({**write.body, "dryRun": ["All"]})
        try:
            answer = await self._inner.exchange(method, path, {**query, "dryRun": "All"}, body, media, idempotent=True)
        except (NotFound, Conflict):
            # A Conflict over the revision of something that only exists here.
            if not self._made_here(write.target, place):
                raise
            answer = orjson.dumps(self._imagine(place, write))
        if write.verb == "delete":
            self._made[place] = None
        elif not write.target.subresource:
            self._made[place] = orjson.loads(answer)
        return answer

    def _made_here(self, target: Target, place: str) -> bool:
        needed = [place, NAMESPACES.path(name=target.namespace), CRDS.path(name=f"{target.plural}.{target.group}")]
        return any(self._made.get(path) is not None for path in needed)

    def _imagine(self, place: str, write: Write) -> Object:
        body = write.body or {}
        if write.verb == "patch":
            patched: Object = apply_merge_patch(self._made.get(place) or {}, body)
            return patched
        metadata = {"uid": "", "resourceVersion": "0", "generation": 1, **(body.get("metadata") or {})}
        return {**body, "metadata": metadata}

    def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        return self._inner.lines(path, query, timeout, opened)

    async def close(self) -> None:
        await self._inner.close()


def _verb(method: str, media: str) -> str:
    if method == "PATCH":
        return "apply" if media == APPLY else "patch"
    return {"POST": "create", "PUT": "update", "DELETE": "delete"}[method]


def _document(body: bytes | None) -> Document | None:
    decoded = orjson.loads(body) if body else None
    return decoded if isinstance(decoded, dict) else None
