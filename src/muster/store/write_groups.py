"""One group of writes to a shared database: its composition, and the result of each write inside the transaction.

The transaction locks the revision counter, so what it reads is current: a request whose expectation does not match the row (or,
without a row, the base layer) fails; the others get the next revisions in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from muster.store import database
from muster.store.api import ANY_REVISION, EncodeAt, Entry, StoreError
from muster.store.buckets import BASE_REVISION, DELETE, DROP, PUT, TOMBSTONE, Bucket
from muster.store.resident import Change

_LARGEST: Final = 512


class WriteRequest:
    """A write (or, without `encode`, the drop of a cluster) waiting for its transaction."""

    __slots__ = ("cluster", "delete", "done", "encode", "expect", "key", "resource")

    def __init__(
        self,
        cluster: str,
        resource: str,
        key: str,
        encode: EncodeAt | None,
        expect: int,
        delete: bool,
        done: asyncio.Future[Entry],
    ) -> None:
        self.cluster = cluster
        self.resource = resource
        self.key = key
        self.encode = encode
        self.expect = expect
        self.delete = delete
        self.done = done

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class WriteResult:
    """The result of a group's transaction: the changes with their requests, and the failed requests."""

    __slots__ = ("bases", "changes", "conflicts", "requests", "revision")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.changes: list[Change] = []
        self.bases: list[bytes | None] = []
        self.requests: list[WriteRequest] = []
        self.conflicts: list[WriteRequest] = []


def next_group(requests: deque[WriteRequest]) -> Sequence[WriteRequest]:
    """Take the oldest requests, each key once (a second write of a key waits for the next group); a drop goes alone."""
    group: list[WriteRequest] = []
    keys: set[tuple[str, str, str]] = set()
    waiting: list[WriteRequest] = []
    while requests and len(group) < _LARGEST:
        if requests[0].encode is None:
            if not group and not waiting:
                group.append(requests.popleft())
            break
        request = requests.popleft()
        key = (request.cluster, request.resource, request.key)
        if key in keys:
            waiting.append(request)
        else:
            keys.add(key)
            group.append(request)
    requests.extendleft(reversed(waiting))
    return group


async def decide(
    connection: Any, group: Sequence[WriteRequest], origin: int, bucket_of: Callable[[str, str], Bucket]
) -> WriteResult:
    """Lock the counter, check every expectation, and write what may be written."""
    outcome = WriteResult(await database.lock_counter(connection))
    if group[0].encode is None:
        change = Change(group[0].cluster, "", Entry("", outcome.revision + 1, b""), DROP)
        outcome.changes.append(change)
        outcome.requests.append(group[0])
        await database.drop(connection, change.cluster, change.entry.revision, origin)
        return outcome
    found = await database.heads(connection, [(request.cluster, request.resource, request.key) for request in group])
    for request, (revision, buried) in zip(group, found, strict=True):
        try:
            _consider(request, revision, buried, outcome, bucket_of(request.cluster, request.resource))
        except StoreError as error:
            request.fail(error)
    if outcome.changes:
        await database.write(connection, outcome.changes, outcome.bases, origin)
    return outcome


def _consider(request: WriteRequest, revision: int | None, buried: bool, outcome: WriteResult, bucket: Bucket) -> None:
    has_base = bucket.has_base(request.key)
    base = bucket.from_base(request.key) if has_base and revision is None else None
    head = BASE_REVISION if base is not None else revision if revision is not None and not buried else 0
    if (request.delete and not head) or request.expect not in (ANY_REVISION, head):
        outcome.conflicts.append(request)
        return
    following = outcome.revision + len(outcome.changes) + 1
    assert request.encode is not None
    try:
        entry = Entry(request.key, following, request.encode(following))
    except Exception as error:
        request.fail(error)
        return
    op = PUT if not request.delete else TOMBSTONE if has_base else DELETE
    outcome.changes.append(Change(request.cluster, bucket.resource, entry, op))
    outcome.bases.append(base.value if base is not None else None)
    outcome.requests.append(request)
