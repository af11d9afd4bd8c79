"""What breaks, and what doctor says of it: one row for each break, from joining to delivering, enabling and removing.

A row breaks one thing of a cluster that is well, or of one that has just begun to join; doctor names the cause and the remedy.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from muster.administration.content.addons import ADDONS, CLUSTER_ADDONS
from muster.api.crds import OPERATOR, definitions
from muster.machinery.clock import SYSTEM
from muster.operator.names import ADDON_NAMESPACE, KLUSTERLETS
from muster.policy.names import CONFIG_POLICY_ADDON, PERMISSIONS_NEEDED, STANDALONE_ADDON
from muster.registration.hub.install import HOOKS, WebhookEndpoint
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import LEASE, cluster_role, registration_binding
from muster.runtime.client.builtin import (
    CLUSTER_ROLES,
    CORE_EVENTS,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SIGNING_REQUESTS,
)
from muster.runtime.install import await_definitions, ensure_namespace
from muster.work.hub import install as work_install
from muster.work.kinds import MANIFEST_WORKS
from tests.support.https_server import Answer, HttpsServer, Received
from tests.unit.cli.clusteradm.conftest import AVAILABLE, PLAIN, Fleet, condition
from tests.unit.cli.clusteradm.test_doctor import NAME, healthy, renew
from tests.unit.cli.clusteradm.test_policies import HUB_TEMPLATE, define, enable, policy, put

Break = Callable[[Fleet], Awaitable[None]]
MANAGED = ("--managed-cluster-context", PLAIN)
AGENT = "open-cluster-management-agent"
DEPLOYMENT = {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is too young to be a problem."""
    for name in ("work_diagnosis.UNATTENDED_SECONDS", "work_diagnosis.HANGING_SECONDS", "doctor.DELETION_SECONDS"):
        monkeypatch.setattr(f"muster.administration.{name}", -1.0)


async def told(fleet: Fleet, *flags: str) -> list[dict[str, str]]:
    result = await fleet.run("doctor", NAME, "-o", "json", *flags)
    assert result.stdout, result.output
    found: list[dict[str, str]] = json.loads(result.stdout)[NAME]
    assert result.exit_code == any(one["verdict"] == "problem" for one in found)
    return found


# Joining


async def nobody_introduced_it(fleet: Fleet) -> None:
    return


async def a_webhook_is_away(fleet: Fleet) -> None:
    for hook in HOOKS:
        endpoint = WebhookEndpoint(fleet.server.ca_pem, url="https://127.0.0.1:1")
        await fleet.admin().apply(hook.resource, hook.document(endpoint), manager="test")


async def it_is_not_accepted(fleet: Fleet) -> None:
    await fleet.cluster(NAME)


async def nothing_was_asked_for(fleet: Fleet) -> None:
    await fleet.cluster(NAME, spec={"hubAcceptsClient": True})


async def its_request_waits(fleet: Fleet) -> None:
    await fleet.cluster(NAME)
    await fleet.request(NAME)


async def its_request_was_denied(fleet: Fleet) -> None:
    await fleet.cluster(NAME)
    denied = await fleet.admin().get(SIGNING_REQUESTS, await fleet.request(NAME))
    denied["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": "not today"}]}
    await fleet.admin().update(SIGNING_REQUESTS, denied, subresource="approval")


async def the_hub_could_not_grant(fleet: Fleet) -> None:
    failed = [condition("HubAcceptedManagedCluster", "False", "Error", "IAM says no")]
    await fleet.cluster(NAME, spec={"hubAcceptsClient": True}, status={"conditions": failed})


