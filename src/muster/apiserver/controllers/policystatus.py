"""The status of ValidatingAdmissionPolicies: type checks the expressions once per generation (`admission.type_checker`) and writes
the warnings. A policy with warnings is enforced nevertheless. Follows `validatingadmissionpolicystatus` of
kube-controller-manager."""

from __future__ import annotations

from collections.abc import Iterable

from muster.apiserver.admission.policies import POLICIES
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.store.api import Event

_VERSION = "admissionregistration.k8s.io/v1"
_MANAGER = "validatingadmissionpolicy-status"


class PolicyStatus:
    name = "policy status"
    resources = (POLICIES,)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        return () if event.deleted else (event.entry.key,)

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [entry.key for entry in cluster.store.list(cluster.name, POLICIES)]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        from muster.apiserver.admission.type_checker import check_types

        policy = cluster.read(POLICIES, key)
        if policy is None:
            return None
        generation = policy["metadata"].get("generation", 0)
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return None
        warnings = check_types(cluster.resources, policy["spec"])
        status = {"observedGeneration": generation, "typeChecking": {"expressionWarnings": warnings} if warnings else {}}
        desired = {"apiVersion": _VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": key}, "status": status}
        try:
            path = object_path(_VERSION, "validatingadmissionpolicies", "", key, "status")
            await self._context.client(cluster).apply(path, desired, _MANAGER)
        except ApiError as error:
            if error.code != 404:
                raise
        return None
