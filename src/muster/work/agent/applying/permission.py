"""Finds out whether a 403 is the agent's own missing permission.

A quota, an admission webhook and missing RBAC all answer 403. Only the last one is solved by granting permissions to the agent, so
the verbs that applying needs are reviewed for the agent itself; the missing ones are added to the error's message.
"""

from __future__ import annotations

from muster.machinery.objects import ObjectRef
from muster.runtime.auth import missing_rights, rights
from muster.runtime.client import Forbidden, KubeClient, KubeError


async def explained(client: KubeClient, ref: ObjectRef, error: Forbidden) -> Forbidden:
    """The error itself, or one that names the agent's missing permissions and how to grant them."""
    group, plural = ref.resource.group, ref.resource.plural
    # A creation has no name when it is authorized.
    needed = (
        *rights(group, plural, "create", namespace=ref.namespace),
        *rights(group, plural, "update", "patch", "get", name=ref.name, namespace=ref.namespace),
    )
    try:
        missing = await missing_rights(client, needed)
    except KubeError:
        return error
    if not missing:
        return error
    return Forbidden(
        error.code,
        error.reason,
        f"the work agent itself lacks the permission to {', '.join(right.verb for right in missing)} {ref} "
        f'(a ClusterRole labelled open-cluster-management.io/aggregate-to-work: "true" can give it): {error.message}',
        error.details,
        error.retry_after,
    )
