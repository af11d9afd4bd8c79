"""Each behaviour is tested on every backend: `medium` opens stores on one medium that outlives the single store."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from muster.store import MemoryStore, Retention, Store
from muster.store.postgres import PostgresStore
from muster.store.sqlite import SQLiteStore
from tests.unit.store.postgres_server import PostgresServer

_databases = itertools.count()


class Medium:
    """Where a store keeps its data. `open` gives a started store; all of them are closed after the test."""

    def __init__(self, kind: str, place: str | Path | None = None) -> None:
        self.kind = kind
        self.place = place
        self.stores: list[Store] = []

    def make(self, retention: Retention | None = None) -> Store:
        if self.kind == "memory":
            return MemoryStore(retention)
        if isinstance(self.place, Path):
            return SQLiteStore(self.place, retention=retention)
        assert isinstance(self.place, str)
        return PostgresStore(self.place, retention=retention)

    async def open(self, retention: Retention | None = None) -> Store:
        store = self.make(retention)
        await store.start()
        self.stores.append(store)
        return store

    async def reopen(self, retention: Retention | None = None) -> Store:
        """What a restarted server sees."""
        await self.close()
        return await self.open(retention)

    async def close(self) -> None:
        for store in self.stores:
            await store.close()
        self.stores.clear()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


async def new_database(server: PostgresServer) -> str:
    name = f"store{next(_databases)}"
    connection = await asyncpg.connect(server.dsn("postgres"))
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return server.dsn(name)


async def make_medium(kind: str, directory: Path, request: pytest.FixtureRequest) -> Medium:
    if kind == "postgres":
        return Medium(kind, await new_database(request.getfixturevalue("postgres_server")))
    return Medium(kind, directory / "muster.db" if kind == "sqlite" else None)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def medium(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Medium]:
    medium = await make_medium(request.param, tmp_path, request)
    yield medium
    await medium.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def durable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Medium]:
    medium = await make_medium(request.param, tmp_path, request)
    yield medium
    await medium.close()


@pytest.fixture
async def shared(postgres_server: PostgresServer) -> AsyncIterator[Medium]:
    """One database for several servers."""
    medium = Medium("postgres", await new_database(postgres_server))
    yield medium
    await medium.close()
