"""An addon made of manifests: an AddOnTemplate, and the ClusterManagementAddOn that installs it.

The template is created first, so that no addon exists without its manifests. Existing objects are left alone unless `overwrite` is
set; then the manifests are replaced, while the install strategy and other configurations stay unless new ones are given: that is
how a new version is rolled out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.administration.content.addons import CLUSTER_ADDONS
from muster.administration.errors import AdministrationError
from muster.administration.hubs import CLUSTERADM
from muster.api import Document
from muster.api.addon.v1alpha1 import AddOnTemplate
from muster.api.addons import AGGREGATION_LABEL, LIFECYCLE_ANNOTATION, LIFECYCLE_MANAGED
from muster.kube.names import dns1123_subdomain, label_value
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.client import AlreadyExists, Forbidden, KubeClient, NotFound, served
from muster.runtime.client.builtin import CLUSTER_ROLES

TEMPLATES: Final = served(AddOnTemplate)


@dataclass(frozen=True)
class AddonDraft:
    """The settings of a new addon."""

    name: str
    version: str
    manifests: Sequence[Document]
    hub_registration: bool = False
    """Whether its agents get a credential for the hub."""
    cluster_role: str = ""
    """The ClusterRole of its agents on the hub, each in its cluster's namespace."""
    labels: Mapping[str, str] = field(default_factory=dict)
    placement: ObjectKey | None = None
    """The Placement that installs it; without one it is installed manually."""

    @property
    def template_name(self) -> str:
        return f"{self.name}-{self.version}"

    def check(self) -> None:
        """Raises AdministrationError."""
        if problems := [*dns1123_subdomain(self.name), *label_value(self.name)]:
            raise AdministrationError(f"{self.name!r} cannot name an addon: {problems[0]}")
        if not self.version:
            raise AdministrationError("--version: addon version must be specified")
        if problems := dns1123_subdomain(self.template_name):
            raise AdministrationError(f"--version: {self.template_name!r} cannot name an AddOnTemplate: {problems[0]}")
        if self.cluster_role and not self.hub_registration:
            raise AdministrationError("--cluster-role-bind: whom it is bound to comes with --hub-registration")

    def template(self) -> Document:
        spec: Document = {
            "addonName": self.name,
            "agentSpec": {"workload": {"manifests": list(self.manifests)}},
            "registration": [],
        }
        if self.hub_registration:
            binding = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": self.cluster_role}}
            permissions = [binding] if self.cluster_role else []
            spec["registration"] = [{"type": "KubeClient", "kubeClient": {"hubPermissions": permissions}}]
        return {**_kind(TEMPLATES), "metadata": self._metadata(self.template_name), "spec": spec}

    def definition(self) -> Document:
        config = {"group": TEMPLATES.group, "resource": TEMPLATES.plural, "defaultConfig": {"name": self.template_name}}
        strategy: Document = {"type": "Manual"}
        if self.placement is not None:
            chosen = {"namespace": self.placement.namespace, "name": self.placement.name}
            strategy = {"type": "Placements", "placements": [chosen]}
        metadata = self._metadata(self.name) | {"annotations": {LIFECYCLE_ANNOTATION: LIFECYCLE_MANAGED}}
        return {**_kind(CLUSTER_ADDONS), "metadata": metadata, "spec": {"supportedConfigs": [config], "installStrategy": strategy}}

    def _metadata(self, name: str) -> dict[str, Any]:
        return {"name": name, **({"labels": dict(self.labels)} if self.labels else {})}


def _kind(resource: GVR) -> Document:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


async def create(client: KubeClient, draft: AddonDraft, *, overwrite: bool = False) -> list[str]:
    """Returns what was done, in the words of OCM's tool. Raises AdministrationError."""
    draft.check()
    return [
        await _put(client, TEMPLATES, draft.template(), f"AddonTemplate {draft.template_name}", overwrite),
        await _put(client, CLUSTER_ADDONS, draft.definition(), f"ClusterManagementAddon {draft.name}", overwrite, draft),
    ]


async def _put(
    client: KubeClient, resource: GVR, document: Document, what: str, overwrite: bool, draft: AddonDraft | None = None
) -> str:
    name = document["metadata"]["name"]
    try:
        await client.create(resource, document, manager=CLUSTERADM)
        return f"{what} is created"
    except AlreadyExists:
        found = await client.get(resource, name)
    if not overwrite:
        return f"{what} is not updated when overwrite is disabled"
    await client.update(resource, _replaced(found, document, draft), manager=CLUSTERADM)
    return f"{what} is updated"


def _replaced(found: Document, wanted: Document, draft: AddonDraft | None) -> Document:
    """`draft` is for a ClusterManagementAddOn, which has more fields than the draft sets."""
    metadata = dict(found["metadata"])
    for part in ("labels", "annotations"):
        if wanted["metadata"].get(part):
            metadata[part] = {**(metadata.get(part) or {}), **wanted["metadata"][part]}
    spec = wanted["spec"]
    if draft is not None:
        (template,) = spec["supportedConfigs"]
        others = [one for one in found["spec"].get("supportedConfigs") or () if not _same_kind(one, template)]
        before = found["spec"].get("installStrategy") or {}
        strategy = spec["installStrategy"] if draft.placement is not None or not before else before
        spec = {**found["spec"], "supportedConfigs": [template, *others], "installStrategy": strategy}
    return {**found, "metadata": metadata, "spec": spec}


def _same_kind(one: Document, other: Document) -> bool:
    return (one.get("group", ""), one["resource"]) == (other["group"], other["resource"])


async def role_warning(client: KubeClient, cluster_role: str) -> str:
    """Why the addon manager may be unable to bind the role to agents; empty if it can, or if that is unknown."""
    try:
        found = await client.get(CLUSTER_ROLES, cluster_role)
    except NotFound:
        return f"there is no ClusterRole {cluster_role}: agents get nothing before it is there, with label {AGGREGATION_LABEL}=true"
    except Forbidden:
        return ""
    if (found["metadata"].get("labels") or {}).get(AGGREGATION_LABEL) == "true":
        return ""
    command = f"kubectl label clusterrole {cluster_role} {AGGREGATION_LABEL}=true"
    return f"the addon manager gives ClusterRole {cluster_role} to agents only if it holds all its rules; grant them with {command}"
