"""Approves certificate signing requests of addons' agents. It denies nothing, and ignores requests of addons that other processes
serve.

A request is approved if the cluster is accepted and has the addon, an agent of that cluster is the requestor, and the request
matches one of the addon's registrations there (`request`). Other requests stay pending and are checked again when their cluster or
addon changes; the reason is logged once.
"""

from __future__ import annotations

from typing import Final

from muster.addon.agent_addon import AddonError
from muster.addon.requests.open_requests import RECHECK, RequestController
from muster.addon.requests.options import RequestOptions
from muster.addon.requests.registrations import RegistrationsOf
from muster.addon.requests.request import AddonRequest, NotAnAddonsRequest, check_requester, read_request, registration_for
from muster.api.addons import AGGREGATION_LABEL
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.registration.drivers.certificates.first_requests import is_settled
from muster.runtime.cache import Snapshot
from muster.runtime.client import Forbidden
from muster.runtime.controller import ControllerContext

log = get_logger("muster.addon.requests.approval")

NAME: Final = "addon-csr-approving"
APPROVED: Final = {
    "type": "Approved",
    "status": "True",
    "reason": "AutoApprovedByHubCSRApprovingController",
    "message": "Auto approving addon agent certificate.",
}
REMEDY: Final = f"give it the verbs approve and sign on this signer, by a ClusterRole with the label {AGGREGATION_LABEL}=true"


class AddonApprover(RequestController):
    def __init__(self, context: ControllerContext, registrations: RegistrationsOf, options: RequestOptions) -> None:
        super().__init__(context, registrations, NAME, lambda csr: not is_settled(csr))
        self._accounts = options.grpc_accounts
        self._approved = context.metrics.counter(
            "muster_addon_requests_approved_total", "Signing requests of addons that were approved"
        )
        self._left = context.metrics.counter(
            "muster_addon_requests_left_total", "Signing requests of addons that were not found to be ones to approve"
        )

    async def answer(self, csr: Snapshot) -> float | None:
        try:
            request = self._approvable(csr)
            if request is None:
                return None
            if await self._requests.answers.approve(csr, APPROVED):
                self._approved.inc()
                log.info("request approved", request=csr.name, cluster=request.cluster, addon=request.addon, signer=request.signer)
        except (NotAnAddonsRequest, AddonError) as problem:
            self._leave(csr, str(problem))
            return RECHECK
        except Forbidden as refusal:
            self._leave(csr, f"the addon manager may not approve this: {refusal}; {REMEDY}")
            self._context.events.event(
                csr.data, "Warning", "ApprovalForbidden", f"The addon manager may not approve this; {REMEDY}"
            )
            return RECHECK
        return None

    def _approvable(self, csr: Snapshot) -> AddonRequest | None:
        """The request, if it can be approved; None if it is not for this process. Raises NotAnAddonsRequest, AddonError."""
        registrations = self.registrations_of(csr)
        if registrations is None:
            return None
        request = read_request(csr.data, self._accounts)
        check_requester(request)
        cluster = self._requests.clusters.cache.named(request.cluster)
        if cluster is None or not cluster.spec.hub_accepts_client:
            raise NotAnAddonsRequest("metadata.labels", f"cluster {request.cluster!r} is not accepted")
        if ObjectKey(request.cluster, request.addon) not in self._requests.addons.cache:
            raise NotAnAddonsRequest("metadata.labels", f"cluster {request.cluster!r} has no addon {request.addon!r}")
        registration_for(request, registrations)
        return request

    def _leave(self, csr: Snapshot, problem: str) -> None:
        if self._requests.is_news(csr.name, problem):
            self._left.inc()
            log.warning("request left alone", request=csr.name, problem=problem)
