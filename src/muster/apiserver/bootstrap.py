"""The objects that every cluster has from the start: system namespaces, default accounts, RBAC policy. All clusters share one
immutable layer of them.

Entries are templates with a placeholder for the uid. A cluster shows each with its own uid and stores a copy only when it is
changed. The uid is derived from the name of the cluster, the key, and the `ClusterKeys.incarnation`, so it survives restarts and
differs in a cluster that was created again under the same name.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime

from muster.apiserver import kubernetes_service
from muster.apiserver.aggregation.local_services import builtin_api_services
from muster.apiserver.aggregation.trust import KEYS as TRUST
from muster.apiserver.aggregation.trust import filled, trust_templates
from muster.apiserver.auth.cluster_keys import ClusterKeys
from muster.apiserver.builtin.resources import builtin_table
from muster.apiserver.kubernetes_service import service_templates
from muster.apiserver.objects import encoder, object_key
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.store.api import Entry

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
ROOT_CA_CONFIGMAP = "kube-root-ca.crt"
_PLACEHOLDER = "00000000-0000-4000-8000-000000000000"
_UID_NAMESPACE = uuid.UUID("6d757374-6572-4000-8000-636c75737465")


def cluster_uid(cluster: str, incarnation: str, resource: str, key: str) -> str:
    named = f"{cluster}\0{resource}\0{key}"
    return str(uuid.uuid5(_UID_NAMESPACE, f"{named}\0{incarnation}" if incarnation else named))


class BootstrapLayer:
    """The `BaseLayer` of the store."""

    def __init__(
        self,
        objects: list[Object],
        created: datetime,
        keys_of: Callable[[str], ClusterKeys | None],
        advertised: Callable[[], tuple[str, int]],
    ) -> None:
        """`advertised` returns host and port of the server; it is called only after the server listens."""
        created_at = format_time(created)
        objects = [*objects, *trust_templates(), *builtin_api_services(created_at), *service_templates(created_at)]
        self.entries: Mapping[str, Mapping[str, Entry]] = _entries(objects, created_at)
        self._keys_of = keys_of
        self._advertised = advertised

    def materialize(self, cluster: str, resource: str, template: Entry) -> Entry:
        keys = self._keys_of(cluster)
        own = cluster_uid(cluster, "" if keys is None else keys.incarnation, resource, template.key)
        value = template.value.replace(_PLACEHOLDER.encode(), own.encode(), 1)
        if keys is not None and template.key in TRUST and resource == "/configmaps":
            value = filled(value, keys)
        elif kubernetes_service.is_filled(resource, template.key):
            value = kubernetes_service.filled(value, *self._advertised())
        return Entry(template.key, template.revision, value)


def _entries(objects: list[Object], created: str) -> dict[str, dict[str, Entry]]:
    rows = {(row.api_version, row.kind): row for row in builtin_table().values()}
    found: dict[str, dict[str, Entry]] = {}
    for obj in objects:
        row = rows[(obj["apiVersion"], obj["kind"])]
        meta = obj["metadata"]
        meta["uid"] = _PLACEHOLDER
        meta["creationTimestamp"] = created
        key = object_key(meta.get("namespace", ""), meta["name"])
        found.setdefault(row.storage, {})[key] = Entry(key, 1, encoder(obj, row.type_prefix)(1))
    return {resource: dict(sorted(entries.items())) for resource, entries in found.items()}


def bootstrap_objects(root_ca: str) -> list[Object]:
    objects: list[Object] = []
    for name in SYSTEM_NAMESPACES:
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
        )
        objects.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}})
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": ROOT_CA_CONFIGMAP,
                    "namespace": name,
                    "annotations": {"kubernetes.io/description": ROOT_CA_DESCRIPTION},
                },
                "data": {"ca.crt": root_ca},
            }
        )
    return objects + _policy()


ROOT_CA_DESCRIPTION = "The CA bundle with which workloads in this cluster verify its API server."


def _policy() -> list[Object]:
    from muster.apiserver.auth.policy import bootstrap_policy

    return bootstrap_policy()
