"""One store per medium on which a hub without Kubernetes stands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.unit.store.conftest import new_database
from tests.unit.store.postgres_server import PostgresServer
from tests.unit.transport.services.store.hubs import RunningHub, running_hub


@pytest.fixture(scope="package")
def database_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def postgres(database_server: PostgresServer) -> str:
    """The address of an empty database."""
    return await new_database(database_server)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres"))
    return f"sqlite:///{tmp_path}/hub.db"


@pytest.fixture
async def hub(database: str, tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(database, tmp_path) as running:
        yield running
