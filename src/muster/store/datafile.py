"""The SQLite file under a store: opening it safely, reading it at start, and the few transactions that change it.

Two tables. `obj` has the present: one row per key, or a tombstone (value NULL) where a key of the base layer was deleted. `log`
has the past, one row per revision, holding what the write *replaced*; together they give every retained event both versions
while each version is stored once. A deletion's row also has the bytes its event carries. The revision counter is never written
on its own: it is the newest log row, or the compaction mark when the log is empty. Both are rowid tables with pages of 8 KiB:
for values of a few kilobytes that costs a third of the processor time of WITHOUT ROWID and 4 KiB.

Everything here is synchronous and belongs to one thread. The connection holds the file exclusively as long as it is open, so a
second server on the same file fails at once instead of corrupting it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from muster.machinery.privatefiles import UnsafePath, make_private_directory, open_private
from muster.store.api import Entry, StoreError
from muster.store.buckets import BASE_REVISION, DELETE, DROP, PUT, TOMBSTONE
from muster.store.resident import Change, LogRow, ObjectRow

Synchronous = Literal["FULL", "NORMAL", "OFF"]

_APPLICATION_ID: Final = 0x4D555354
_SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE obj (
    cluster TEXT NOT NULL, resource TEXT NOT NULL, key TEXT NOT NULL, rev INTEGER NOT NULL, value BLOB,
    PRIMARY KEY (cluster, resource, key)
);
CREATE TABLE log (
    rev INTEGER PRIMARY KEY, cluster TEXT NOT NULL, resource TEXT NOT NULL, key TEXT NOT NULL, op INTEGER NOT NULL,
    previous_rev INTEGER, previous_value BLOB, value BLOB
);
CREATE TABLE mark (compacted INTEGER NOT NULL);
INSERT INTO mark VALUES (0);
"""
_LOCK_WAIT_SECONDS: Final = 1.0
_CACHE_KIB: Final = 2_048
_PAGE_BYTES: Final = 8_192
_COMPACTION_STEP: Final = 2_000
_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_FILESYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "beegfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.ceph"}
)


class LoggedChange(Change):
    """A change with the version it replaces, which is what the log keeps."""

    __slots__ = ("previous",)

    def __init__(self, cluster: str, resource: str, entry: Entry, op: int, previous: Entry | None) -> None:
        super().__init__(cluster, resource, entry, op)
        self.previous = previous


