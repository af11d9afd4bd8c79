"""The steps until an addon is available on a cluster, in the order in which they happen.

Each step is a function of the collected objects that returns what is missing and the remedy, or None. The first missing step causes
the rest, so only that one is reported: by `get addons`, by `addon enable --wait` and by `doctor`. Reasons are those of OCM's
controllers, whichever implementation wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api import Condition, Document, condition_of, is_true
from muster.api.addon.v1alpha1 import AVAILABLE, PROGRESSING, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.addons import (
    AGGREGATION_LABEL,
    CERTIFICATE_ROTATED,
    HOSTING_CLUSTER_ANNOTATION,
    LIFECYCLE_ANNOTATION,
    LIFECYCLE_MANAGED,
    TOKEN_DRIVER,
    TOKEN_REFRESHED,
)
from muster.api.cluster.v1 import AVAILABLE as CLUSTER_AVAILABLE
from muster.api.cluster.v1 import ManagedCluster
from muster.registration.drivers.certificates.requests import issued_certificate, verdict_of
from muster.registration.names import CLIENT_SIGNER

CONFIGURED: Final = "Configured"
REGISTRATION_APPLIED: Final = "RegistrationApplied"
TOKEN_INFRASTRUCTURE: Final = "TokenInfrastructureReady"
MANIFEST_APPLIED: Final = "ManifestApplied"
HOSTING_MANIFEST_APPLIED: Final = "HostingManifestApplied"
HOSTING_VALIDITY: Final = "HostingClusterValidity"
HOOK_COMPLETED: Final = "HookManifestCompleted"
_AGENT: Final = "does the cluster's registration agent run, with its gate AddonManagement on? see doctor {cluster}"
_MANAGER: Final = "does the hub's addon manager run? see get hub-info; its gate is AddonManagement"


@dataclass(frozen=True)
class AddonView:
    """An addon on a cluster, and the objects of the hub that it depends on."""

    addon: ManagedClusterAddOn
    definition: ClusterManagementAddOn | None
    cluster: ManagedCluster | None
    requests: Sequence[Document] = ()
    """Its signing requests."""

    @property
    def name(self) -> str:
        return self.addon.metadata.name

    @property
    def cluster_name(self) -> str:
        return self.addon.metadata.namespace

    @property
    def namespace(self) -> str:
        """The namespace of its agent."""
        return self.addon.status.namespace or self.addon.spec.install_namespace

    def condition_of_kind(self, kind: str) -> Condition | None:
        return condition_of(self.addon.status.conditions, kind)

    def denied(self, kind: str) -> Condition | None:
        """The condition of this type if it is present and not True."""
        found = self.condition_of_kind(kind)
        return found if found is not None and found.status != "True" else None


@dataclass(frozen=True)
class Missing:
    step: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.step}: {self.text}" + (f"; {self.remedy}" if self.remedy else "")


MessageTime = tuple[str, str] | None
"""What is missing, and the remedy."""


def missing_step(view: AddonView) -> Missing | None:
    """The first missing step; None if the addon is available."""
    if view.addon.metadata.deletion_timestamp:
        return Missing("removal", *_removal(view))
    if is_true(view.addon.status.conditions, AVAILABLE) and not view.denied(CONFIGURED):
        return None
    for name, step in STEPS:
        if (found := step(view)) is not None:
            return Missing(name, *found)
    return None


def _quoted(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason


def _removal(view: AddonView) -> tuple[str, str]:
    hook = view.denied(HOOK_COMPLETED)
    if hook is not None:
        return _quoted(hook), f"see get works --clusters {view.cluster_name} -o wide: the hook's Job or Pod has to succeed"
    held = ", ".join(view.addon.metadata.finalizers)
    if held:
        return f"it is being deleted and held by {held}", _MANAGER
    return "it is being deleted", ""


def _definition(view: AddonView) -> MessageTime:
    if view.definition is None:
        text = f"there is no ClusterManagementAddOn {view.name}"
        return text, f"make it with addon create {view.name}, or install what brings the addon"
    return None


def _cluster(view: AddonView) -> MessageTime:
    if view.cluster is None:
        return f"there is no ManagedCluster {view.cluster_name}", "join the cluster, or disable the addon there"
    return None


def _owner(view: AddonView) -> MessageTime:
    assert view.definition is not None
    if any(owner_reference.uid == view.definition.metadata.uid for owner_reference in view.addon.metadata.owner_references):
        return None
    lifecycle = view.definition.metadata.annotations.get(LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED)
    if lifecycle != LIFECYCLE_MANAGED:
        text = f"annotation {LIFECYCLE_ANNOTATION} is {lifecycle!r}: the addon's own manager has to take it up, and has not"
        return text, f"does it run? or set the annotation to {LIFECYCLE_MANAGED}"
    return "the addon manager has not taken it up", _MANAGER


def _supported(view: AddonView) -> MessageTime:
    found = view.condition_of_kind(PROGRESSING)
    if found is not None and found.reason == "ConfigurationUnsupported":
        return _quoted(found), f"take it out of spec.configs of ManagedClusterAddOn {view.cluster_name}/{view.name}"
    return None


def _config_objects(view: AddonView) -> MessageTime:
    absent = [
        f"{config_reference.resource} {wanted.namespace + '/' if wanted.namespace else ''}{wanted.name}"
        for config_reference in view.addon.status.config_references
        if (wanted := config_reference.desired_config) is not None and not wanted.spec_hash
    ]
    if absent:
        return f"not found on the hub: {', '.join(absent)}", "create it, or refer to another"
    return None


def _rollout(view: AddonView) -> MessageTime:
    found = view.denied(CONFIGURED)
    if found is not None:
        remedy = f"its turn comes with the rollout: see get addons {view.name}, and status.installProgressions of the addon"
        return _quoted(found), remedy
    return None


def _registration(view: AddonView) -> MessageTime:
    found = view.condition_of_kind(REGISTRATION_APPLIED)
    if found is None:
        return "no manager serves this addon", "a template addon needs its AddOnTemplate; of others their own manager has to run"
    if found.status == "True":
        return None
    if found.reason == "PermissionConfigPending":
        return _quoted(found), _AGENT.format(cluster=view.cluster_name)
    remedy = f"grant the role to the addon manager: kubectl label clusterrole ROLE {AGGREGATION_LABEL}=true"
    return _quoted(found), remedy if found.reason == "SetPermissionFailed" else "correct what the message names; it is retried"


def _token(view: AddonView) -> MessageTime:
    if not _by_token(view):
        return None
    if (found := view.denied(TOKEN_INFRASTRUCTURE)) is not None:
        return _quoted(found), "correct what the message names; it is retried"
    if view.condition_of_kind(TOKEN_INFRASTRUCTURE) is None:
        return "its ServiceAccount is not made on the hub yet", _MANAGER
    if (found := view.denied(TOKEN_REFRESHED)) is not None:
        return _quoted(found), _AGENT.format(cluster=view.cluster_name)
    if view.condition_of_kind(TOKEN_REFRESHED) is None:
        return "its agent has got no token yet", _AGENT.format(cluster=view.cluster_name)
    return None


def _by_token(view: AddonView) -> bool:
    signers = {registration.signer_name for registration in view.addon.status.registrations}
    return view.addon.status.kube_client_driver == TOKEN_DRIVER and CLIENT_SIGNER in signers


def _request(view: AddonView) -> MessageTime:
    """A denied or pending request explains more than the agent's condition does."""
    if not _wants_certificate(view) or is_true(view.addon.status.conditions, CERTIFICATE_ROTATED):
        return None
    for request in view.requests:
        name = request["metadata"]["name"]
        if failed := verdict_of(request, "Denied", "Failed"):
            text = f"CSR {name} is {failed['type'].lower()}: {failed.get('message') or failed.get('reason')}"
            return text, f"delete it (kubectl delete csr {name}), and the agent creates another one"
        if verdict_of(request, "Approved") is None:
            text = f"CSR {name} waits for approval"
            return text, "the addon's manager approves what it expects: see its log; it may do so for signers it has the right to"
        if not issued_certificate(request):
            return f"CSR {name} is approved and not signed", "is the signing CA there, and may the addon manager read it?"
    return None


