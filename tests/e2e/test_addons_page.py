"""The page about addons is right: its commands are run as printed, on a local fleet of two clusters, and so is its example."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import executable
from tests.support.local_fleet import Fleet, eventually
from tests.support.peers import ROOT
from tests.support.sites import beside_kube

pytestmark = beside_kube
PAGE = ROOT / "docs/addons.md"


def fences() -> list[tuple[str, str]]:
    """All blocks, with what they say they are."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path / "fleet")
    try:
        fleet("up", "--detach", "--clusters", "2", "--port", "0")
        yield fleet
    finally:
        fleet.end()


def test_what_the_page_says_to_type_works(fleet: Fleet, tmp_path: Path) -> None:
    kubectl = executable()
    assert kubectl is not None
    environment = {
        "PATH": f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(fleet.directory / "kubeconfig"),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }

    def run(script: str) -> str:
        command = ["bash", "-euc", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    run("kubectl config use-context hub && clusteradm clusterset create fleet")
    run("clusteradm clusterset set fleet --clusters cluster1,cluster2")
    for (kind, script), (mark, told) in itertools.pairwise([*fences(), ("end", "")]):
        if kind == "sh":
            said = run(script)
            assert (told if mark == "" else "") in said, f"{script}\n{said}"
    for text in (text for kind, text in fences() if kind == "yaml"):
        run(f"kubectl apply --dry-run=server --validate=strict -f - <<'END'\n{text}END")
    run("kubectl wait -n cluster2 managedclusteraddon/hello --for=condition=Available --timeout=60s")
    said = run("kubectl --context cluster2 get configmap hello -o jsonpath='{.data.text}'")
    assert said == "Hello, cluster2! This is the hub."


def process(part: str, kubeconfig: str, directory: Path) -> subprocess.Popen[bytes]:
    path = directory / f"{part}.kubeconfig"
    path.write_text(kubeconfig)
    with (directory / f"{part}.log").open("wb") as log:
        command = [sys.executable, str(ROOT / "examples/greeting_addon.py"), part, str(path)]
        return subprocess.Popen(command, stdout=log, stderr=log)


def test_the_example_greets_a_cluster_and_hears_its_answer(fleet: Fleet, tmp_path: Path) -> None:
    def only(context: str) -> str:
        return fleet.kubectl("config", "view", "--raw", "--minify", context=context)

    def there(*words: str) -> bool:
        return bool(fleet.kubectl("get", *words, "--ignore-not-found", "-o", "name"))

    running = [process("manager", only("hub"), tmp_path), process("agent", only("cluster1"), tmp_path)]
    try:
        eventually(lambda: there("clustermanagementaddon", "greeting"), "the manager has said what its addon is")
        addon = ["managedclusteraddon/greeting", "-n", "cluster1"]
        clusteradm = [str(Path(sys.executable).with_name("clusteradm")), "--kubeconfig", str(fleet.directory / "kubeconfig")]
        enable = [*clusteradm, "--context", "hub", "addon", "enable", "--names", "greeting", "--clusters", "cluster1"]
        subprocess.run(enable, check=True, timeout=60)
        fleet.kubectl("wait", *addon, "--for=condition=Available", "--timeout=60s")
        answer = fleet.kubectl("get", "configmap", "-n", "cluster1", "greeting-answer", "-o", "jsonpath={.data.text}")
        assert answer == "cluster1 heard: Hello, cluster1!"
        fleet.kubectl("delete", *addon, "--timeout=60s")
        assert not there("rolebindings", "-n", "cluster1", "-l", "open-cluster-management.io/addon-name=greeting")
    finally:
        for one in running:
            one.terminate()
            one.wait(20)
    for part in ("manager", "agent"):
        assert "Traceback" not in (tmp_path / f"{part}.log").read_text()