class DataFile:
    def __init__(self, path: Path, synchronous: Synchronous) -> None:
        self.path = path
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None

    def open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        connection: sqlite3.Connection | None = None
        try:
            make_private_directory(self.path.parent)
            _refuse_network_filesystem(self.path)
            # Secrets live in this file, and SQLite gives the files beside it the same mode.
            os.close(open_private(self.path, os.O_RDWR | os.O_CREAT))
            self._check_sidecar_files()
            connection = sqlite3.connect(self.path, timeout=_LOCK_WAIT_SECONDS, isolation_level=None)
            self._prepare(connection)
        except (sqlite3.Error, OSError) as error:
            if connection is not None:
                connection.close()
            raise StoreError(self._explain(error)) from error
        except StoreError:
            if connection is not None:
                connection.close()
            raise
        self._connection = connection
        return connection

    def _check_sidecar_files(self) -> None:
        """SQLite opens these itself, and would follow a link."""
        for suffix in ("-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.close(open_private(self.path.with_name(self.path.name + suffix), os.O_RDWR))

    def _prepare(self, connection: sqlite3.Connection) -> None:
        execute = connection.execute
        execute(f"PRAGMA page_size={_PAGE_BYTES}")
        execute("PRAGMA locking_mode=EXCLUSIVE")
        execute("BEGIN EXCLUSIVE").connection.commit()
        (application,) = execute("PRAGMA application_id").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION_ID:
            raise StoreError(f"{self.path} is a database of another program; choose another data directory")
        if version > _SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} was written by a newer Muster (format {version}, this one knows {_SCHEMA_VERSION}); "
                "upgrade Muster or choose another data directory"
            )
        execute("PRAGMA journal_mode=WAL")
        execute(f"PRAGMA synchronous={self._synchronous}")
        execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        execute(f"PRAGMA journal_size_limit={16 << 20}")
        if not tables:
            connection.executescript(
                f"BEGIN;{_SCHEMA} PRAGMA application_id={_APPLICATION_ID}; PRAGMA user_version={_SCHEMA_VERSION}; COMMIT;"
            )

    def _explain(self, error: Exception) -> str:
        if isinstance(error, UnsafePath):
            return f"{error.filename}: {error.strerror}"
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return f"{self.path} is in use by another process; stop that server or choose another data directory"
        if isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error):
            return f"{self.path} is not a database; move it away or choose another data directory"
        return f"cannot open {self.path}: {error}"

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Reading

    def revisions(self) -> tuple[int, int]:
        """The revision counter and the mark up to which history is gone."""
        (compacted,) = self.open().execute("SELECT compacted FROM mark").fetchone()
        (newest,) = self.open().execute("SELECT max(rev) FROM log").fetchone()
        return max(BASE_REVISION, compacted, newest or 0), compacted

    def objects(self) -> Iterator[ObjectRow]:
        return self.open().execute("SELECT cluster, resource, key, rev, value FROM obj")

    def log(self) -> Iterator[LogRow]:
        return self.open().execute(
            "SELECT rev, cluster, resource, key, op, previous_rev, previous_value, value FROM log ORDER BY rev DESC"
        )

    def backup(self, path: Path) -> None:
        """All of it in a new file, which is the owner's alone."""
        os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        copy = sqlite3.connect(path, isolation_level=None)
        try:
            self.open().backup(copy)
        finally:
            copy.close()

    def check(self) -> None:
        """Raises StoreError where pages or indexes are damaged."""
        try:
            (verdict,) = self.open().execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from None
        if verdict != "ok":
            raise StoreError(f"{self.path} is damaged: {verdict}")

    # Writing

    def write(self, changes: Sequence[LoggedChange]) -> None:
        """All changes durable, or an exception and none of them."""
        connection = self.open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO log VALUES (?,?,?,?,?,?,?,?)", [_log_row(change) for change in changes])
            last: dict[tuple[str, str, str], LoggedChange] = {}
            for change in changes:
                if change.op == DROP:
                    self._write_objects(connection, last)
                    last = {}
                    connection.execute("DELETE FROM obj WHERE cluster=?", (change.cluster,))
                else:
                    last[change.cluster, change.resource, change.entry.key] = change
            self._write_objects(connection, last)
            connection.execute("COMMIT")
        except BaseException:
            self._abandon(connection)
            raise

    def _write_objects(self, connection: sqlite3.Connection, last: dict[tuple[str, str, str], LoggedChange]) -> None:
        """Only the last change of a key matters to the present."""
        rows = [
            (*key, change.entry.revision, change.entry.value if change.op == PUT else None)
            for key, change in last.items()
            if change.op in (PUT, TOMBSTONE)
        ]
        gone = [key for key, change in last.items() if change.op == DELETE]
        if rows:
            connection.executemany(
                "INSERT INTO obj VALUES (?,?,?,?,?) ON CONFLICT DO UPDATE SET rev=excluded.rev, value=excluded.value", rows
            )
        if gone:
            connection.executemany("DELETE FROM obj WHERE cluster=? AND resource=? AND key=?", gone)

    def compact_some(self, keep_after: int) -> bool:
        """One short transaction of compaction; true once everything up to `keep_after` is gone."""
        connection = self.open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            (oldest,) = connection.execute("SELECT min(rev) FROM log").fetchone()
            until = keep_after if oldest is None else min(keep_after, oldest + _COMPACTION_STEP)
            connection.execute("DELETE FROM log WHERE rev<=?", (until,))
            connection.execute("UPDATE mark SET compacted=max(compacted, ?)", (until,))
            connection.execute("COMMIT")
        except BaseException:
            self._abandon(connection)
            raise
        return until == keep_after

    def _abandon(self, connection: sqlite3.Connection) -> None:
        """Undo the open transaction; a connection that cannot even do that is replaced at its next use."""
        try:
            if connection.in_transaction:
                connection.rollback()
        except sqlite3.Error:
            self.close()


def _log_row(change: LoggedChange) -> LogRow:
    entry, previous = change.entry, change.previous
    return (
        entry.revision,
        change.cluster,
        change.resource,
        entry.key,
        change.op,
        previous.revision if previous is not None else None,
        previous.value if previous is not None else None,
        entry.value if change.op in (DELETE, TOMBSTONE) else None,
    )


def _refuse_network_filesystem(path: Path) -> None:
    """SQLite's locks and shared log are not reliable over a network; on Linux, /proc lists the mounted file systems."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    where = path.resolve()
    best = (-1, "")
    for line in mounts:
        left, _, right = line.partition(" - ")
        point = Path(left.split(" ")[4].replace("\\040", " "))
        if where.is_relative_to(point):
            best = max(best, (len(point.parts), right.split(" ", 1)[0]))
    if best[1] in _NETWORK_FILESYSTEMS:
        raise StoreError(f"{path} is on a network filesystem ({best[1]}); choose a data directory on a local disk")
