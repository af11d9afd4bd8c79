"""Helm on a fleet that simulates images: a chart with one of each kind of workload is installed, upgraded, rolled back and removed.

Helm waits for what it installs as on any cluster: for Deployments, StatefulSets, Jobs, and hooks that run before and after.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_fleet import Fleet, eventually
from tests.support.peers import own_program

CHART = Path(__file__).parent / "workload_chart"
WAIT = ("--wait", "--wait-for-jobs", "--timeout", "60s")
Helm = Callable[..., str]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("helm") / "data")
    made("up", "--detach", "--port", "0", "--clusters", "0", "--no-gateway", "--simulate-images")
    yield made
    made.end()


@pytest.fixture(scope="module")
def helm(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    home = tmp_path_factory.mktemp("home")
    own = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    environ = {**os.environ, **own, "KUBECONFIG": str(fleet.directory / "kubeconfig")}

    def run(*words: str, code: int = 0) -> str:
        command = [str(own_program("helm")), *words, "--namespace", "shop"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environ)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    run("install", "first", str(CHART), "--create-namespace", *WAIT)
    return run


def found(fleet: Fleet, what: str) -> Any:
    return json.loads(fleet.kubectl("get", what, "-n", "shop", "-o", "json"))


def images(fleet: Fleet) -> set[str]:
    pods = found(fleet, "pods")["items"]
    kept = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("app") in ("web", "db")]
    return {pod["spec"]["containers"][0]["image"] for pod in kept if not pod["metadata"].get("deletionTimestamp")}


def test_what_helm_has_waited_for_is_there(fleet: Fleet, helm: Helm) -> None:
    assert "STATUS: deployed" in helm("status", "first")
    assert found(fleet, "deployment/first-web")["status"]["availableReplicas"] == 2
    assert found(fleet, "statefulset/first-db")["status"]["readyReplicas"] == 2
    for job in ("first-migrate", "first-seed"):
        assert found(fleet, f"job/{job}")["status"]["succeeded"] == 1
    assert found(fleet, "cronjob/first-report")["spec"]["timeZone"] == "Europe/Berlin"
    assert [each["status"]["phase"] for each in found(fleet, "pvc")["items"]] == ["Bound", "Bound"]
    assert 'simulated: image "shop:1" does not run here, nothing of it does with migrate' in fleet.kubectl(
        "logs", "-n", "shop", "job/first-migrate"
    )


def test_the_charts_own_test_passes_and_shows_its_log(helm: Helm) -> None:
    said = helm("test", "first", "--logs")
    assert "Phase:          Succeeded" in said
    assert 'simulated: image "smoke:1"' in said


def test_an_upgrade_rolls_out_and_a_rollback_brings_back_what_was(fleet: Fleet, helm: Helm) -> None:
    before = found(fleet, "job/first-migrate")["metadata"]["uid"]
    helm("upgrade", "first", str(CHART), "--set", "image=shop:2", *WAIT)
    assert images(fleet) == {"shop:2"}
    assert found(fleet, "job/first-migrate")["metadata"]["uid"] != before, "the hook ran anew"
    helm("rollback", "first", "1", *WAIT)
    assert images(fleet) == {"shop:1"}
    history = json.loads(helm("history", "first", "-o", "json"))
    assert [each["status"] for each in history] == ["superseded", "superseded", "deployed"]


def test_an_upgrade_that_cannot_become_ready_fails_and_is_undone(fleet: Fleet, helm: Helm) -> None:
    words = ("--set", "image=shop:3", "--set", "serviceAccountName=nobody", "--atomic", "--timeout", "8s")
    said = helm("upgrade", "first", str(CHART), *words, code=1)
    assert "rolled back due to atomic being set" in said
    assert found(fleet, "deployment/first-web")["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:1"
    eventually(lambda: images(fleet) == {"shop:1"}, "all pods are the earlier ones")


def test_a_release_is_removed_whole(fleet: Fleet, helm: Helm) -> None:
    helm("install", "second", str(CHART), "--set", "replicas=1", *WAIT)
    helm("uninstall", "second", "--wait", "--timeout", "60s")
    kinds = "deployments,statefulsets,replicasets,cronjobs,services,pods"

    def left() -> list[str]:
        """As everywhere, hooks are nobody's but the user's."""
        names = (each["metadata"]["name"] for each in found(fleet, kinds)["items"])
        return [name for name in names if name.startswith("second-") and "migrate" not in name]

    eventually(lambda: not left(), "nothing is left")
    # Claims outlive their set.
    assert found(fleet, "pvc/data-second-db-0")["metadata"]["name"] == "data-second-db-0"
