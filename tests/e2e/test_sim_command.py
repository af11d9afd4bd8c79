"""`muster sim`: real agents join a real hub in another process, and the report and exit code say how it went."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import peers
from tests.support.sites import beside_kube

MUSTER = peers.ROOT / ".venv/bin/muster"


def simulate(*flags: str) -> tuple[int, dict[str, Any]]:
    command = [str(MUSTER), "sim", "--output=json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.timeout(120)
def test_clusters_join_and_stay_and_nothing_is_left_running(tmp_path: Path) -> None:
    code, report = simulate("--clusters=3", "--duration=15s", f"--data-dir={tmp_path}")
    assert (code, report["good"]) == (0, True)
    assert report["available_at_end"] == report["lowest_since"] == 3
    assert report["all_available_after"] < 15
    assert report["requests_per_join"] > 5
    assert report["hub_mib"] > 1
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed


@beside_kube
@pytest.mark.timeout(120)
def test_clusters_join_and_stay_over_grpc(tmp_path: Path) -> None:
    code, report = simulate("--clusters=3", "--duration=15s", "--auth=grpc", f"--data-dir={tmp_path}")
    assert (code, report["good"]) == (0, True)
    assert report["available_at_end"] == report["lowest_since"] == 3
    config = (tmp_path / "agents/cluster0000/config.yaml").read_text()
    assert "clientCertFile" in config, "and by gRPC it is that they live there"
    assert not (tmp_path / "agents/cluster0000/kubeconfig").exists()


@beside_kube
@pytest.mark.timeout(120)
def test_an_addon_becomes_available_on_all_clusters(tmp_path: Path) -> None:
    code, report = simulate("--clusters=3", "--duration=25s", "--addon", f"--data-dir={tmp_path}")
    assert report["addon_available_at_end"] == 3
    assert report["addon_available_after"] < 20
    assert report["addon_writes"] <= 8
    assert (code, report["good"], report["agent_restarts"]) == (0, True, 0)


@beside_kube
@pytest.mark.timeout(120)
def test_an_addon_that_is_not_available_in_time_is_a_failure() -> None:
    code, report = simulate("--clusters=1", "--duration=8s", "--addon", "--addon-within=1ms", "--ephemeral")
    assert (code, report["good"]) == (1, False)


@beside_kube
@pytest.mark.timeout(120)
def test_clusters_that_do_not_join_in_time_are_a_failure() -> None:
    code, report = simulate("--clusters=1", "--duration=2s", "--join-within=1ms", "--ephemeral")
    assert (code, report["good"]) == (1, False)


def test_a_number_that_makes_no_sense_is_refused_with_a_word() -> None:
    done = subprocess.run([str(MUSTER), "sim", "--clusters=0"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "--clusters" in done.stderr


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
def test_it_can_be_stopped_at_any_time_and_takes_its_hub_along(tmp_path: Path, how: signal.Signals, code: int) -> None:
    command = [str(MUSTER), "sim", "--clusters=5", f"--data-dir={tmp_path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    assert "started" in process.stderr.readline()
    os.killpg(process.pid, how)  # as a terminal does
    _, complaint = process.communicate(timeout=40)
    assert process.returncode == code
    assert "Traceback" not in complaint
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed
