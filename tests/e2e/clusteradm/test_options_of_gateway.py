"""The options of `clusteradm gateway` and `clusteradm proxy`.

A definition plays the API that the gateway serves, as far as it is listed, and a program plays kubectl and tells what it was given;
what comes through a real gateway is shown where there is one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import World
from tests.support.administrator import RBAC
from tests.support.stub_kubectl import write_stub

GROUP = "proxy.open-cluster-management.io"
GATEWAYS = f"/apis/{GROUP}/v1alpha1/clustergateways"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"clustergateways.{GROUP}"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": NAME,
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {
            "plural": "clustergateways",
            "singular": "clustergateway",
            "kind": "ClusterGateway",
            "listKind": "ClusterGatewayList",
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def gateways(whole_world: World) -> Iterator[World]:
    """Of the clusters `bad-1` (dev) and `good-1` (prod)."""
    hub = whole_world.hub
    hub.admin.post(DEFINITIONS, DEFINITION).expect(201)
    hub.wait_reply(lambda: hub.admin.get(GATEWAYS), "ClusterGateways are served", 200)
    for name, env in (("bad-1", "dev"), ("good-1", "prod")):
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ClusterGateway", "metadata": {"name": name, "labels": {"env": env}}}
        hub.wait_reply(partial(hub.admin.post, GATEWAYS, body), f"ClusterGateway {name}", 201)
    yield whole_world
    hub.admin.delete(f"{DEFINITIONS}/{NAME}").expect(200)
    hub.wait(lambda: hub.admin.get(GATEWAYS).status == 404, "ClusterGateways are gone")


@pytest.fixture
def site(gateways: World, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    monkeypatch.setenv("PATH", f"{write_stub(tmp_path / 'bin')}:{os.environ['PATH']}")
    return world


def servers(text: str) -> dict[str, str]:
    return {one["name"]: one["cluster"]["server"] for one in yaml.safe_load(text)["clusters"]}


def ran(output: str) -> list[str]:
    return [json.loads(line)["cluster"] for line in output.splitlines() if line.startswith("{")]


@shows("gateway kubeconfig", "--selector", "--hub-server", "--prefix")
def test_contexts_lead_through_the_hub(site: World) -> None:
    hub = site.hub.cluster.url
    assert servers(site.ok("gateway", "kubeconfig")) == {name: f"{hub}{GATEWAYS}/{name}/proxy" for name in ("bad-1", "good-1")}
    found = servers(site.ok("gateway", "kubeconfig", "-l", "env=prod", "--prefix", "p-", "--hub-server", "https://outside"))
    assert found == {"p-good-1": f"https://outside{GATEWAYS}/good-1/proxy"}


@shows("gateway kubeconfig", "--output-file", "--merge", "--overwrite")
def test_files_are_kept_merged_or_replaced(site: World, tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    site.ok("gateway", "kubeconfig", "bad-1", "--output-file", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert "--merge" in site.fails("gateway", "kubeconfig", "good-1", "--output-file", str(path))
    site.ok("gateway", "kubeconfig", "good-1", "--output-file", str(path), "--merge")
    assert set(servers(path.read_text())) == {"bad-1", "good-1"}
    site.ok("gateway", "kubeconfig", "good-1", "--output-file", str(path), "--overwrite")
    assert set(servers(path.read_text())) == {"good-1"}


@shows("gateway exec", "--clusters", "--selector", "--all", "--parallel", "--output")
def test_a_command_runs_on_the_chosen_clusters(site: World) -> None:
    assert ran(site.ok("gateway", "exec", "--clusters", "good-1", "--", "get", "pods")) == ["good-1"]
    assert ran(site.ok("gateway", "exec", "--selector", "env=dev", "--", "get", "pods")) == ["bad-1"]
    done = site.run("gateway", "exec", "--all", "--parallel", "2", "-o", "json", "--", "fail")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["failed"] == ["bad-1"]


@shows("proxy kubectl", "--cluster", "--sa", "--args")
def test_ocms_own_way_to_run_kubectl(site: World, capfd: pytest.CaptureFixture[str]) -> None:
    done = site.run("proxy", "kubectl", "--cluster=good-1", "--sa=any", "--args=get pods")
    assert done.exit_code == 0, done.output
    assert ran(capfd.readouterr().out) == ["good-1"]
    assert "not needed" in done.stderr


@shows("proxy health", "--clusters", "--selector", "--output")
def test_health_of_chosen_clusters_is_shown(site: World) -> None:
    """Nobody answers here: what plays the API leads nowhere."""
    for words in (("--clusters", "good-1"), ("--selector", "env=prod")):
        done = site.run("proxy", "health", *words, "-o", "json")
        assert done.exit_code == 1
        assert [one["metadata"]["name"] for one in json.loads(done.stdout)["items"]] == ["good-1"]


def roles(world: World, user: str) -> list[dict[str, Any]]:
    listed = world.hub.admin.get(f"{RBAC}/rolebindings").expect(200)["items"]
    return [one for one in listed if any(subject["name"] == user for subject in one["subjects"])]


@shows("gateway grant", "--group", "--serviceaccount", "--role", "--cluster", "--resource", "--output")
def test_grants_are_printed(site: World) -> None:
    common = ("--cluster", "good-1", "--resource", "widgets.example.com", "-o", "json")
    for subject, kind in ((("--group", "devs"), "Group"), (("--serviceaccount", "ci:bot"), "ServiceAccount")):
        role, bound = json.loads(site.ok("gateway", "grant", *subject, "--role", "viewer", *common))["items"]
        assert bound["subjects"][0]["kind"] == kind
        assert ["widgets"] in [rule.get("resources") for rule in role["rules"]]


@shows("gateway grant", "--namespace", "--create-namespace", "--apply")
def test_grants_are_applied(site: World) -> None:
    words = ("gateway", "grant", "carol", "--role", "editor", "--cluster", "good-1", "--namespace", "granted", "--apply")
    assert "--create-namespace" in site.fails(*words)
    site.ok(*words, "--create-namespace")
    (bound,) = roles(site, "carol")
    assert bound["metadata"]["namespace"] == "granted"
    review = {
        "spec": {"user": "carol", "resourceAttributes": {"verb": "good-1/delete", "resource": "pods", "namespace": "granted"}}
    }
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    told = site.hub.admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {**kind, **review}).expect(201)
    assert told["status"]["allowed"] is True
