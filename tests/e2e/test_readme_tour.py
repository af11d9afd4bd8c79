"""The pages that tell people what to type are right: their commands are run exactly as printed, in the order printed.

A block marked `sh` is for the reader to type, and so for us to run; others are not. Each page is played by one shell in an empty
directory, where its fleets live too, and the first command that fails ends it. `make setup` has been done by whoever runs tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tools.tour import commands

from tests.support.aws_site import HUB_ACCOUNT, MANAGED_ACCOUNT, open_aws_site
from tests.support.local_aws import REGION
from tests.support.peers import ROOT
from tests.support.planes import KubeOptions, KubePlane, write_contexts
from tests.support.processes import Server, python_path
from tests.support.sites import KUBE, beside_kube

local_fleet = pytest.mark.skipif(KUBE, reason="a local fleet stands on embedded control planes")
TOOLS = Path(sys.executable).parent
MARK = "+++ "
SECONDS = 240
"""A real cluster takes its time to remove namespaces with pods, and a busy machine to do anything."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for state in tmp_path.glob(".*/fleet.json"):
        down = [str(TOOLS / "muster"), "down", "--purge", "--data-dir", str(state.parent)]
        subprocess.run(down, capture_output=True, timeout=60, check=False)


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of two clusters that run pods, and are nobody's hub yet."""
    if KUBE:
        plane = KubePlane(tmp_path / "hub", KubeOptions(fsync=False, pods=True))
        try:
            plane.start()
            write_contexts(tmp_path / "kubeconfig", {"hub": plane.cluster, "cluster1": plane.extra("cluster1")})
            yield tmp_path / "kubeconfig"
        finally:
            plane.stop(kill=True)
        return
    data = tmp_path / "clusters"
    command = [sys.executable, "-m", "tests.e2e.node_host", "--data-dir", str(data), "--cluster", "hub", "--cluster", "cluster1"]
    server = Server("node host", command, tmp_path / "host.log", python_path(ROOT))
    server.start()
    try:
        server.wait_until((data / "kubeconfig").exists)
        yield data / "kubeconfig"
    finally:
        server.stop()


