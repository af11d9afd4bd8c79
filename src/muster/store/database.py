"""The PostgreSQL statements under a store: schema, loading, one group of writes, the tail of the log, compaction.

Each function takes a connection (asyncpg) and is one step; which connection, when, and what to do on failure is decided in
`postgres`. The tables are those of `migrations/`. As in the SQLite file, a log row holds the version its write replaced, so the
new version of a write is the present object if nothing came after, else what the next write of that key replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, Final

from muster.store.api import Entry, StoreError
from muster.store.buckets import DROP, PUT
from muster.store.resident import Change, LogRow, ObjectRow

CHANNEL: Final = "muster"
_COMPACTION_STEP: Final = 2_000
_MIGRATION_LOCK: Final = 0x6D757374

_LOCK_COUNTER: Final = "SELECT revision FROM muster_mark FOR UPDATE"
_HEADS: Final = """
SELECT o.rev, o.value IS NULL AS buried
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w(cluster, resource, key, place)
LEFT JOIN muster_obj o USING (cluster, resource, key)
ORDER BY w.place
"""
_WRITE: Final = """
WITH w AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bytea[], $7::bytea[])
    AS w(rev, cluster, resource, key, op, value, base)
), logged AS (
    INSERT INTO muster_log
    SELECT w.rev, w.cluster, w.resource, w.key, w.op,
        CASE WHEN o.value IS NOT NULL THEN o.rev WHEN w.base IS NOT NULL THEN 1 END, coalesce(o.value, w.base),
        CASE WHEN w.op <> 0 THEN w.value END, $8::bigint
    FROM w LEFT JOIN muster_obj o USING (cluster, resource, key)
), kept AS (
    INSERT INTO muster_obj
    SELECT w.cluster, w.resource, w.key, w.rev, CASE WHEN w.op = 0 THEN w.value END FROM w WHERE w.op IN (0, 2)
    ON CONFLICT (cluster, resource, key) DO UPDATE SET rev = excluded.rev, value = excluded.value
), gone AS (
    DELETE FROM muster_obj o USING w WHERE w.op = 1 AND (o.cluster, o.resource, o.key) = (w.cluster, w.resource, w.key)
), counted AS (
    UPDATE muster_mark SET revision = $9::bigint
)
SELECT pg_notify($10, $9::text)
"""
_DROP: Final = """
WITH gone AS (DELETE FROM muster_obj WHERE cluster = $2), counted AS (UPDATE muster_mark SET revision = $1::bigint),
logged AS (INSERT INTO muster_log VALUES ($1, $2, '', '', $3, NULL, NULL, NULL, $4))
SELECT pg_notify($5, $1::text)
"""
_TAIL: Final = """
SELECT l.rev, l.cluster, l.resource, l.key, l.op, l.value, l.previous_rev,
    CASE WHEN l.previous_rev > $1 THEN l.previous_value END AS replaced, o.value AS present
FROM muster_log l LEFT JOIN muster_obj o
    ON (o.cluster, o.resource, o.key) = (l.cluster, l.resource, l.key) AND o.rev = l.rev
WHERE l.rev > $1 ORDER BY l.rev
"""


async def migrate(connection: Any) -> None:
    """Bring the schema up to date; of several servers starting together one does it and the others wait."""
    steps = sorted(
        (int(file.name.split("_", 1)[0]), file.read_text(encoding="utf-8"))
        for file in resources.files("muster.store").joinpath("migrations").iterdir()
        if file.name.endswith(".sql")
    )
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
        await connection.execute("CREATE TABLE IF NOT EXISTS muster_migration (number int PRIMARY KEY)")
        done = await connection.fetchval("SELECT coalesce(max(number), 0) FROM muster_migration")
        if done > steps[-1][0]:
            raise StoreError(
                f"the database was written by a newer Muster (format {done}, this one knows {steps[-1][0]}); upgrade Muster"
            )
        for number, script in steps:
            if number > done:
                await connection.execute(script)
                await connection.execute("INSERT INTO muster_migration VALUES ($1)", number)


async def load(connection: Any, events: int) -> tuple[Sequence[ObjectRow], Sequence[LogRow], int, int]:
    """Objects, the newest `events` log rows (newest first), the counter and the compaction mark, all of one moment."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        revision = await counter(connection)
        compacted = await connection.fetchval("SELECT compacted FROM muster_compaction")
        objects = await connection.fetch("SELECT cluster, resource, key, rev, value FROM muster_obj ORDER BY 1, 2")
        log = await connection.fetch(
            "SELECT rev, cluster, resource, key, op, previous_rev, previous_value, value FROM muster_log "
            "ORDER BY rev DESC LIMIT $1",
            events + 1,
        )
    return objects, log, revision, compacted


