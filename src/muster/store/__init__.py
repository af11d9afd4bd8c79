"""Ordered, revisioned storage of keyed bytes for many logical clusters; `api.Store` is its interface.

`open_store("memory")`, `open_store("sqlite", data_dir)` or `open_store("sqlite:///file")`, and `open_store("postgresql://…")`
return the three backends; `start()` the result before use. They share their reads, history and watches (`resident`, `buckets`) and
differ in the medium only.
"""

from __future__ import annotations

from pathlib import Path

from muster.store.api import (
    ABSENT,
    ANY_REVISION,
    BaseLayer,
    Compacted,
    Conflict,
    EncodeAt,
    Entry,
    Event,
    Listener,
    Lost,
    Store,
    StoreError,
    Subscription,
    Unavailable,
)
from muster.store.memory import MemoryStore
from muster.store.resident import Retention

__all__ = [
    "ABSENT",
    "ANY_REVISION",
    "BaseLayer",
    "Compacted",
    "Conflict",
    "EncodeAt",
    "Entry",
    "Event",
    "Listener",
    "Lost",
    "MemoryStore",
    "Retention",
    "Store",
    "StoreError",
    "Subscription",
    "Unavailable",
    "open_store",
]


_SQLITE_FILE = "sqlite:///"


def open_store(spec: str, data_dir: Path | None = None) -> Store:
    """A store, not yet started, for `memory`, `sqlite` (kept in data_dir), a `sqlite:///` path (after the three slashes, so an
    absolute one has four) or a `postgresql://` address."""
    if spec == "memory":
        return MemoryStore()
    if spec == "sqlite":
        if data_dir is None:
            raise StoreError("the sqlite store needs a data directory")
        from muster.store.sqlite import SQLiteStore

        return SQLiteStore(data_dir / "muster.db")
    if spec.startswith(_SQLITE_FILE) and spec != _SQLITE_FILE:
        from muster.store.sqlite import SQLiteStore

        return SQLiteStore(Path(spec.removeprefix(_SQLITE_FILE)))
    if spec.startswith(("postgresql://", "postgres://")):
        from muster.store.postgres import PostgresStore

        return PostgresStore(spec)
    raise StoreError(
        f"unknown store {spec.split('://')[0]!r}: expected memory, sqlite, sqlite:///file or postgresql://host/database"
    )
