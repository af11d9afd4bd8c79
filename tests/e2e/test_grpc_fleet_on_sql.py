"""`muster up --auth grpc --persistence sql`: the fleet's hub is a database, SQLite or PostgreSQL, and the gRPC server before it."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.test_grpc_fleet import record
from tests.support.local_fleet import Fleet, hub_certificate, names
from tests.support.processes import free_ports
from tests.support.sites import beside_kube
from tests.unit.store.conftest import new_database
from tests.unit.store.postgres_server import PostgresServer

pytestmark = beside_kube

SQL = ("--auth", "grpc", "--persistence", "sql")


@pytest.fixture(scope="module")
def database_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def on_postgres(database_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    database = asyncio.run(new_database(database_server))
    made = Fleet(tmp_path_factory.mktemp("postgres-fleet") / "data")
    made("up", "--detach", "--port", "0", *SQL, "--database", database, "--clusters", "1")
    yield made
    made.end()


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("sqlite-fleet") / "data")
    made("up", "--detach", "--port", "0", *SQL, "--clusters", "1")
    yield made
    made.end()


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest) -> Fleet:
    found: Fleet = request.getfixturevalue(f"on_{request.param}")
    return found


def test_the_hub_is_in_the_database_and_has_neither_pods_nor_an_operator(fleet: Fleet) -> None:
    found = record(fleet)
    known = json.loads(fleet.kubectl("config", "view", "-o", "json"))["clusters"]
    servers = {one["name"]: one["cluster"]["server"] for one in known}
    assert servers["hub"] == f"https://127.0.0.1:{found['port']}/clusters/hub"
    assert servers["cluster1"] == f"https://127.0.0.1:{found['clusters_port']}/clusters/cluster1"
    assert fleet.kubectl("get", "pods", "-A", "-o", "name") == ""
    assert 'event="hub serves"' in fleet("logs", "hub").out
    assert "clustermanagers" not in fleet.kubectl("api-resources", "-o", "name")
    assert fleet.kubectl("get", "managedclusters", "-o", "jsonpath={.items[*].metadata.name}") == "cluster1"


def test_works_are_applied_and_taken_away_and_clusters_come_and_go(on_sqlite: Fleet) -> None:
    fleet = on_sqlite
    fleet.work("cluster1")
    fleet.kubectl("delete", "manifestwork", "hello", "-n", "cluster1", "--timeout=30s")
    assert fleet.kubectl("get", "configmap", "hello", "--ignore-not-found", "-o", "name", context="cluster1") == ""
    fleet("cluster", "add", "edge")
    assert names(fleet) == ["cluster1", "edge"]
    fleet("cluster", "remove", "edge")
    assert names(fleet) == ["cluster1"]
    assert fleet.kubectl("get", "managedclusters", "-o", "jsonpath={.items[*].metadata.name}") == "cluster1"


def test_a_fleet_that_was_killed_goes_on_where_it_ended(fleet: Fleet) -> None:
    before, known = hub_certificate(fleet), record(fleet)
    fleet.kill()
    fleet("up", "-d", *SQL)
    assert record(fleet) == known
    assert hub_certificate(fleet) == before
    assert fleet("status").code == 0
    fleet.work("cluster1")


def test_a_fleet_moves_to_another_port_with_its_hub(fleet: Fleet) -> None:
    before = hub_certificate(fleet)
    fleet("down")
    (port,) = free_ports(1)
    fleet("up", "-d", *SQL, "--port", str(port))
    assert fleet.status()["url"] == f"https://127.0.0.1:{port}"
    assert all(one["available"] for one in fleet.status()["clusters"])
    assert hub_certificate(fleet) == before, "it is the same cluster"
    fleet.work("cluster1")
    fleet.kubectl("delete", "manifestwork", "hello", "-n", "cluster1", "--timeout=30s")


def test_a_database_of_its_own_is_in_the_data_directory(on_sqlite: Fleet) -> None:
    file = on_sqlite.directory / "hub" / "hub.db"
    assert record(on_sqlite)["database"] == ""
    for kept in (file, on_sqlite.directory / "hub" / "signer.key", on_sqlite.directory / "fleet.json"):
        assert stat.S_IMODE(kept.stat().st_mode) & 0o077 == 0, kept


def test_where_a_hub_is_kept_is_decided_once(on_postgres: Fleet, database_server: PostgresServer) -> None:
    before = hub_certificate(on_postgres)
    on_postgres("down")
    path = str(on_postgres.directory)
    assert f"the hub of the fleet in {path} is on sql" in on_postgres("up", "-d", "--persistence", "kube", code=1).err
    other = asyncio.run(new_database(database_server))
    assert f"the hub of the fleet in {path} is in another one" in on_postgres("up", "-d", "--database", other, code=1).err
    on_postgres("up", "-d", "--database", str(record(on_postgres)["database"]))
    assert hub_certificate(on_postgres) == before


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--persistence", "sql"), "--persistence sql needs --auth grpc"),
        (("--persistence", "sql", "--auth", "csr"), "--persistence sql needs --auth grpc"),
        (("--auth", "grpc", "--database", "sqlite:///a.db"), "--database is for --persistence sql"),
        ((*SQL, "--ephemeral"), "--ephemeral keeps nothing"),
    ],
)
@pytest.mark.parametrize("how", [("-d",), ()])
def test_what_does_not_go_together_is_refused_before_anything_is_made(
    tmp_path: Path, words: tuple[str, ...], reason: str, how: tuple[str, ...]
) -> None:
    fleet = Fleet(tmp_path / "data")
    assert reason in fleet("up", *how, *words, code=1).err
    assert not (tmp_path / "data" / "fleet.json").exists()


def test_a_database_that_is_none_is_refused_without_saying_what_is_in_its_address(tmp_path: Path) -> None:
    refused = Fleet(tmp_path / "data")("up", *SQL, "--database", "mysql://root:secret@host/hub", code=2).err
    assert "'mysql' is no database that is known" in refused
    assert "secret" not in refused


def test_a_database_that_does_not_answer_is_named_and_its_password_is_not(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    fleet = Fleet(tmp_path / "data")
    refused = fleet("up", "-d", *SQL, "--database", f"postgresql://muster:secret@127.0.0.1:{port}/hub", code=1).err
    assert "PostgreSQL 127.0.0.1 hub" in refused
    assert "muster down --purge" in refused
    assert "secret" not in refused
    purged = fleet("down", "--purge").out
    assert "still in the PostgreSQL database hub on 127.0.0.1" in purged
    assert "secret" not in purged