def _certificate(view: AddonView) -> MessageTime:
    if not _wants_certificate(view):
        return None
    found = view.condition_of_kind(CERTIFICATE_ROTATED)
    if found is None:
        return "its agent has not requested a certificate", _AGENT.format(cluster=view.cluster_name)
    if found.status != "True":
        return _quoted(found), "correct what the message names; it is retried"
    return None


def _wants_certificate(view: AddonView) -> bool:
    signers = {registration.signer_name for registration in view.addon.status.registrations}
    return bool(signers - {CLIENT_SIGNER} if _by_token(view) else signers)


def _hosting(view: AddonView) -> MessageTime:
    if (found := view.denied(HOSTING_VALIDITY)) is not None:
        return _quoted(found), f"set annotation {HOSTING_CLUSTER_ANNOTATION} to a managed cluster"
    return None


def _works(view: AddonView) -> MessageTime:
    hosted = HOSTING_CLUSTER_ANNOTATION in view.addon.metadata.annotations
    for kind in (MANIFEST_APPLIED, *((HOSTING_MANIFEST_APPLIED,) if hosted else ())):
        found = view.condition_of_kind(kind)
        if found is None:
            return "its works are not applied yet", f"does the work agent run there? see get works --clusters {view.cluster_name}"
        if found.status != "True":
            return _quoted(found), f"see get works --clusters {view.cluster_name} -o wide"
    return None


