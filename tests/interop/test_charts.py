"""The Helm charts, by Helm itself: they say what `clusteradm` applies, take values, and make a hub and a managed cluster."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.administration.hub.tokens import account_token
from muster.administration.members.accept import AcceptOptions, accept
from muster.api import Document
from muster.kube import yaml
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR, BundleOptions, Operator, bundle, whole
from muster.operator.names import CLUSTER_MANAGERS, KLUSTERLETS, OPERATOR_NAMESPACE
from muster.operator.pod_namespaces import RUN, allow, on_this_machine
from muster.registration.hub.install import bootstrap_permissions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client import AuthInfo, ClientConfig, dump_kubeconfig
from muster.runtime.client.builtin import DEPLOYMENTS, NAMESPACES
from tests.support.operating import Observed
from tests.support.peers import ROOT, own_program
from tests.support.sites import Site, open_sites

CHARTS = ROOT / "deploy/charts"
OPERATORS = (CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR)
JOINING = ("--set", "klusterlet.clusterName=cluster1")
SECONDS = 90.0


def helm(*words: str, code: int = 0) -> str:
    done = subprocess.run([str(own_program("helm")), *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, f"helm {words}\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def rendered(name: str, *words: str) -> list[Document]:
    named = JOINING if name == "klusterlet" else ()
    text = helm("template", "released", str(CHARTS / name), "--include-crds", "-n", OPERATOR_NAMESPACE, *named, *words)
    return [one for one in yaml.load_all(text) if one]


def by_identity(documents: list[Document]) -> Mapping[tuple[str, str, str], Document]:
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in documents}


def deployment(documents: list[Document]) -> dict[str, Any]:
    (found,) = (one for one in documents if one["kind"] == "Deployment")
    return found


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda one: one.name)
def test_a_chart_is_what_clusteradm_applies_and_the_object_it_is_for(operator: Operator) -> None:
    expected = [whole(one) for one in bundle(operator, BundleOptions(create_namespace=False))]
    kind = "ClusterManager"
    if operator is CLUSTER_MANAGER_OPERATOR:
        expected += [whole(one) for one in bootstrap_permissions()]
    else:
        kind = "Klusterlet"
    found = rendered(operator.name)
    assert by_identity([one for one in found if one["kind"] != kind]) == by_identity(expected)
    (own,) = (one for one in found if one["kind"] == kind)
    assert own["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}, (
        "or it would be left with a finalizer and no operator"
    )
    assert own["spec"]["deployOption"] == {"mode": "Default"}


@pytest.mark.parametrize("name", ["cluster-manager", "klusterlet"])
def test_helm_and_a_cluster_of_any_supported_version_take_a_chart(name: str) -> None:
    assert "0 chart(s) failed" in helm(
        "lint", "--strict", str(CHARTS / name), *(JOINING if name == "klusterlet" else ()), "-n", OPERATOR_NAMESPACE
    )
    rendered(name, "--kube-version", "v1.25.0")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    about = yaml.load((CHARTS / name / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (version, version)


def test_values_go_to_the_operator() -> None:
    values = {
        "replicaCount": 3,
        "images": {"registry": "registry.example/ops", "tag": "v7", "imagePullPolicy": "Always"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "resources": {"limits": {"memory": "1Gi"}},
    }
    words = [word for key, value in values.items() for word in ("--set-json", f"{key}={json.dumps(value)}")]
    spec = deployment(rendered("cluster-manager", *words))["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 3
    assert (container["image"], container["imagePullPolicy"]) == ("registry.example/ops/muster:v7", "Always")
    assert container["resources"]["limits"] == {"memory": "1Gi"}
    assert (pod["nodeSelector"], pod["tolerations"]) == (values["nodeSelector"], values["tolerations"])
    whole_image = ("--set", "images.overrides.operatorImage=registry.example/muster@sha256:1")
    (container,) = deployment(rendered("klusterlet", *whole_image))["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/muster@sha256:1"


def test_values_go_to_the_objects_that_operators_read() -> None:
    gates = (
        "--set-json",
        'clusterManager.registrationConfiguration={"featureGates":[{"feature":"DefaultClusterSet","mode":"Enable"}]}',
    )
    found = by_identity(rendered("cluster-manager", *gates, "--set", "noOperator=true,createBootstrapSA=false"))
    assert {kind for kind, _, _ in found} == {"CustomResourceDefinition", "ClusterManager"}
    registration = found["ClusterManager", "", "cluster-manager"]["spec"]["registrationConfiguration"]
    assert registration == {"featureGates": [{"feature": "DefaultClusterSet", "mode": "Enable"}]}

    hosted = ("--set", "klusterlet.mode=Hosted,priorityClassName=high,externalManagedKubeConfig=secret")
    found = by_identity(rendered("klusterlet", *hosted))
    spec = found["Klusterlet", "", "klusterlet-cluster1"]["spec"]
    assert (spec["clusterName"], spec["namespace"], spec["priorityClassName"]) == (
        "cluster1",
        "open-cluster-management-cluster1",
        "high",
    )
    assert found["Secret", "klusterlet-cluster1", "external-managed-kubeconfig"]["data"] == {"kubeconfig": "c2VjcmV0"}


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("klusterlet", (), "--set klusterlet.clusterName=cluster1"),
        ("klusterlet", (*JOINING, "--set", "klusterlet.mode=Single"), "klusterlet.mode"),
        ("klusterlet", (*JOINING, "--set", "klusterlet.clustername=x"), "clustername"),
        ("cluster-manager", ("--set", "images.registry=registry.example/"), "images.registry"),
        ("cluster-manager", ("--set", "replicaCount=0"), "replicaCount"),
        ("cluster-manager", ("--namespace", "elsewhere"), "helm install --namespace open-cluster-management"),
    ],
)
def test_bad_values_are_refused_by_name(name: str, words: tuple[str, ...], said: str) -> None:
    place = () if "--namespace" in words else ("-n", OPERATOR_NAMESPACE)
    assert said.replace(".", "") in helm("template", "released", str(CHARTS / name), *place, *words, code=1).replace(
        ".", ""
    ).replace("/", "")


async def install(site: Site, name: str, *words: str) -> str:
    where = ("--kubeconfig", str(site.kubeconfig), "--namespace", OPERATOR_NAMESPACE)
    return await asyncio.to_thread(helm, "install", name, str(CHARTS / name), *where, "--wait", "--timeout", "90s", *words)


async def uninstall(site: Site, name: str) -> None:
    where = ("--kubeconfig", str(site.kubeconfig), "--namespace", OPERATOR_NAMESPACE)
    await asyncio.to_thread(helm, "uninstall", name, *where, "--wait", "--timeout", "60s")


@pytest.mark.timeout(400)
async def test_a_fleet_by_helm_alone(tmp_path: Path) -> None:
    async with open_sites(tmp_path, "hub", "spoke") as (hub, spoke):
        for site in (hub, spoke):
            document = {"metadata": {"name": OPERATOR_NAMESPACE, "labels": RUN}}
            await site.admin.create(NAMESPACES, document)
        seen, there = Observed(hub.admin), Observed(spoke.admin)
        assert "clusteradm get token" in await install(hub, "cluster-manager")
        await seen.until_condition(CLUSTER_MANAGERS, "cluster-manager", "HubRegistrationDegraded", "False", "", SECONDS)

        url = hub.config.server
        bootstrap = ClientConfig(url, hub.config.ca, identity=AuthInfo(token=await account_token(hub.admin)))
        (tmp_path / "bootstrap").write_text(dump_kubeconfig(bootstrap))
        await allow(spoke.admin, OPERATOR_NAMESPACE, on_this_machine([url]))
        given = ("--set-file", f"bootstrapHubKubeConfig={tmp_path / 'bootstrap'}")
        assert "clusteradm accept --clusters cluster1" in await install(spoke, "klusterlet", *JOINING, *given)
        await allow(spoke.admin, AGENT_NAMESPACE, on_this_machine([url]))
        await seen.until_found(MANAGED_CLUSTERS, "cluster1", seconds=SECONDS)
        await accept(hub.admin, "cluster1", AcceptOptions(wait=True, timeout=SECONDS))
        await seen.until_condition(MANAGED_CLUSTERS, "cluster1", "ManagedClusterConditionAvailable", "True", "", SECONDS)

        await spoke.admin.delete(KLUSTERLETS, "klusterlet")
        await there.until_gone(KLUSTERLETS, "klusterlet", seconds=SECONDS)
        await uninstall(spoke, "klusterlet")
        await uninstall(hub, "cluster-manager")
        assert await seen.find(CLUSTER_MANAGERS, "cluster-manager"), "a hub does not go with a release"
        assert await seen.find(DEPLOYMENTS, "cluster-manager-registration-controller", "open-cluster-management-hub")