async def a_role_is_gone(fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.admin().delete(CLUSTER_ROLES, cluster_role(NAME))


async def a_binding_is_gone(fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.admin().delete(ROLE_BINDINGS, registration_binding(NAME), NAME)


async def the_lease_is_gone(fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.admin().delete(LEASES, LEASE, NAME)


async def the_agent_stopped(fleet: Fleet) -> None:
    stopped = condition("ManagedClusterConditionAvailable", "Unknown", "ManagedClusterLeaseUpdateStopped")
    await healthy(fleet, [*AVAILABLE[:2], stopped])
    await renew(fleet, timedelta(hours=1))


async def the_agent_never_came_back(fleet: Fleet) -> None:
    await healthy(fleet, AVAILABLE[:1])


async def its_api_server_is_down(fleet: Fleet) -> None:
    down = condition("ManagedClusterConditionAvailable", "False", "ManagedClusterKubeAPIServerUnavailable", "refused")
    await healthy(fleet, [*AVAILABLE[:2], down])


async def the_clocks_differ(fleet: Fleet) -> None:
    await healthy(fleet, [*AVAILABLE, condition("ManagedClusterConditionClockSynced", "False", "ClockOutOfSync", "2 h apart")])


async def the_hubs_operator_is_down(fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.ok("init")


# Delivering


async def work(fleet: Fleet, *, finalizers: tuple[str, ...] = (), **status: Any) -> None:
    metadata = {"name": "web", "namespace": NAME, "finalizers": list(finalizers)}
    await fleet.admin().apply(MANIFEST_WORKS, {"metadata": metadata, "spec": {"workload": {"manifests": []}}}, manager="test")
    if status:
        await fleet.admin().patch(MANIFEST_WORKS, "web", {"status": status}, NAME, subresource="status")


def applied(status: str = "True") -> dict[str, Any]:
    return {**condition("Applied", status, "Because"), "observedGeneration": 1}


def of_deployment(**more: Any) -> dict[str, Any]:
    meta = {**DEPLOYMENT, "name": "web", "namespace": "default"}
    return {"manifests": [{"resourceMeta": meta, "conditions": [], **more}]}


async def the_work_webhook_is_away(fleet: Fleet) -> None:
    await healthy(fleet)
    for hook in work_install.HOOKS:
        endpoint = WebhookEndpoint(fleet.server.ca_pem, url="https://127.0.0.1:1")
        await fleet.admin().apply(hook.resource, hook.document(endpoint), manager="test")


async def nobody_takes_a_work_up(fleet: Fleet) -> None:
    await healthy(fleet)
    await work(fleet)


async def a_work_fails(fleet: Fleet) -> None:
    await healthy(fleet)
    await work(fleet, conditions=[applied("False")])


async def no_pod_is_ready_the_agent_says(fleet: Fleet) -> None:
    await healthy(fleet)
    values = [
        {"name": name, "fieldValue": {"type": "Integer", "integer": count}}
        for name, count in (("Replicas", 2), ("ReadyReplicas", 0))
    ]
    await work(fleet, conditions=[applied()], resourceStatus=of_deployment(statusFeedback={"values": values}))


async def deployment(fleet: Fleet) -> None:
    """On the managed cluster, where nobody runs its pods."""
    await healthy(fleet)
    await work(fleet, conditions=[applied()], resourceStatus=of_deployment())
    labels, containers = {"app": "web"}, [{"name": "web", "image": "nobody/has:this"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await fleet.admin(PLAIN).apply(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}, manager="test")
    status = {"status": {"observedGeneration": 1}}
    await fleet.admin(PLAIN).patch(DEPLOYMENTS, "web", status, "default", subresource="status")


async def no_pod_is_ready(fleet: Fleet) -> None:
    await deployment(fleet)
    await pod(fleet, "default", "web-1", "ImagePullBackOff", "no such image")


async def no_pod_is_scheduled(fleet: Fleet) -> None:
    await deployment(fleet)
    admin, unscheduled = fleet.admin(PLAIN), {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    await pod(fleet, "default", "web-1", "", "")
    await admin.patch(PODS, "web-1", {"status": {"conditions": [unscheduled]}}, "default", subresource="status")


async def pod(fleet: Fleet, namespace: str, name: str, reason: str, message: str) -> None:
    admin, spec = fleet.admin(PLAIN), {"containers": [{"name": "web", "image": "nobody/has:this"}]}
    await admin.apply(
        PODS, {"metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}}, "spec": spec}, manager="test"
    )
    if reason:
        waiting = {"name": "web", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        waiting["state"] = {"waiting": {"reason": reason, "message": message}}
        await admin.patch(PODS, name, {"status": {"containerStatuses": [waiting]}}, namespace, subresource="status")


async def a_deployment_is_gone(fleet: Fleet) -> None:
    await deployment(fleet)
    await fleet.admin(PLAIN).delete(DEPLOYMENTS, "web", "default")


# Enabling


async def addon(fleet: Fleet, *finalizers: str) -> None:
    await healthy(fleet)
    await fleet.admin().apply(CLUSTER_ADDONS, {"metadata": {"name": "greeting"}, "spec": {}}, manager="test")
    metadata = {"name": "greeting", "namespace": NAME, "finalizers": list(finalizers)}
    await fleet.admin().apply(ADDONS, {"metadata": metadata, "spec": {}}, manager="test")


async def nobody_serves_an_addon(fleet: Fleet) -> None:
    await addon(fleet)


# Removing


async def an_addon_hangs(fleet: Fleet) -> None:
    await addon(fleet, "addon.open-cluster-management.io/addon-pre-delete")
    await fleet.admin().delete(ADDONS, "greeting", NAME)


async def a_work_hangs(fleet: Fleet) -> None:
    await healthy(fleet)
    deleting = condition("Deleting", "True", "Waiting", "PersistentVolumeClaim default/data is held by pvc-protection")
    await work(fleet, finalizers=("cluster.open-cluster-management.io/manifest-work-cleanup",), conditions=[applied(), deleting])
    await fleet.admin().delete(MANIFEST_WORKS, "web", NAME)


async def nobody_removes_a_work(fleet: Fleet) -> None:
    await the_agent_stopped(fleet)
    await work(fleet, finalizers=("cluster.open-cluster-management.io/manifest-work-cleanup",), conditions=[applied()])
    await fleet.admin().delete(MANIFEST_WORKS, "web", NAME)


async def the_cluster_hangs(fleet: Fleet) -> None:
    await healthy(fleet)
    held = {"metadata": {"finalizers": ["cluster.open-cluster-management.io/api-resource-cleanup"]}}
    await fleet.admin().patch(MANAGED_CLUSTERS, NAME, held)
    await fleet.admin().delete(MANAGED_CLUSTERS, NAME)


async def klusterlet(fleet: Fleet) -> None:
    admin = fleet.admin(PLAIN)
    for document in definitions(OPERATOR):
        await admin.apply(CRDS, document, manager="test")
    await await_definitions(admin, [document["metadata"]["name"] for document in definitions(OPERATOR)], SYSTEM)
    metadata = {"name": "klusterlet", "finalizers": ["operator.open-cluster-management.io/klusterlet-cleanup"]}
    await admin.apply(KLUSTERLETS, {"metadata": metadata, "spec": {"clusterName": NAME}}, manager="test")
    await admin.apply(NAMESPACES, {"metadata": {"name": AGENT}}, manager="test")


async def the_klusterlet_hangs(fleet: Fleet) -> None:
    await the_agent_stopped(fleet)
    await klusterlet(fleet)
    await fleet.admin(PLAIN).delete(KLUSTERLETS, "klusterlet")


# The agent


async def its_agent_warns(fleet: Fleet) -> None:
    await the_agent_stopped(fleet)
    await klusterlet(fleet)
    about = {"kind": "Deployment", "name": "klusterlet-agent", "namespace": AGENT}
    warning = {"metadata": {"name": "w", "namespace": AGENT}, "involvedObject": about, "type": "Warning", "reason": "HubAway"}
    warning |= {"message": "no route to host", "lastTimestamp": "2026-01-01T00:00:00Z"}
    await fleet.admin(PLAIN).apply(CORE_EVENTS, warning, manager="test")


async def its_agent_cannot_start(fleet: Fleet) -> None:
    await the_agent_stopped(fleet)
    await klusterlet(fleet)
    await pod(fleet, AGENT, "klusterlet-agent-1", "CrashLoopBackOff", "back-off 5m0s")


# Policies


async def policies_without_their_addon(fleet: Fleet) -> None:
    await healthy(fleet)
    await define(fleet)
    await put(fleet, policy("shop"))


async def kinds_of_policies_are_missing(fleet: Fleet) -> None:
    await healthy(fleet)
    await enable(fleet, CONFIG_POLICY_ADDON)


async def the_policy_controller_is_missing(fleet: Fleet) -> None:
    await kinds_of_policies_are_missing(fleet)
    await define(fleet)


async def the_policy_controller_is_down(fleet: Fleet, ready: int = 0) -> None:
    await the_policy_controller_is_missing(fleet)
    admin, labels = fleet.admin(PLAIN), {"app": "controller"}
    await ensure_namespace(admin, ADDON_NAMESPACE)
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "controller", "image": "muster"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": CONFIG_POLICY_ADDON, "namespace": ADDON_NAMESPACE}
    await admin.apply(DEPLOYMENTS, {"metadata": metadata, "spec": spec}, manager="test")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready)
    status = {"status": {"observedGeneration": 1, **counts}}
    await admin.patch(DEPLOYMENTS, CONFIG_POLICY_ADDON, status, ADDON_NAMESPACE, subresource="status")


async def the_policy_controller_does_nothing(fleet: Fleet) -> None:
    await the_policy_controller_is_down(fleet, ready=1)
    await put(fleet, policy("shop"))


async def hub_templates_without_their_addon(fleet: Fleet) -> None:
    await the_policy_controller_is_down(fleet, ready=1)
    await put(fleet, policy("shop", "NonCompliant", "violation - off", HUB_TEMPLATE))


async def hub_templates_are_forbidden(fleet: Fleet) -> None:
    await the_policy_controller_is_down(fleet, ready=1)
    await enable(fleet, STANDALONE_ADDON)
    why = f'configmaps "settings" is forbidden: {PERMISSIONS_NEEDED}: Kind=ConfigMap, Namespace=shop, Name=settings'
    await put(fleet, policy("shop", "NonCompliant", f"violation - {why}", HUB_TEMPLATE))


TABLE: list[tuple[Break, tuple[str, ...], str, str, str]] = [
    (nobody_introduced_it, (), "ManagedCluster", "has not introduced the cluster", "run join"),
    (a_webhook_is_away, (), "ManagedCluster", "none can be made", "until this is mended"),
    (a_webhook_is_away, (), "webhooks", "a write to the cluster is not answered", "does the webhook run?"),
    (it_is_not_accepted, (), "acceptance", "not accepted", "run accept --clusters cluster1"),
    (nothing_was_asked_for, (), "certificate requests", "has not requested a certificate", "--managed-cluster-kubeconfig"),
    (nothing_was_asked_for, (), "acceptance", "the hub's controller has not acted on it", "does it run?"),
    (its_request_waits, (), "certificate requests", "waits for approval: key sha256:", "run accept"),
    (its_request_was_denied, (), "certificate requests", "is denied: not today", "kubectl delete csr"),
    (the_hub_could_not_grant, (), "acceptance", "IAM says no", "mend this"),
    (a_role_is_gone, (), "permissions", "ClusterRole open-cluster-management:managedcluster:cluster1", "does it run?"),
    (a_binding_is_gone, (), "permissions", "RoleBinding cluster1/", "does it run?"),
    (the_lease_is_gone, (), "lease", "there is no Lease", "does it run?"),
    (the_agent_stopped, (), "lease", "the agent is down or cannot reach the hub", "check the agent"),
    (the_agent_never_came_back, (), "joining", "has not come back with its certificate", "check the agent"),
    (its_api_server_is_down, (), "availability", "refused", "the cluster's own API server"),
    (the_clocks_differ, (), "clock", "2 h apart", "NTP"),
    (the_hubs_operator_is_down, (), "hub", "the operator does not run", "kubectl -n"),
    (the_work_webhook_is_away, (), "webhooks of works", "a write to the cluster is not answered", "does the webhook run?"),
    (nobody_takes_a_work_up, (), "works", "not taken up by the work agent: web", "does it run there?"),
    (a_work_fails, (), "works", "cannot be applied: web", "get works"),
    (no_pod_is_ready_the_agent_says, (), "work web", "Deployment default/web has no ready pod of 2", "describe deployment web"),
    (no_pod_is_ready, MANAGED, "work web", "ImagePullBackOff: no such image", "describe deployment web"),
    (no_pod_is_scheduled, MANAGED, "work web", "not scheduled: 0/3 nodes are available", "describe deployment web"),
    (a_deployment_is_gone, MANAGED, "work web", "Deployment default/web is not there", "see its log"),
    (nobody_serves_an_addon, (), "addon greeting", "the addon manager has not taken it up", "addon manager run?"),
    (an_addon_hangs, (), "addon greeting", "held by addon.open-cluster-management.io", "addon manager run?"),
    (a_work_hangs, (), "work web", "is held by pvc-protection", "delete work web --clusters cluster1 --force"),
    (nobody_removes_a_work, (), "work web", "held by cluster.open-cluster-management.io/manifest-work-cleanup", "available again"),
    (the_cluster_hangs, (), "ManagedCluster", "held by cluster.open-cluster-management.io/api-resource-cleanup", "addon disable"),
    (the_klusterlet_hangs, MANAGED, "klusterlet klusterlet", "it is being deleted, and held by operator", "unjoin --force"),
    (its_agent_warns, MANAGED, "agent's last warning", "HubAway: no route to host", ""),
    (policies_without_their_addon, MANAGED, "policies", "is not enabled by this hub", f"enable --names {CONFIG_POLICY_ADDON}"),
    (
        kinds_of_policies_are_missing,
        MANAGED,
        "policy controller",
        "no kind of policies is served there",
        "get works --clusters cluster1",
    ),
    (the_policy_controller_is_missing, MANAGED, "policy controller", "is not there", "get works --clusters cluster1"),
    (the_policy_controller_is_down, MANAGED, "policy controller", "it does not run: Deployment", "describe deployment"),
    (the_policy_controller_does_nothing, MANAGED, "policies", "not evaluated by the policy controller", "logs deployment"),
    (hub_templates_without_their_addon, MANAGED, "hub templates", "is not enabled", f"enable --names {STANDALONE_ADDON}"),
    (hub_templates_are_forbidden, MANAGED, "hub templates", "may not read what it refers to", "list and watch"),
    (its_agent_cannot_start, MANAGED, "agent's last warning", "CrashLoopBackOff: back-off 5m0s", ""),
]


@pytest.mark.parametrize(
    ("broken", "flags", "subject", "cause", "remedy"), [pytest.param(*row, id=f"{row[0].__name__}-{row[2]}") for row in TABLE]
)
async def test_doctor_names_the_cause_and_the_remedy(
    fleet: Fleet, broken: Break, flags: tuple[str, ...], subject: str, cause: str, remedy: str
) -> None:
    await broken(fleet)
    found = [one for one in await told(fleet, *flags) if one["subject"] == subject and one["verdict"] != "ok"]
    assert found, await told(fleet, *flags)
    assert any(cause in one["text"] and remedy in one["remedy"] for one in found), found


async def test_a_webhook_of_others_that_refuses_the_cluster_is_named(fleet: Fleet) -> None:
    """It is not the token's fault."""

    def refuse(request: Received) -> Answer:
        response = {
            "uid": request.json["request"]["uid"],
            "allowed": False,
            "status": {"code": 403, "message": "names begin with eu-"},
        }
        return Answer({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    with HttpsServer(refuse) as server:
        for hook in HOOKS:
            await fleet.admin().apply(hook.resource, hook.document(WebhookEndpoint(server.ca, url=server.url)), manager="test")
        (found,) = [one for one in await told(fleet) if one["subject"] == "ManagedCluster"]
    assert "the hub refuses to have one" in found["text"]
    assert "names begin with eu-" in found["text"]
    assert "token" not in found["remedy"]
