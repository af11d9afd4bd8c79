"""The installation of an operator: its CRD, namespace, service account, role, Deployment and pull secret.

`clusteradm` applies it, and `python -m muster.operator.bundle DIRECTORY` writes it as YAML for kubectl or kustomize; with `--check`
it only compares the existing files.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from muster.addon.install import aggregated_role
from muster.api import Document
from muster.api.crds import OPERATOR, definitions
from muster.api.operator.v1 import ResourceRequirement
from muster.gateway.permissions import credentials_namespace, namespace_permissions
from muster.kube import yaml
from muster.operator import charts
from muster.operator.applier import Wanted
from muster.operator.cluster_manager.components import hub_addon_roles
from muster.operator.deployments import Workload, deployment
from muster.operator.launch import CONTAINERS
from muster.operator.names import (
    CLUSTER_MANAGER,
    CLUSTER_MANAGERS,
    IMAGE_NAME,
    KLUSTERLET,
    KLUSTERLETS,
    OPERATOR_NAMESPACE,
    PULL_SECRET,
    image,
)
from muster.operator.pod_namespaces import RUN
from muster.operator.rules import CLUSTER_MANAGER_RULES, KLUSTERLET_RULES
from muster.registration.hub.install import bootstrap_permissions
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CRDS, DEPLOYMENTS, NAMESPACES, SECRETS
from muster.runtime.install import account_permissions, named

RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass(frozen=True)
class Operator:
    """`name` is the name of the Deployment, the account, the role and the command."""

    name: str
    plural: str
    rules: tuple[Document, ...]
    roles: tuple[Wanted, ...] = ()
    """Further roles of its components that only an administrator can create, and the namespace that one of them is in."""


_ROLES: Final = (
    aggregated_role(),
    *hub_addon_roles(HUB_NAMESPACE),
    credentials_namespace(),
    *namespace_permissions(HUB_NAMESPACE, credentials=True),
)
CLUSTER_MANAGER_OPERATOR: Final = Operator(CLUSTER_MANAGER, CLUSTER_MANAGERS.plural, CLUSTER_MANAGER_RULES, _ROLES)
KLUSTERLET_OPERATOR: Final = Operator(KLUSTERLET, KLUSTERLETS.plural, KLUSTERLET_RULES)


@dataclass(frozen=True)
class BundleOptions:
    image: str = field(default_factory=image)
    namespace: str = OPERATOR_NAMESPACE
    create_namespace: bool = True
    replicas: int = 1
    resources: ResourceRequirement | None = None
    pull_credential: bytes = field(default=b"", repr=False)
    """A docker config.json."""
    labels: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    """Further flags of the operator."""


def bundle(operator: Operator, options: BundleOptions | None = None) -> list[Wanted]:
    """In the order in which it can be applied; the reverse is the order of removal."""
    options = options or BundleOptions()
    own = [kind for kind in OPERATOR if kind.resource.plural == operator.plural]
    documents: list[Wanted] = [(CRDS, document) for document in definitions(own)]
    if options.create_namespace:
        documents.append((NAMESPACES, {"metadata": {**named(options.namespace), "labels": {**RESTRICTED, **RUN}}}))
    if options.pull_credential:
        documents.append((SECRETS, pull_secret(options.namespace, options.pull_credential)))
    documents += account_permissions(operator.name, options.namespace, operator.name, operator.rules)
    documents += operator.roles
    documents.append((DEPLOYMENTS, operator_deployment(operator, options)))
    return documents


def operator_deployment(operator: Operator, options: BundleOptions) -> Document:
    return deployment(
        Workload(
            operator.name,
            options.namespace,
            operator.name,
            options.image,
            ("operator", operator.name, *options.args),
            container=CONTAINERS[operator.name],
            replicas=options.replicas,
            resources=options.resources,
            labels=options.labels,
        )
    )


def pull_secret(namespace: str, credential: bytes) -> Document:
    content = {".dockerconfigjson": base64.b64encode(credential).decode()}
    return {"metadata": named(PULL_SECRET, namespace), "type": "kubernetes.io/dockerconfigjson", "data": content}


def whole(wanted: Wanted) -> Document:
    """A document with apiVersion and kind."""
    resource, document = wanted
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}


_BY_DEFAULT: Final = {"deployOption": {"mode": "Default"}}
SAMPLES: Final[dict[str, Wanted]] = {
    CLUSTER_MANAGER: (CLUSTER_MANAGERS, {"metadata": named(CLUSTER_MANAGER), "spec": _BY_DEFAULT}),
    KLUSTERLET: (KLUSTERLETS, {"metadata": named(KLUSTERLET), "spec": {"clusterName": "cluster1", **_BY_DEFAULT}}),
}
"""A minimal object for each operator; its kind must be served before it is applied."""


def files() -> dict[str, str]:
    """The files below `deploy/`, by path."""
    extra = {CLUSTER_MANAGER: {"bootstrap.yaml": bootstrap_permissions()}}
    made = {}
    for operator in (CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR):
        parts = {"operator.yaml": bundle(operator), **extra.get(operator.name, {})}
        for name, documents in parts.items():
            made[f"{operator.name}/{name}"] = yaml.dump_all(whole(document) for document in documents)
        made |= _chart(operator, extra.get(operator.name, {}).get("bootstrap.yaml", []))
        sample = SAMPLES[operator.name]
        made[f"{operator.name}/{sample[0].kind.lower()}.yaml"] = yaml.dump(whole(sample))
        made[f"{operator.name}/kustomization.yaml"] = yaml.dump(
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "resources": list(parts),
                "images": [{"name": IMAGE_NAME, "newTag": image().rpartition(":")[2]}],
            }
        )
    return made


def _chart(operator: Operator, extra: list[Wanted]) -> dict[str, str]:
    """Without the namespace, which Helm creates."""
    documents = bundle(operator, BundleOptions(namespace=charts.NAMESPACE, create_namespace=False))
    return charts.chart_files(operator.name, map(whole, documents), map(whole, extra))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m muster.operator.bundle", description="Write the operators' manifests.")
    parser.add_argument("--check", action="store_true", help="only say whether they are up to date")
    parser.add_argument("directory", type=Path)
    given = parser.parse_args(arguments)
    stale = []
    for name, content in files().items():
        path = given.directory / name
        if path.exists() and path.read_text() == content:
            continue
        stale.append(str(path))
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    if stale and given.check:
        print(f"not up to date: {', '.join(stale)}; run python -m muster.operator.bundle {given.directory}", file=sys.stderr)
    return 1 if stale and given.check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
