"""Installation steps shared by hubs and managed clusters: accounts, rules, bindings, and CRDs that must be served.

All objects are applied server-side with one field manager, so the steps can be repeated at any time, also by a newer version: drift
is reverted, and fields of other managers are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.api import Document
from muster.machinery.clock import Clock, sleep
from muster.machinery.objects import GVR
from muster.machinery.poll_interval import poll_interval
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, NAMESPACES, SERVICE_ACCOUNTS
from muster.runtime.client.errors import AlreadyExists

ESTABLISH_TIMEOUT: Final = 60.0
MAX_POLL_INTERVAL: Final = 0.25
RBAC_GROUP: Final = "rbac.authorization.k8s.io"
READ: Final = ("get", "list", "watch")


class InstallError(Exception):
    """Something that was applied does not become ready."""


def named(name: str, namespace: str = "") -> Document:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Document:
    restricted: Document = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **restricted}


def binding(name: str, kind: str, role: str, subject: Mapping[str, Any], namespace: str = "") -> Document:
    reference = {"apiGroup": RBAC_GROUP, "kind": kind, "name": role}
    return {"metadata": named(name, namespace), "roleRef": reference, "subjects": [dict(subject)]}


def account_permissions(account: str, namespace: str, role: str, rules: Sequence[Document]) -> list[tuple[GVR, Document]]:
    """A service account, a ClusterRole and their binding."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return [
        (SERVICE_ACCOUNTS, {"metadata": named(account, namespace)}),
        (CLUSTER_ROLES, {"metadata": named(role), "rules": list(rules)}),
        (CLUSTER_ROLE_BINDINGS, binding(role, "ClusterRole", role, subject)),
    ]


async def apply_all(client: KubeClient, objects: Sequence[tuple[GVR, Document]], manager: str) -> None:
    for resource, document in objects:
        await client.apply(resource, document, manager=manager)


async def ensure_namespace(client: KubeClient, name: str) -> None:
    """Create the namespace if it is missing. It is not applied: an apply without fields would only add a managedFields entry."""
    try:
        await client.create(NAMESPACES, {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": named(name)})
    except AlreadyExists:
        return


async def await_definitions(client: KubeClient, names: Sequence[str], clock: Clock) -> None:
    """Wait until the CRDs, which exist, are served. Raises InstallError on a timeout, or if one is deleted."""
    waiting = set(names)
    began = clock.monotonic()
    while True:
        found = {obj["metadata"]["name"]: obj for obj in (await client.list(CRDS)).items}
        waiting -= {name for name, obj in found.items() if _established(obj)}
        if not waiting:
            return
        if gone := sorted(waiting - found.keys()):
            # Waiting would block everything else, such as a removal that was requested meanwhile.
            raise InstallError(f"these were deleted after they were applied: {', '.join(gone)}")
        waited = clock.monotonic() - began
        if waited >= ESTABLISH_TIMEOUT:
            raise InstallError(f"not served {ESTABLISH_TIMEOUT:g} s after they were applied: {', '.join(sorted(waiting))}")
        await sleep(clock, poll_interval(waited, MAX_POLL_INTERVAL))


def _established(definition: Document) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
