"""A tenant of the hub, whose works run as an executor with `edit` in one namespace of a managed cluster, tries to run pods there.

From nothing to a managed cluster by `clusteradm`, and nobody is played: what the tenant's Deployment becomes is the nodes' doing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from muster.cli.clusteradm import main
from muster.machinery.objects import Object
from muster.operator.names import OPERATOR_NAMESPACE
from muster.operator.pod_namespaces import MAY_DIAL, MAY_RUN, RUN, dialled, host_port_of, not_running
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import NAMESPACES, ROLE_BINDINGS
from muster.runtime.install import ensure_namespace
from muster.work.kinds import MANIFEST_WORKS
from tests.e2e.boundary_attacks import NO_PROGRAMS, kubeconfig, plugin
from tests.support.operating import Observed
from tests.support.sites import Site, open_sites
from tests.support.stage import PODS, condition, let_pods_run

pytestmark = pytest.mark.timeout(400)
SECONDS = 90.0
NAMESPACE, CLUSTER = "tenant", "cluster1"
EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": NAMESPACE, "name": "executor"}}}


class Tenancy:
    """A hub, and a managed cluster on which the tenant's executor has `edit` in a namespace of its own."""

    def __init__(self, hub: Site, cluster: Site, directory: Path) -> None:
        self.hub = Observed(hub.admin)
        self.cluster = Observed(cluster.admin)
        self.hub_url = hub.config.server
        self.marker = directory / "made-by-a-tenant"
        self._sites = {"hub": hub, "cluster": cluster}

    async def clusteradm(self, where: str, *words: str) -> str:
        line = ["--kubeconfig", str(self._sites[where].kubeconfig), "--timeout", str(SECONDS), *words]
        done = await asyncio.to_thread(CliRunner().invoke, main, line)
        assert done.exit_code == 0, f"{words}: {done.output}"
        return done.stdout

    async def begin(self) -> None:
        await self.clusteradm("hub", "init", "--wait")
        told = json.loads(await self.clusteradm("hub", "get", "token", "-o", "json"))
        given = [word for key, value in told.items() for word in (f"--{key}", value)]
        await self.clusteradm("cluster", "join", *given, "--cluster-name", CLUSTER, "--wait")
        await self.clusteradm("hub", "accept", "--clusters", CLUSTER, "--wait")
        available = "ManagedClusterConditionAvailable"
        await self.hub.until_condition(MANAGED_CLUSTERS, CLUSTER, available, "True", seconds=SECONDS)
        await ensure_namespace(self.cluster.admin, NAMESPACE)
        binding = {
            "metadata": {"name": "executor", "namespace": NAMESPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "executor", "namespace": NAMESPACE}],
        }
        await self.cluster.admin.apply(ROLE_BINDINGS, binding, manager="test")

    async def work(self, name: str, *manifests: Object) -> None:
        document = {
            "apiVersion": MANIFEST_WORKS.api_version,
            "kind": MANIFEST_WORKS.kind,
            "metadata": {"name": name, "namespace": CLUSTER},
            "spec": {"workload": {"manifests": list(manifests)}, "executor": EXECUTOR},
        }
        await self.hub.admin.create(MANIFEST_WORKS, document)

    async def until_applied(self, name: str, status: str) -> None:
        async def so() -> bool:
            return condition(await self.hub.admin.get(MANIFEST_WORKS, name, CLUSTER), "Applied") == status

        await self.hub.until(so, f"Applied of {name} is {status}", SECONDS)

    async def pod(self) -> Object | None:
        found = (await self.cluster.admin.list(PODS, NAMESPACE)).items
        return found[0] if found else None

    async def until_pod(self, says: Any, what: str) -> None:
        async def so() -> bool:
            found = await self.pod()
            return found is not None and bool(says(found))

        await self.cluster.until(so, what, SECONDS)

    async def labels(self, namespace: str) -> dict[str, str]:
        found = await self.cluster.find(NAMESPACES, namespace)
        return (found or {}).get("metadata", {}).get("labels") or {}


@pytest.fixture
async def tenancy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tenancy]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    async with open_sites(tmp_path, "hub", "cluster") as (hub, cluster):
        made = Tenancy(hub, cluster, tmp_path)
        await made.begin()
        yield made


def evil(marker: Path) -> tuple[Object, Object]:
    config = kubeconfig("https://far.example", exec=plugin("/bin/sh", "-c", f"touch {marker}"))
    named = {"name": "evil", "namespace": NAMESPACE}
    container = {
        "name": "main",
        "image": "registry.example/team/muster:v1",
        "args": ["agent", "--install-only", "--kubeconfig=/cfg/kubeconfig"],
        "volumeMounts": [{"name": "cfg", "mountPath": "/cfg"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    template = {
        "metadata": {"labels": {"app": "evil", **RUN}},
        "spec": {"containers": [container], "volumes": [{"name": "cfg", "secret": {"secretName": "evil"}}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "evil"}}, "template": template}
    return (
        {"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": {"kubeconfig": yaml.safe_dump(config)}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {**named, "labels": RUN}, "spec": spec},
    )


def waits_for_label(pod: Object) -> bool:
    said = [one.get("message") for one in pod["status"].get("conditions") or ()]
    return pod["status"]["phase"] == "Pending" and not_running(NAMESPACE) in said


def was_refused(pod: Object) -> bool:
    states = [(one.get("state") or {}, one.get("lastState") or {}) for one in pod["status"].get("containerStatuses") or ()]
    return any(NO_PROGRAMS in json.dumps(state) for state in states)


async def test_a_tenants_pods_run_where_an_administrator_lets_them_and_stay_inside(tenancy: Tenancy) -> None:
    for namespace in (OPERATOR_NAMESPACE, AGENT_NAMESPACE):
        found = await tenancy.cluster.admin.get(NAMESPACES, namespace)
        assert dialled(found) == {host_port_of(tenancy.hub_url)}, "joining lets those pods dial the hub, which is on this machine"
    await tenancy.work("evil", *evil(tenancy.marker))
    await tenancy.until_applied("evil", "True")
    await tenancy.until_pod(waits_for_label, "the pod waits, and says for what")

    # The label is not the tenant's to set, neither on its own namespace nor on a new one.
    for name, namespace in (("own", NAMESPACE), ("new", "tenants-other")):
        metadata = {"name": namespace, "labels": RUN, "annotations": {MAY_DIAL: "127.0.0.1:1"}}
        await tenancy.work(f"label-{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await tenancy.until_applied(f"label-{name}", "False")
        assert MAY_RUN not in await tenancy.labels(namespace)
    await tenancy.until_pod(waits_for_label, "the pod still waits")

    await let_pods_run(tenancy.cluster.admin, NAMESPACE)
    await tenancy.until_pod(was_refused, "the pod was run, and ran nothing itself")
    assert not tenancy.marker.exists()

    await tenancy.cluster.admin.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": {MAY_RUN: None}}})

    async def stopped() -> bool:
        found = await tenancy.pod()
        assert found is not None
        reasons = [one.get("reason") for one in found["status"].get("conditions") or () if one["type"] == "Ready"]
        return reasons == ["NamespaceNotLabelled"]

    await tenancy.cluster.until(stopped, "the pod is stopped when the label goes", SECONDS)
    agents = (await tenancy.cluster.admin.list(PODS, AGENT_NAMESPACE)).items
    assert agents
    assert {condition(pod, "Ready") for pod in agents} == {"True"}, "those of the fleet go on"