def play(page: str, place: Path, within: float = SECONDS, **more: str) -> dict[str, str]:
    """What each command said."""
    script = "set -eo pipefail\n" + "".join(f"echo {MARK}{number}\n{line}\n" for number, line in enumerate(commands(page)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS", "KUBE", "MUSTER"))}
    environment = {**kept, "PATH": f"{TOOLS}:{os.environ['PATH']}", "HOME": str(place), **more}
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = shell.communicate(timeout=within)
    finally:
        # A page may start processes of its own, which outlive a shell that fails.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    said = out.split(MARK)[1:]
    assert shell.returncode == 0, f"{commands(page)[len(said) - 1]}\n{said[-1]}\n{errors[-3000:]}"
    return {line: one.partition("\n")[2] for line, one in zip(commands(page), said, strict=True)}


@local_fleet
@pytest.mark.timeout(300)
def test_the_tour_is_what_the_readme_promises(place: Path) -> None:
    said = play("README.md", place)
    known = said["kubectl get managedcluster cluster3"]
    assert re.search(r"cluster3 +false", known), "it waits to be let in"
    assert "nothing wrong" in said["clusteradm doctor"]
    assert "Running" in said["kubectl --context cluster1 get pods -A"]
    works = said["clusteradm get works -o table"]
    assert re.search(r"hello +cluster1 +1 +True +True", works)
    assert re.search(r"hello +cluster3 +1 +True +True", works)
    assert "who: you" in said["kubectl --context cluster1 get configmap hello -o yaml"]
    assert "<default/hello> applied" in said["clusteradm get works hello --clusters cluster1"]
    assert "text: Hello, cluster2!" in said["kubectl --context cluster2 get configmap greeting -o yaml"]
    left = said["kubectl get managedclusters"]
    assert "cluster2" in left
    assert "cluster3" not in left
    assert sorted(entry.name for entry in place.iterdir() if entry.name != ".kube") == ["greeting.yaml", "hello.yaml"]


@beside_kube
@pytest.mark.timeout(300)
def test_the_quickstart_is_right(place: Path) -> None:
    said = play("docs/quickstart.md", place)
    assert re.search(r"edge +true +True +shops", said["clusteradm get clusters --clusterset shops -o table"])
    assert "nothing wrong" in said["clusteradm doctor cluster1"]
    assert "who: you" in said["kubectl --context cluster1 get configmap hello -o yaml"]
    assert re.search(r"hello +cluster1 +1 +True +True", said["clusteradm get works -o table"])
    assert re.search(r"cluster2 +true +true +true", said["muster status"]), "after it went on"
    assert not list(place.glob(".muster"))


@beside_kube
@pytest.mark.timeout(300)
def test_the_way_to_production_is_right(clusters: Path, place: Path) -> None:
    said = play("docs/production.md", place, KUBECONFIG=str(clusters))
    found = next(text for line, text in said.items() if line.startswith("clusteradm get clusters"))
    assert re.search(r"cluster1 +true +True", found)
    assert "cluster1: nothing wrong" in said["clusteradm doctor cluster1 --context hub"], "after the upgrade"
    assert "kind: ClusterManager" in (place / "hub.yaml").read_text()
    look = [str(TOOLS / "kubectl"), "--kubeconfig", str(clusters), "--context", "hub"]
    look += ["get", "crd,pods,clusterroles", "-A", "-o", "name"]
    left = subprocess.run(look, capture_output=True, text=True, timeout=30, check=True)
    assert "cluster-management" not in left.stdout, left.stdout


@beside_kube
@pytest.mark.timeout(400)
async def test_the_page_about_aws_is_right(place: Path) -> None:
    """On two clusters that a local AWS knows as EKS'."""
    async with open_aws_site(place / "site", "managed-0") as site:
        profiles = []
        for profile, account in (("hub", HUB_ACCOUNT), ("clusters", MANAGED_ACCOUNT)):
            key = await site.aws.administrator(account)
            profiles += [f"[profile {profile}]", f"aws_access_key_id = {key.access_key_id}"]
            profiles += [f"aws_secret_access_key = {key.secret_access_key}"]
        (place / "aws-config").write_text("\n".join(profiles))
        variables = {name: value for name, value in site.aws.environ(REGION).items() if "REGION" not in name}
        variables |= {"KUBECONFIG": str(site.kubeconfig), "AWS_CONFIG_FILE": str(place / "aws-config")}
        said = await asyncio.to_thread(partial(play, "docs/aws.md", place, 360, **variables))
        left = await site.roles()
    table = said["clusteradm get clusters --context hub-0 -o table"]
    assert re.search(r"managed-0 +true +True", table)
    looked = said["AWS_PROFILE=hub clusteradm doctor --context hub-0"]
    assert looked.count("nothing wrong") == 2, looked
    assert "arn:aws:iam::111111111111:role/hub-0_managed-cluster-identity-creator is there" in looked
    from_there = next(text for line, text in said.items() if "--managed-cluster-context" in line)
    assert "✓ agents' way to the hub" in from_there
    moved = said["AWS_PROFILE=hub clusteradm doctor managed-0 --context hub-0"]
    assert "managed-0: nothing wrong" in moved
    assert "✓ AWS mapping: an access entry knows" in moved
    assert "nothing is left on AWS" in said["AWS_PROFILE=hub clusteradm aws cleanup --context hub-0"]
    assert left == {"hub-0_managed-cluster-identity-creator"}


@beside_kube
@pytest.mark.timeout(300)
def test_the_page_about_grpc_is_right(place: Path) -> None:
    said = play("docs/grpc.md", place)
    assert re.search(r"cluster2 +true +true +true", said["muster status"])
    assert said["clusteradm doctor --kubeconfig .muster/kubeconfig --context hub"].count("✓ gRPC server: it answers") == 2
    assert re.search(r"cluster1 +true +True", said["clusteradm get clusters -o table"])
    assert "who" in said["kubectl --context cluster1 get configmap hello -n default -o jsonpath={.data}"]
    held = next(text for line, text in said.items() if "hub-kubeconfig-secret" in line)
    assert set(re.findall(r'"([^"]*)":', held)) == {"cluster-name", "agent-name", "tls.crt", "tls.key", "config.yaml"}
    audited = (place / "audit.log").read_text()
    assert '"username":"system:serviceaccount:open-cluster-management-hub:grpc-server-sa"' in audited, "the log tells who asks"
    assert '"username":"system:open-cluster-management:' not in audited