def _reachable(view: AddonView) -> MessageTime:
    assert view.cluster is not None
    found = condition_of(view.cluster.status.conditions, CLUSTER_AVAILABLE)
    if found is None or found.status != "True":
        return "the cluster is not available", f"see doctor {view.cluster_name}"
    return None


_HEALTH: Final = {
    "ManagedClusterAddOnLeaseUpdateStopped": "its agent does not renew Lease {namespace}/{addon} any more: does it run there?",
    "ManagedClusterAddOnLeaseNotFound": "its agent has not made Lease {namespace}/{addon}: does it run there?",
    "ProbeUnavailable": "see the pods of its agent on the cluster",
    "NoProbeResult": "wait for the work agent to report; see get works --clusters {cluster}",
    "WorkNotApplied": "see get works --clusters {cluster} -o wide",
    "WorkNotFound": "does the hub's addon manager run? see get hub-info",
}


def _health(view: AddonView) -> MessageTime:
    found = view.condition_of_kind(AVAILABLE)
    variables = {"namespace": view.namespace, "addon": view.name, "cluster": view.cluster_name}
    if found is None:
        if view.addon.status.health_check.mode == "Lease":
            return "its agent has not reported", _HEALTH["ManagedClusterAddOnLeaseNotFound"].format(**variables)
        return "its health was never reported", "who serves the addon has to: see its manager's log"
    if found.status != "True":
        return _quoted(found), _HEALTH.get(found.reason, "see the addon's manager and its agent").format(**variables)
    return None


STEPS: Final[tuple[tuple[str, Callable[[AddonView], MessageTime]], ...]] = (
    ("definition", _definition),
    ("cluster", _cluster),
    ("owner", _owner),
    ("configuration", _supported),
    ("configuration", _config_objects),
    ("rollout", _rollout),
    ("registration", _registration),
    ("token", _token),
    ("signing request", _request),
    ("certificate", _certificate),
    ("hosting", _hosting),
    ("works", _works),
    ("availability of the cluster", _reachable),
    ("health", _health),
)


def reasons(addon: ManagedClusterAddOn) -> Iterator[tuple[str, str]]:
    """Each condition with its status, reason and message."""
    for condition in addon.status.conditions:
        yield condition.type, f"{condition.status} {_quoted(condition)}".rstrip()
