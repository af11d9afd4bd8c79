"""What every cluster has from birth: system namespaces, default accounts, RBAC policy. One frozen layer is shared by all clusters.

Entries are templates whose uid is a placeholder; a cluster shows each with a uid of its own and copies it into its own rows only
when somebody changes it. The uid is derived from the cluster's name, the key and what tells a cluster from an earlier one of its
name (see `ClusterKeys.incarnation`), so it is the same after a restart and another in a cluster that was made anew.
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
_NAMESPACE_OF_UIDS = uuid.UUID("6d757374-6572-4000-8000-636c75737465")


def cluster_uid(cluster: str, incarnation: str, resource: str, key: str) -> str:
    named = f"{cluster}\0{resource}\0{key}"
    return str(uuid.uuid5(_NAMESPACE_OF_UIDS, f"{named}\0{incarnation}" if incarnation else named))


class BootstrapLayer:
    """Implements the store's `BaseLayer`."""

    def __init__(
        self,
        objects: list[Object],
        created: datetime,
        keys_of: Callable[[str], ClusterKeys | None],
        advertised: Callable[[], tuple[str, int]],
    ) -> None:
        """`advertised`: host and port at which the server is reached, asked once it listens."""
        born = format_time(created)
        objects = [*objects, *trust_templates(), *builtin_api_services(born), *service_templates(born)]
        self.entries: Mapping[str, Mapping[str, Entry]] = _entries(objects, born)
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
