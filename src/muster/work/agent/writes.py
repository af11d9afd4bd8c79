"""Writes as they are sent, shared by the applier and by dry runs: both must send the same.

For most kinds a server authorizes the verb only. For some it also checks the writer: roles and bindings must grant nothing that the
writer does not hold (OpenShift's too, which become Kubernetes' own in the writer's name), the writer must be allowed to read the
parameters of admission policies, and to attest a signer's trust. The agent would pass where an executor does not, so writes of
these kinds are `guarded`.
"""

from __future__ import annotations

from typing import Final

import orjson

from muster.kube.rbac import API_GROUP
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.cache import ObservedObject, Presence
from muster.runtime.client import KubeClient
from muster.work.agent.interfaces import ManifestWrite

_GRANTING: Final = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
_GUARDED: Final = {
    API_GROUP: _GRANTING,
    "authorization.openshift.io": _GRANTING,
    "admissionregistration.k8s.io": (
        *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
    ),
    "certificates.k8s.io": ("clustertrustbundles",),
}


def guarded(resource: GVR) -> bool:
    """Whether a server checks more than the verb."""
    return resource.plural in _GUARDED.get(resource.group, ())


def seen(ref: ObjectRef, observed: ObservedObject) -> Object | None:
    """The object that is known to be there."""
    if observed.presence is not Presence.PRESENT:
        return None
    live: Object = orjson.loads(observed.raw)
    # Elements of lists do not say what they are.
    return {**live, "apiVersion": ref.resource.api_version, "kind": ref.resource.kind}


async def send(client: KubeClient, ref: ObjectRef, write: ManifestWrite, *, dry_run: bool = False) -> Object:
    """The object afterwards. Raises KubeError."""
    resource, document, manager = ref.resource, write.document, write.manager
    if write.verb == "create":
        return await client.create(resource, document, ref.namespace, manager=manager, dry_run=dry_run)
    if write.verb == "update":
        return await client.update(resource, document, manager=manager, dry_run=dry_run)
    return await client.apply(resource, document, manager=manager, force=write.force, dry_run=dry_run)
