"""From nothing to an available addon: every step that can be missing is named, the first one alone, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from muster.administration.content.addon_steps import AddonView, missing_step, reasons
from muster.api.addon.v1alpha1 import ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.objects import Object

KUBE, CUSTOM = "kubernetes.io/kube-apiserver-client", "example.com/signer"


def condition(kind: str, status: str = "True", reason: str = "Fine", message: str = "") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}


def addon(*conditions: Object, metadata: Object | None = None, spec: Object | None = None, **status: Any) -> ManagedClusterAddOn:
    own = {"name": "hello", "namespace": "c1", "ownerReferences": [owner("cma-1")], **(metadata or {})}
    return ManagedClusterAddOn.decode({"metadata": own, "spec": spec or {}, "status": {"conditions": list(conditions), **status}})


def owner(uid: str) -> Object:
    kind = {"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn"}
    return {**kind, "name": "hello", "uid": uid, "controller": True}


def definition(**annotations: str) -> ClusterManagementAddOn:
    return ClusterManagementAddOn.decode({"metadata": {"name": "hello", "uid": "cma-1", "annotations": annotations}, "spec": {}})


def cluster(status: str = "True") -> ManagedCluster:
    available = condition("ManagedClusterConditionAvailable", status)
    return ManagedCluster.decode({"metadata": {"name": "c1"}, "spec": {}, "status": {"conditions": [available]}})


def request(*conditions: str, certificate: str = "") -> Object:
    told = [{"type": one, "status": "True", "reason": "Because", "message": ""} for one in conditions]
    return {"metadata": {"name": "addon-c1-hello-x"}, "status": {"conditions": told, "certificate": certificate}}


CONFIGURED = condition("Configured")
REGISTERED = condition("RegistrationApplied")
ROTATED = condition("ClusterCertificateRotated")
APPLIED = condition("ManifestApplied")
AVAILABLE = condition("Available")
UP_TO_WORKS = (CONFIGURED, REGISTERED, ROTATED, APPLIED)
BY_CERTIFICATE: dict[str, Any] = {"registrations": [{"signerName": KUBE, "subject": {}}]}
BY_TOKEN: dict[str, Any] = {**BY_CERTIFICATE, "kubeClientDriver": "token"}
REFERENCE = {"group": "addon.open-cluster-management.io", "resource": "addontemplates", "name": "hello-1"}


def view(found: ManagedClusterAddOn, *requests: Object) -> AddonView:
    return AddonView(found, definition(), cluster(), requests)


def going(*conditions: Object, finalizers: tuple[str, ...] = ()) -> ManagedClusterAddOn:
    moment = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": list(finalizers)}
    return addon(*conditions, metadata=moment)


Broken = Callable[[], AddonView]
BREAKS: list[tuple[str, Broken, str, str, str]] = [
    (
        "no ClusterManagementAddOn",
        lambda: replace(view(addon()), definition=None),
        "definition",
        "there is no ClusterManagementAddOn hello",
        "addon create hello",
    ),
    ("no ManagedCluster", lambda: replace(view(addon()), cluster=None), "cluster", "no ManagedCluster c1", "join the cluster"),
    (
        "manager does not run",
        lambda: view(addon(metadata={"ownerReferences": []})),
        "owner",
        "the addon manager has not taken it up",
        "get hub-info",
    ),
    (
        "ClusterManagementAddOn made anew",
        lambda: view(addon(metadata={"ownerReferences": [owner("another")]})),
        "owner",
        "has not taken it up",
        "does the hub's addon manager run",
    ),
    (
        "somebody else's lifecycle",
        lambda: replace(
            view(addon(metadata={"ownerReferences": []})),
            definition=definition(**{"addon.open-cluster-management.io/lifecycle": "self"}),
        ),
        "owner",
        "lifecycle is 'self'",
        "set the annotation to addon-manager",
    ),
    (
        "configuration of a kind that it does not know",
        lambda: view(addon(condition("Progressing", "False", "ConfigurationUnsupported", "Configuration with gvr g/r"))),
        "configuration",
        "Configuration with gvr g/r",
        "spec.configs of ManagedClusterAddOn c1/hello",
    ),
    (
        "template is missing",
        lambda: view(addon(configReferences=[{**REFERENCE, "desiredConfig": {"name": "hello-1", "specHash": ""}}])),
        "configuration",
        "not found on the hub: addontemplates hello-1",
        "create it",
    ),
    (
        "not its turn yet",
        lambda: view(addon(condition("Configured", "False", "ConfigurationsNotConfigured", "Configurations updated"))),
        "rollout",
        "ConfigurationsNotConfigured: Configurations updated",
        "status.installProgressions",
    ),
    ("nobody serves it", lambda: view(addon(CONFIGURED)), "registration", "no manager serves this addon", "their own manager"),
    (
        "manager may not give the role away",
        lambda: view(addon(CONFIGURED, condition("RegistrationApplied", "False", "SetPermissionFailed", "forbidden"))),
        "registration",
        "SetPermissionFailed: forbidden",
        "open-cluster-management.io/aggregate-to-addon-manager=true",
    ),
    (
        "agent has not said its driver",
        lambda: view(addon(CONFIGURED, condition("RegistrationApplied", "False", "PermissionConfigPending", "not ready"))),
        "registration",
        "PermissionConfigPending",
        "doctor c1",
    ),
    (
        "token: no account",
        lambda: view(addon(CONFIGURED, REGISTERED, **BY_TOKEN)),
        "token",
        "ServiceAccount is not made",
        "get hub-info",
    ),
    (
        "token: account failed",
        lambda: view(addon(CONFIGURED, REGISTERED, condition("TokenInfrastructureReady", "False", "Failed", "quota"), **BY_TOKEN)),
        "token",
        "Failed: quota",
        "it is retried",
    ),
    (
        "token: none yet",
        lambda: view(addon(CONFIGURED, REGISTERED, condition("TokenInfrastructureReady"), **BY_TOKEN)),
        "token",
        "has got no token yet",
        "registration agent run",
    ),
    (
        "token: refused",
        lambda: view(
            addon(
                CONFIGURED,
                REGISTERED,
                condition("TokenInfrastructureReady"),
                condition("TokenRefreshed", "False", "TokenCreationFailed", "Failed to create token"),
                **BY_TOKEN,
            )
        ),
        "token",
        "TokenCreationFailed",
        "doctor c1",
    ),
    (
        "request waits",
        lambda: view(addon(CONFIGURED, REGISTERED, **BY_CERTIFICATE), request()),
        "signing request",
        "CSR addon-c1-hello-x waits for approval",
        "approves what it expects",
    ),
    (
        "request denied",
        lambda: view(addon(CONFIGURED, REGISTERED, **BY_CERTIFICATE), request("Denied")),
        "signing request",
        "is denied: Because",
        "kubectl delete csr addon-c1-hello-x",
    ),
    (
        "request not signed",
        lambda: view(addon(CONFIGURED, REGISTERED, **BY_CERTIFICATE), request("Approved")),
        "signing request",
        "approved and not signed",
        "signing CA",
    ),
    (
        "no request",
        lambda: view(addon(CONFIGURED, REGISTERED, **BY_CERTIFICATE)),
        "certificate",
        "has not requested a certificate",
        "doctor c1",
    ),
    (
        "agent could not store the certificate",
        lambda: view(
            addon(
                CONFIGURED, REGISTERED, condition("ClusterCertificateRotated", "False", "NoNamespace", "label it"), **BY_CERTIFICATE
            )
        ),
        "certificate",
        "NoNamespace: label it",
        "correct",
    ),
    (
        "a custom signer beside a token",
        lambda: view(
            addon(
                CONFIGURED,
                REGISTERED,
                condition("TokenInfrastructureReady"),
                condition("TokenRefreshed"),
                registrations=[{"signerName": KUBE}, {"signerName": CUSTOM}],
                kubeClientDriver="token",
            )
        ),
        "certificate",
        "has not requested a certificate",
        "doctor c1",
    ),
    (
        "hosting cluster is none",
        lambda: view(addon(CONFIGURED, REGISTERED, condition("HostingClusterValidity", "False", "HostingClusterInvalid", "X"))),
        "hosting",
        "HostingClusterInvalid",
        "hosting-cluster-name",
    ),
    ("no works", lambda: view(addon(CONFIGURED, REGISTERED)), "works", "not applied yet", "get works --clusters c1"),
    (
        "works fail",
        lambda: view(addon(CONFIGURED, REGISTERED, condition("ManifestApplied", "False", "AddonManifestAppliedFailed", "failed"))),
        "works",
        "AddonManifestAppliedFailed: failed",
        "-o wide",
    ),
    (
        "hosted, works of the hosting cluster",
        lambda: view(addon(*UP_TO_WORKS, metadata={"annotations": {"addon.open-cluster-management.io/hosting-cluster-name": "h"}})),
        "works",
        "not applied yet",
        "get works",
    ),
    (
        "cluster is away",
        lambda: replace(view(addon(*UP_TO_WORKS, condition("Available", "Unknown", "Away"))), cluster=cluster("Unknown")),
        "availability of the cluster",
        "the cluster is not available",
        "doctor c1",
    ),
    (
        "no lease yet",
        lambda: view(addon(*UP_TO_WORKS)),
        "health",
        "its agent has not reported",
        "Lease open-cluster-management-agent-addon/hello",
    ),
    (
        "nobody probes",
        lambda: view(addon(*UP_TO_WORKS, healthCheck={"mode": "Customized"})),
        "health",
        "its health was never reported",
        "manager's log",
    ),
    (
        "lease stopped",
        lambda: view(
            addon(*UP_TO_WORKS, condition("Available", "False", "ManagedClusterAddOnLeaseUpdateStopped", "gone"), namespace="there")
        ),
        "health",
        "ManagedClusterAddOnLeaseUpdateStopped: gone",
        "Lease there/hello",
    ),
    (
        "workload is down",
        lambda: view(addon(*UP_TO_WORKS, condition("Available", "False", "ProbeUnavailable", "no replicas"))),
        "health",
        "ProbeUnavailable: no replicas",
        "pods of its agent",
    ),
    (
        "hook runs",
        lambda: view(going(condition("HookManifestCompleted", "False", "HookManifestIsNotCompleted", "not completed"))),
        "removal",
        "HookManifestIsNotCompleted",
        "has to succeed",
    ),
    (
        "finalizer stays",
        lambda: view(going(finalizers=("addon.open-cluster-management.io/addon-pre-delete",))),
        "removal",
        "held by addon.open-cluster-management.io/addon-pre-delete",
        "get hub-info",
    ),
]


@pytest.mark.parametrize(("broken", "step", "text", "remedy"), [pytest.param(*row[1:], id=row[0]) for row in BREAKS])
def test_every_break_is_named_with_a_remedy(broken: Broken, step: str, text: str, remedy: str) -> None:
    missing = missing_step(broken())
    assert missing is not None
    assert missing.step == step
    assert text in missing.text
    assert remedy in missing.remedy


def test_an_available_addon_misses_nothing() -> None:
    assert missing_step(view(addon(*UP_TO_WORKS, AVAILABLE, **BY_CERTIFICATE))) is None


def test_an_available_addon_whose_new_configuration_waits_says_so() -> None:
    waiting = condition("Configured", "False", "ConfigurationsNotConfigured", "Configurations updated")
    missing = missing_step(view(addon(waiting, REGISTERED, ROTATED, APPLIED, AVAILABLE)))
    assert missing is not None
    assert missing.step == "rollout"


def test_an_agents_half_written_status_harms_nothing() -> None:
    odd = addon(configReferences=[{**REFERENCE, "lastObservedGeneration": -1}, {**REFERENCE, "desiredConfig": None}])
    missing = missing_step(view(odd))
    assert missing is not None
    assert missing.step == "registration"


def test_conditions_are_shown_with_reason_and_message() -> None:
    assert dict(reasons(addon(condition("Available", "False", "Why", "because")))) == {"Available": "False Why: because"}
