"""Whose permission is missing when a server refuses with 403.

A quota, an admission webhook and the agent's own role answer alike. Only the last is helped by giving the agent a permission, so
the server is asked which of the verbs that applying takes the agent itself may not use; the answer goes into the error's message.
"""

from __future__ import annotations

from typing import Final

from muster.runtime.errors import Forbidden, KubeError
from muster.runtime.resource import Resource
from muster.runtime.verbs import KubeClient
from muster.work.agent.seam import ObjectRef

_SELF_REVIEWS: Final = Resource("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)
VERBS: Final = ("create", "update", "patch", "get", "delete")


async def explained(client: KubeClient, ref: ObjectRef, error: Forbidden) -> Forbidden:
    """The error itself, or one that says that the agent lacks permissions and how it gets them."""
    try:
        missing = [verb for verb in VERBS if not await _may(client, ref, verb)]
    except KubeError:
        return error
    if not missing:
        return error
    return Forbidden(
        error.code,
        error.reason,
        f"the work agent itself lacks the permission to {', '.join(missing)} {ref} "
        f'(a ClusterRole labelled open-cluster-management.io/aggregate-to-work: "true" can give it): {error.message}',
        error.details,
        error.retry_after,
    )


async def _may(client: KubeClient, ref: ObjectRef, verb: str) -> bool:
    attributes = {
        "verb": verb,
        "group": ref.resource.group,
        "version": ref.resource.version,
        "resource": ref.resource.plural,
        "namespace": ref.namespace,
        "name": ref.name,
    }
    review = {"apiVersion": _SELF_REVIEWS.api_version, "kind": _SELF_REVIEWS.kind, "spec": {"resourceAttributes": attributes}}
    return (await client.create(_SELF_REVIEWS, review))["status"].get("allowed") is True