async def counter(connection: Any) -> int:
    revision: int = await connection.fetchval("SELECT revision FROM muster_mark")
    return revision


async def lock_counter(connection: Any) -> int:
    """The newest revision; no other server commits until the caller's transaction ends."""
    revision: int = await connection.fetchval(_LOCK_COUNTER)
    return revision


async def heads(connection: Any, keys: Sequence[tuple[str, str, str]]) -> Sequence[tuple[int | None, bool]]:
    """For each key its revision (None: no row) and whether the row is a tombstone."""
    rows = await connection.fetch(_HEADS, *map(list, zip(*keys, strict=True)))
    return [(row["rev"], row["buried"]) for row in rows]


async def write(connection: Any, changes: Sequence[Change], bases: Sequence[bytes | None], origin: int) -> None:
    """Write changes of distinct keys; `bases` has what each replaces if that came from the base layer."""
    await connection.fetchval(
        _WRITE,
        [change.entry.revision for change in changes],
        [change.cluster for change in changes],
        [change.resource for change in changes],
        [change.entry.key for change in changes],
        [change.op for change in changes],
        [change.entry.value for change in changes],
        bases,
        origin,
        changes[-1].entry.revision,
        CHANNEL,
    )


async def drop(connection: Any, cluster: str, revision: int, origin: int) -> None:
    await connection.fetchval(_DROP, revision, cluster, DROP, origin, CHANNEL)


async def was_written(connection: Any, revision: int, origin: int) -> bool:
    """Whether a transaction with an unknown outcome was committed; waits for it if it still runs."""
    async with connection.transaction():
        await lock_counter(connection)
        found: bool = await connection.fetchval(
            "SELECT EXISTS (SELECT FROM muster_log WHERE rev = $1 AND origin = $2)", revision, origin
        )
        return found


async def tail(connection: Any, after: int, timeout: float) -> tuple[int | None, Sequence[Change]]:
    """The first revision found after `after`, and all changes since, in order. Changes of a cluster before it was dropped are left
    out: those versions are gone."""
    rows = await connection.fetch(_TAIL, after, timeout=timeout)
    changes: list[Change] = []
    dropped: set[str] = set()
    replaced: dict[tuple[str, str, str, int], bytes] = {}
    for row in reversed(rows):
        cluster, resource, key, revision, op = row["cluster"], row["resource"], row["key"], row["rev"], row["op"]
        if cluster in dropped:
            continue
        if op == DROP:
            dropped.add(cluster)
        if row["replaced"] is not None:
            replaced[cluster, resource, key, row["previous_rev"]] = row["replaced"]
        value = row["value"]
        if op == PUT:
            value = row["present"]
            if value is None:
                value = replaced[cluster, resource, key, revision]
        changes.append(Change(cluster, resource, Entry(key, revision, value or b""), op))
    changes.reverse()
    return (rows[0]["rev"] if rows else None), changes


async def compact(connection: Any, keep_after: int) -> None:
    """Drop history in short transactions; the mark is written first so that no reader relies on rows that are being deleted."""
    await connection.execute("UPDATE muster_compaction SET compacted = greatest(compacted, $1)", keep_after)
    oldest = await connection.fetchval("SELECT min(rev) FROM muster_log")
    for until in _steps(oldest, keep_after):
        await connection.execute("DELETE FROM muster_log WHERE rev <= $1", until)


def _steps(oldest: int | None, keep_after: int) -> Iterable[int]:
    if oldest is not None and oldest <= keep_after:
        yield from range(oldest + _COMPACTION_STEP, keep_after, _COMPACTION_STEP)
        yield keep_after
