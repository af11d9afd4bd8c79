"""Adoption of Deployments that upstream's operators have made for the same ClusterManager or Klusterlet.

Both sides use the same names. Upstream's operators write with updates, so a server-side apply over one of their Deployments would
merge the two: with the volumes of both, and with what either has in its containers. Therefore the fields of upstream's manager
first become this operator's, as client-go's csaupgrade does it with those of client-side apply; the next apply then removes what it
does not contain.

A selector cannot be changed: a Deployment with another one is deleted, and made anew by the next apply.
"""

from __future__ import annotations

from typing import Any, Final

from muster.api import Document
from muster.kube.fieldmanager.fieldset import canonical, union_of
from muster.machinery.objects import GVR, Object
from muster.runtime.client import KubeClient

UPSTREAM_FIELDS: Final = "registration-operator"
"""The field manager of upstream's operators, which is their program's name."""

Entry = dict[str, Any]


async def adopt(client: KubeClient, resource: GVR, found: Object, wanted: Document, manager: str) -> None:
    """Prepare an existing Deployment for an apply by `manager`. Raises KubeError."""
    metadata = found["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    if found["spec"]["selector"] != wanted["spec"]["selector"]:
        await client.delete(resource, name, namespace, uid=metadata["uid"], propagation="Background")
        return
    entries = adopted_entries(metadata.get("managedFields") or (), manager)
    if entries is not None:
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": entries}}
        await client.patch(resource, name, patch, namespace)


def adopted_entries(entries: list[Entry] | tuple[Entry, ...], manager: str) -> list[Entry] | None:
    """The managedFields with those of upstream's operator assigned to `manager`; None if upstream's has none."""
    theirs = [one for one in entries if _is_whole(one, UPSTREAM_FIELDS, "Update")]
    if not theirs:
        return None
    ours = [one for one in entries if _is_whole(one, manager, "Apply")]
    fields = union_of([canonical(one["fieldsV1"]) for one in (*ours, *theirs)])
    merged = {**theirs[0], "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [*(one for one in entries if one not in ours and one not in theirs), merged]


def _is_whole(entry: Entry, manager: str, operation: str) -> bool:
    """Whether the entry is this manager's, and not of a subresource."""
    return entry["manager"] == manager and entry["operation"] == operation and not entry.get("subresource")
