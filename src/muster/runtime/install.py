"""What installing has to do with, on a hub as on a managed cluster: accounts, rules, bindings, and definitions that are served.

Everything is applied server-side by a manager of its own, so it may be done again at any time, by a newer version too: what is
there stays, what drifted is set right, fields of others are left alone.
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
    """Something that was applied does not come to life."""


def named(name: str, namespace: str = "") -> Document:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Document:
    restricted: Document = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **restricted}


def binding(name: str, kind: str, role: str, subject: Mapping[str, Any], namespace: str = "") -> Document:
    reference = {"apiGroup": RBAC_GROUP, "kind": kind, "name": role}
    return {"metadata": named(name, namespace), "roleRef": reference, "subjects": [dict(subject)]}


def account_permissions(account: str, namespace: str, role: str, rules: Sequence[Document]) -> list[tuple[GVR, Document]]:
    """An account and what it may do in the whole cluster."""
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
    """Made if it is missing, not applied: whoever wants nothing in it would become the owner of nothing, again and again."""
    try:
        await client.create(NAMESPACES, {"apiVersion": NAMESPACES.api_version, "kind": NAMESPACES.kind, "metadata": named(name)})
    except AlreadyExists:
        return


async def await_definitions(client: KubeClient, names: Sequence[str], clock: Clock) -> None:
    """Until the definitions, which are there, are served. Raises InstallError when that takes too long, or when one is gone."""
    waiting = set(names)
    began = clock.monotonic()
    while True:
        found = {obj["metadata"]["name"]: obj for obj in (await client.list(CRDS)).items}
        waiting -= {name for name, obj in found.items() if _established(obj)}
        if not waiting:
            return
        if gone := sorted(waiting - found.keys()):
            # Whoever waited on would hold up everything else, such as the removal that somebody asked for meanwhile.
            raise InstallError(f"these were deleted after they were applied: {', '.join(gone)}")
        waited = clock.monotonic() - began
        if waited >= ESTABLISH_TIMEOUT:
            raise InstallError(f"not served {ESTABLISH_TIMEOUT:g} s after they were applied: {', '.join(sorted(waiting))}")
        await sleep(clock, poll_interval(waited, MAX_POLL_INTERVAL))


def _established(definition: Document) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
