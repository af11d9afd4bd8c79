"""Upstream's `clusteradm` with a hub of ours: it hands out a token, lists the clusters and accepts one that joined by that token.

It is the peers' v1.3.1, or one that somebody has built from upstream's repository and names in MUSTER_GO_CLUSTERADM.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import peers
from tests.support.processes import free_ports

UPSTREAM = os.environ.get("MUSTER_GO_CLUSTERADM") or peers.find("clusteradm") or ""
BIN = peers.ROOT / ".venv/bin"

pytestmark = pytest.mark.skipif(not UPSTREAM, reason="upstream's clusteradm is not built: make -C peers clusteradm")


def run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, f"{Path(command[0]).name} {command[1]} ended with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """A hub with one cluster, and a control plane that is to become the second."""
    hub, newcomer = tmp_path_factory.mktemp("hub") / "fleet", tmp_path_factory.mktemp("newcomer") / "fleet"
    ports = free_ports(2)
    try:
        for directory, clusters, port in ((hub, 1, ports[0]), (newcomer, 0, ports[1])):
            run(BIN / "muster", "up", "--data-dir", directory, "--clusters", str(clusters), "--port", str(port), "--detach")
        yield hub, newcomer
    finally:
        for directory in (hub, newcomer):
            subprocess.run(
                [BIN / "muster", "down", "--data-dir", directory, "--purge"], capture_output=True, timeout=60, check=False
            )


@pytest.mark.timeout(300)
def test_upstreams_clusteradm_hands_out_a_token_lists_clusters_and_accepts_one(
    directories: tuple[Path, Path], tmp_path: Path
) -> None:
    hub, newcomer = directories
    on_hub = ("--kubeconfig", hub / "kubeconfig", "--context", "hub")
    assert "cluster1" in run(UPSTREAM, "get", "clusters", *on_hub)

    given = json.loads(run(UPSTREAM, "get", "token", "-o", "json", *on_hub))
    kubeconfig = yaml.safe_load((hub / "kubeconfig").read_text())
    endpoint = next(entry["cluster"] for entry in kubeconfig["clusters"] if entry["name"] == "hub")
    assert given["hub-apiserver"] == endpoint["server"]
    ca = tmp_path / "ca.crt"
    ca.write_bytes(yaml.safe_load(f"!!binary {endpoint['certificate-authority-data']}"))

    joining = ("join", "--hub-token", given["hub-token"], "--hub-apiserver", given["hub-apiserver"], "--ca-file", ca)
    on_newcomer = ("--kubeconfig", newcomer / "kubeconfig", "--context", "hub")
    run(BIN / "clusteradm", *joining, "--cluster-name", "second", "--wait", *on_newcomer)
    run(UPSTREAM, "accept", "--clusters", "second", "--wait", *on_hub)
    wait = ("wait", "managedcluster/second", "--for=condition=ManagedClusterConditionAvailable", "--timeout=60s")
    run(BIN / "kubectl", *wait, *on_hub)
    assert "second" in run(UPSTREAM, "get", "clusters", *on_hub)
