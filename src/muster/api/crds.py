"""CustomResourceDefinitions of our kinds, made from the types.

`definitions()` gives them as documents, ready to apply; `python -m muster.api.crds [plural…]` prints them as YAML. A definition
lists the versions of a kind and says which one is stored. Kinds whose versions differ are converted by a
webhook where one is given; without it the server changes `apiVersion` only, and fields of the other version are pruned on the way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.addon import v1alpha1 as addon_v1alpha1
from muster.api.addon import v1beta1 as addon_v1beta1
from muster.api.authentication import v1alpha1 as authentication_v1alpha1
from muster.api.authentication import v1beta1 as authentication_v1beta1
from muster.api.cluster import v1 as cluster_v1
from muster.api.cluster import v1alpha1 as cluster_v1alpha1
from muster.api.cluster import v1beta1 as cluster_v1beta1
from muster.api.cluster import v1beta2 as cluster_v1beta2
from muster.api.operator import v1 as operator_v1
from muster.api.policy import v1 as policy_v1
from muster.api.policy import v1beta1 as policy_v1beta1
from muster.api.proxy import v1alpha1 as proxy_v1alpha1
from muster.api.resource import Column, Document, ResourceType, TypedObject
from muster.api.structural import object_schema
from muster.api.work import v1 as work_v1
from muster.api.work import v1alpha1 as work_v1alpha1
from muster.kube.yaml import dump_all

_POLICY_TEMPLATE: Final = {"policy.open-cluster-management.io/policy-type": "template"}


@dataclass(frozen=True)
class Definition:
    """A kind: its versions, which of them is stored, whether they need converting, and labels that others look for."""

    versions: tuple[type[TypedObject], ...]
    stored: str
    converted: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def resource(self) -> ResourceType:
        return self.versions[0].resource

    @property
    def name(self) -> str:
        return f"{self.resource.plural}.{self.resource.group}"


@dataclass(frozen=True)
class ConversionWebhook:
    """The webhook that converts kinds whose versions differ: a service in the cluster, or a URL."""

    ca_bundle: str
    service: str = ""
    namespace: str = ""
    port: int = 9443
    path: str = "/convert"
    url: str = ""

    def document(self) -> Document:
        client: Document = {"caBundle": self.ca_bundle}
        if self.url:
            client["url"] = self.url
        else:
            client["service"] = {"name": self.service, "namespace": self.namespace, "port": self.port, "path": self.path}
        return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}


def _one(kind: type[TypedObject], labels: Mapping[str, str] | None = None) -> Definition:
    return Definition((kind,), kind.resource.version, labels=labels or {})


HUB: Final = (
    _one(cluster_v1.ManagedCluster),
    _one(cluster_v1beta2.ManagedClusterSet),
    _one(cluster_v1beta2.ManagedClusterSetBinding),
    _one(cluster_v1beta1.Placement),
    _one(cluster_v1beta1.PlacementDecision),
    _one(cluster_v1alpha1.AddOnPlacementScore),
    _one(work_v1.ManifestWork),
    _one(work_v1alpha1.ManifestWorkReplicaSet),
    Definition((addon_v1alpha1.ClusterManagementAddOn, addon_v1beta1.ClusterManagementAddOn), "v1alpha1", converted=True),
    Definition((addon_v1alpha1.ManagedClusterAddOn, addon_v1beta1.ManagedClusterAddOn), "v1alpha1", converted=True),
    Definition((addon_v1alpha1.AddOnDeploymentConfig, addon_v1beta1.AddOnDeploymentConfig), "v1alpha1"),
    _one(addon_v1alpha1.AddOnTemplate),
)
"""What a hub serves."""

SPOKE: Final = (_one(cluster_v1alpha1.ClusterClaim), _one(work_v1.AppliedManifestWork))
"""What a managed cluster serves."""

OPERATOR: Final = (_one(operator_v1.ClusterManager), _one(operator_v1.Klusterlet))
"""What the operators reconcile."""

ACCOUNTS: Final = (
    Definition((authentication_v1alpha1.ManagedServiceAccount, authentication_v1beta1.ManagedServiceAccount), "v1beta1"),
    _one(authentication_v1alpha1.ManagedServiceAccountBinding),
)
"""Managed service accounts, on the hub."""

POLICY: Final = (
    _one(policy_v1.Policy),
    _one(policy_v1.ConfigurationPolicy, _POLICY_TEMPLATE),
    _one(policy_v1beta1.OperatorPolicy, _POLICY_TEMPLATE),
)
"""Policies, on hub and managed clusters."""

CLUSTER_PROXY: Final = (_one(proxy_v1alpha1.ManagedProxyConfiguration),)
"""The configuration of cluster-proxy, for hubs that run it."""

ALL: Final = HUB + SPOKE + OPERATOR + ACCOUNTS + POLICY + CLUSTER_PROXY


def definitions(kinds: Iterable[Definition] = ALL, webhook: ConversionWebhook | None = None) -> list[Document]:
    """The definitions as documents; with a webhook, kinds whose versions differ are converted by it."""
    return [_document(kind, webhook if kind.converted else None) for kind in kinds]


def _document(kind: Definition, webhook: ConversionWebhook | None) -> Document:
    resource = kind.resource
    names: Document = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    spec: Document = {"group": resource.group, "names": names, "scope": resource.scope}
    if webhook is not None:
        spec["conversion"] = webhook.document()
    spec["versions"] = [_version(version, version.resource.version == kind.stored) for version in kind.versions]
    metadata: Document = {"name": kind.name}
    if kind.labels:
        metadata["labels"] = dict(kind.labels)
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def _version(kind: type[TypedObject], stored: bool) -> Document:
    resource = kind.resource
    version: Document = {"name": resource.version, "served": True, "storage": stored}
    if resource.deprecation:
        version |= {"deprecated": True, "deprecationWarning": resource.deprecation}
    if resource.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in resource.columns]
    if resource.status:
        version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": object_schema(kind)}
    return version


def _column(column: Column) -> dict[str, Any]:
    document = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**document, "description": column.description} if column.description else document


def main(plurals: list[str]) -> int:
    known = {kind.resource.plural: kind for kind in ALL}
    if unknown := [plural for plural in plurals if plural not in known]:
        print(f"no definition of {', '.join(unknown)}; there are {', '.join(sorted(known))}", file=sys.stderr)
        return 1
    sys.stdout.write(dump_all(definitions(known[plural] for plural in plurals) if plurals else definitions()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
