"""Who may bind a cluster set to a namespace: users with permission for `managedclustersets/bind` of that set.

A binding has its set's name.
"""

from __future__ import annotations

from muster.api.cluster.v1 import GROUP
from muster.api.cluster.v1beta2 import ManagedClusterSetBinding
from muster.registration.hub.webhooks.refusals import forbidden, may
from muster.runtime.auth import Authorizer
from muster.runtime.webhook import AdmissionRequest, AdmissionResponse, allow, bad_request, read


class SetBindingWebhook:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.operation not in ("CREATE", "UPDATE"):
            return allow()
        binding = read(ManagedClusterSetBinding, request.object)
        bound = binding.spec.cluster_set
        if binding.metadata.name != bound:
            raise bad_request("The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet")
        if request.operation == "CREATE" and not await may(
            self._authorizer, request.user, "create", GROUP, "managedclustersets/bind", bound
        ):
            why = f'user "{request.user.name}" is not allowed to bind cluster set "{bound}"'
            raise forbidden("managedclustersets/bind", bound, why)
        return allow()
