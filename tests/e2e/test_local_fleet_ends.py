"""Fleets of `muster up` that end and go on: stopped, killed, asked for more, on their port, and those that leave nothing."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess

import pytest

from tests.support.local_fleet import MUSTER, Fleet, names
from tests.support.processes import free_ports
from tests.support.sites import beside_kube

pytestmark = beside_kube


def test_more_clusters_can_be_asked_for_later_and_none_is_lost(fresh: Fleet) -> None:
    fresh("up", "-d", "--port", "0", "--clusters", "0")
    assert names(fresh) == []
    fresh("down")
    fresh("up", "-d", "--clusters", "1")
    assert names(fresh) == ["cluster1"]
    fresh("down")
    fresh("up", "-d")
    assert names(fresh) == ["cluster1"]


@pytest.mark.parametrize("seed", range(int(os.environ.get("MUSTER_FLEET_KILLS", "1"))))
def test_an_up_that_is_killed_at_any_moment_is_finished_by_the_next(fresh: Fleet, seed: int) -> None:
    chance = random.Random(seed)
    for attempt in range(3):
        command = [*MUSTER, "up", "--data-dir", str(fresh.directory), "--clusters", "2", *(["--port", "0"] if not attempt else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
            moment = chance.uniform(0.3, 4.5)
            with contextlib.suppress(subprocess.TimeoutExpired):
                output, _ = running.communicate(timeout=moment)
                raise AssertionError(f"up ended by itself: {output.decode()}")
            running.kill()
    fresh("up", "-d", "--clusters", "2", *([] if (fresh.directory / "fleet.json").exists() else ["--port", "0"]))
    assert [one["name"] for one in fresh.status()["clusters"] if one["available"]] == ["cluster1", "cluster2"]
    requests = json.loads(fresh.kubectl("get", "managedclusters", "-o", "json"))["items"]
    assert len(requests) == 2


def test_ctrl_c_ends_it_well_and_says_that_all_is_kept(fresh: Fleet) -> None:
    command = [*MUSTER, "up", "--data-dir", str(fresh.directory), "--clusters", "1", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert any("Stop with Ctrl-C" in line for line in running.stdout)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "kept" in out
    fresh("up", "-d")


def test_a_fleet_stays_on_its_port(fresh: Fleet) -> None:
    (first,) = free_ports(1)
    fresh("up", "-d", "--port", str(first), "--clusters", "0")
    fresh("down")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert f"port {first}, where this fleet is at home, is taken" in fresh("up", "-d", code=1).err
    fresh("up", "-d")


def test_an_ephemeral_fleet_leaves_nothing(fresh: Fleet) -> None:
    fresh("up", "-d", "--port", "0", "--clusters", "1", "--ephemeral")
    assert not list(fresh.directory.glob("*.db*"))
    fresh("down")
    assert not fresh.directory.exists()


def test_an_ephemeral_fleet_that_was_killed_begins_anew(fresh: Fleet) -> None:
    fresh("up", "-d", "--port", "0", "--clusters", "0", "--ephemeral")
    fresh.kubectl("create", "configmap", "gone")
    fresh.kill()
    fresh("up", "-d", "--port", "0", "--clusters", "0", "--ephemeral")
    assert fresh.kubectl("get", "configmap", "gone", "--ignore-not-found") == ""
