"""What `muster up` asks for of a gateway and of a hub that manages itself: written down, and agreed with."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from muster.cli.fleet.request import FleetRequest
from muster.cli.muster import main
from muster.fleet.local.directory import Fleet, FleetDirectory, FleetError
from tests.support.pages import documented_fields
from tests.support.processes import free_ports


def request(**asked: Any) -> FleetRequest:
    nothing = dict.fromkeys(("clusters", "auth", "aws_mode", "persistence", "database", "port"))
    return FleetRequest(**{**nothing, "ephemeral": False, **asked})


def written(path: Path, **asked: Any) -> Fleet:
    directory = FleetDirectory(path / "data")
    with directory.claimed():
        return request(port=0, **asked).record(directory)


@pytest.mark.parametrize(
    ("asked", "gateway"),
    [
        ({}, True),
        ({"gateway": True}, True),
        ({"gateway": False}, False),
        ({"persistence": "sql", "auth": "grpc"}, False),
        ({"persistence": "sql", "auth": "grpc", "gateway": False}, False),
    ],
)
def test_a_new_fleet_has_one_unless_it_cannot(tmp_path: Path, asked: dict[str, Any], gateway: bool) -> None:
    assert written(tmp_path, **asked).gateway is gateway
    assert written(tmp_path).gateway is gateway, "and the next time"


def test_a_hub_in_a_database_cannot_have_one(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="--gateway"):
        written(tmp_path, persistence="sql", auth="grpc", gateway=True)
    written(tmp_path, persistence="sql", auth="grpc")
    with pytest.raises(FleetError, match="--gateway"):
        written(tmp_path, gateway=True)


def test_it_can_be_had_later_and_is_not_taken_away_by_a_flag(tmp_path: Path) -> None:
    assert not written(tmp_path, gateway=False).gateway
    assert written(tmp_path, gateway=True).gateway
    with pytest.raises(FleetError, match="--no-gateway"):
        written(tmp_path, gateway=False)


def test_a_fleet_of_before_has_none(tmp_path: Path) -> None:
    directory = FleetDirectory(tmp_path / "data")
    written(tmp_path)
    record = msgspec.json.decode(directory.record.read_bytes())
    del record["gateway"]
    directory.record.write_bytes(msgspec.json.encode(record))
    assert not directory.existing().gateway


@pytest.mark.parametrize(("gateway", "words"), [(None, []), (True, ["--gateway"]), (False, ["--no-gateway"])])
def test_a_process_in_the_background_is_told(gateway: bool | None, words: list[str]) -> None:
    assert request(gateway=gateway).arguments() == words


def test_a_hub_is_a_cluster_of_its_own_where_that_is_asked_for(tmp_path: Path) -> None:
    fleet = written(tmp_path, hub_cluster="local")
    assert (fleet.hub_cluster, fleet.members) == ("local", ("cluster1", "cluster2"))
    assert written(tmp_path) == fleet, "and the next time"
    with pytest.raises(FleetError, match="has local for its hub"):
        written(tmp_path, hub_cluster="other")


def test_a_hub_can_become_one_later_under_a_name_that_is_free(tmp_path: Path) -> None:
    assert written(tmp_path).hub_cluster == ""
    with pytest.raises(FleetError, match="another cluster of this name"):
        written(tmp_path, hub_cluster="cluster1")
    assert written(tmp_path, hub_cluster="local").hub_cluster == "local"
    assert request(hub_cluster="local").arguments() == ["--hub-cluster", "local"]


@pytest.mark.parametrize("asked", [{"persistence": "sql", "auth": "grpc"}, {"auth": "awsirsa"}], ids=["database", "aws"])
def test_some_hubs_cannot_be_one(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(FleetError, match="--hub-cluster"):
        written(tmp_path, hub_cluster="local", **asked)
    written(tmp_path, **asked)
    with pytest.raises(FleetError, match="--hub-cluster"):
        written(tmp_path, hub_cluster="local")


def test_as_many_clusters_as_are_asked_for_whatever_they_are_called(tmp_path: Path) -> None:
    written(tmp_path, clusters=1)
    FleetDirectory(tmp_path / "data").edit(lambda fleet: fleet.with_cluster("edge"))
    assert written(tmp_path, clusters=2).members == ("cluster1", "edge")
    assert written(tmp_path, clusters=3).members == ("cluster1", "edge", "cluster2")


def test_a_stopped_fleet_is_not_said_to_be_anything(tmp_path: Path) -> None:
    written(tmp_path, clusters=1)
    words = ["status", "--data-dir", str(tmp_path / "data")]
    shown = CliRunner().invoke(main, words)
    assert shown.exit_code == 1
    assert shown.output.splitlines()[-1].split()[:5] == ["cluster1", *["unknown"] * 4]
    document = msgspec.json.decode(CliRunner().invoke(main, [*words, "-o", "json"]).output)
    (one,) = document["clusters"]
    assert [one[condition] for condition in ("accepted", "joined", "available", "gateway")] == [None] * 4
    assert document.keys() == documented_fields("muster status")
    assert one.keys() == documented_fields("muster status: clusters")
    assert CliRunner().invoke(main, [*words, "-o", "name"]).output == "managedcluster.cluster.open-cluster-management.io/cluster1\n"
    head = CliRunner().invoke(main, [*words, "-o", "wide"]).output.splitlines()[-2]
    assert head.split() == ["CLUSTER", "ACCEPTED", "JOINED", "AVAILABLE", "GATEWAY", "SERVER", "REASON"]


@pytest.mark.parametrize("detach", [[], ["--detach"]], ids=["here", "detached"])
def test_a_directory_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path, detach: list[str]) -> None:
    (tmp_path / "file").write_text("")
    refused = CliRunner().invoke(main, ["up", "--data-dir", str(tmp_path / "file/data"), "--port", "0", *detach])
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert f"{tmp_path}/file" in said
    assert "a file where a directory is needed: choose another --data-dir" in said
    assert "Errno" not in said


def test_whether_images_are_simulated_is_kept_until_it_is_asked_for_otherwise(tmp_path: Path) -> None:
    assert not written(tmp_path).simulate_images
    assert written(tmp_path, simulate_images=True).simulate_images
    assert written(tmp_path).simulate_images, "and the next time"
    directory = FleetDirectory(tmp_path / "data")
    with pytest.raises(FleetError, match=r"--no-simulate-images.*muster down"):
        request(simulate_images=False).check_running(directory.existing(), directory.path)
    request(simulate_images=True).check_running(directory.existing(), directory.path)
    assert not written(tmp_path, simulate_images=False).simulate_images
    assert "--simulate-images" in request(simulate_images=True).arguments()
    assert "--no-simulate-images" in request(simulate_images=False).arguments()


def started(path: Path, **asked: Any) -> Fleet:
    """As after a start in which everything was installed."""
    written(path, **asked)
    record = {"installed": "1"}
    return FleetDirectory(path / "data").edit(
        lambda fleet: msgspec.structs.replace(
            fleet, **record, clusters=tuple(msgspec.structs.replace(one, **record) for one in fleet.clusters)
        )
    )


def wished(path: Path, **asked: Any) -> Fleet:
    directory = FleetDirectory(path / "data")
    with directory.claimed():
        return request(**asked).record(directory)


@pytest.mark.parametrize("asked", [{"port": 0}, {}, {"host": "127.0.0.1"}, {"advertise": ""}])
def test_a_fleet_stays_where_it_is(tmp_path: Path, asked: dict[str, Any]) -> None:
    before = started(tmp_path)
    assert wished(tmp_path, **asked) == before


@pytest.mark.parametrize(
    ("asked", "address"),
    [
        ({"advertise": "muster.example"}, "muster.example"),
        ({"host": "0.0.0.0", "advertise": "192.0.2.7"}, "192.0.2.7"),
        ({"host": "::1"}, "::1"),
    ],
)
def test_what_knows_where_the_hub_is_is_installed_anew_after_a_move(tmp_path: Path, asked: dict[str, Any], address: str) -> None:
    started(tmp_path)
    (port,) = free_ports(1)
    moved = wished(tmp_path, port=port, **asked)
    assert (moved.port, moved.address) == (port, address)
    assert [moved.installed, *(one.installed for one in moved.clusters)] == ["", "", ""]
    assert wished(tmp_path) == moved, "and there it stays"


def test_a_fleet_whose_port_is_taken_moves_when_any_will_do(tmp_path: Path) -> None:
    before = started(tmp_path)
    with socket.create_server(("127.0.0.1", before.port)):
        with pytest.raises(FleetError, match="move the fleet with --port 0"):
            wished(tmp_path)
        assert wished(tmp_path, port=0).port != before.port


def test_where_everybody_may_come_from_this_machines_own_address_is_told(tmp_path: Path) -> None:
    address = written(tmp_path, host="0.0.0.0").address
    assert not ip_address(address).is_unspecified


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"host": "muster.example"}, "give an IP address"),
        ({"persistence": "sql", "auth": "grpc", "host": "127.0.0.2"}, "from this machine alone"),
        ({"auth": "awsirsa", "advertise": "muster.example"}, "from this machine alone"),
    ],
)
def test_addresses_that_cannot_be_had_are_refused(tmp_path: Path, asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(FleetError, match=problem):
        written(tmp_path, **asked)


def test_a_process_in_the_background_is_told_where_to_listen() -> None:
    assert request(host="::1", advertise="a").arguments() == ["--host", "::1", "--advertise", "a"]
