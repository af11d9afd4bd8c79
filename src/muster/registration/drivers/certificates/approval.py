"""The hub's automatic approval: renewals of accepted agents, and first requests of trusted bootstrap identities.

A renewal is a request that an agent makes with its present certificate; a SubjectAccessReview (verb `renew`) decides whether it is
still allowed. A first request is made with a bootstrap identity; it is approved only if automatic approval is enabled and that
identity is on the list. As every user with a bootstrap identity can ask for any cluster's name, a first request is left to an
administrator as long as another key asks for the same name (event `CompetingRequests`), and as long as the cluster of that name is
joined and its lease has not expired (event `NameInUse`); when that changes, the request is reconciled again. A request that is
created before its cluster waits for it: an approval is for a ManagedCluster (`first_requests.py`), and upstream's agent no longer
creates its cluster once it has its certificate. Nothing else is approved here, nothing is denied, nothing deleted.

Each driver whose agents use certificates has an approver of its own. `read` parses a signing request as that driver's: it knows the
signer of its agents and which client may name another requester. Names are shared by all drivers, so requests of other drivers'
agents compete too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from muster.api import condition_of, is_true
from muster.api.cluster.v1 import AVAILABLE, JOINED, ManagedCluster
from muster.machinery.authorization import AccessAttributes
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.registration.drivers.certificates.agents import AgentRequest, NotAnAgentsRequest, read_any_request, read_request
from muster.registration.drivers.certificates.first_requests import approval, has_rival, is_approved_for, is_contender, is_settled
from muster.registration.drivers.certificates.request_answers import RequestAnswers
from muster.registration.drivers.certificates.requests import verdict_of
from muster.registration.drivers.interfaces import HubContext
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import CLUSTER_LABEL, OURS, REGISTER_GROUP
from muster.runtime.auth import AccessReviewer
from muster.runtime.cache import MutationCache, Snapshot, label_index
from muster.runtime.client.builtin import SIGNING_REQUESTS

log = get_logger("muster.registration.drivers.certificates")

RENEW: Final = AccessAttributes("renew", REGISTER_GROUP, resource="managedclusters", subresource="clientcertificates")
WORKERS: Final = 16
REFUSED_AGAIN: Final = 300.0
"""Seconds until the review of a refused renewal is repeated, beside every change of its cluster."""
_REASON: Final = "AutoApprovedByHubCSRApprovingController"
_TEXT: Final = "The hub's rules approve this agent's certificate without an administrator."
_RENEWED: Final = {"type": "Approved", "status": "True", "reason": _REASON, "message": _TEXT}


_Basis = tuple[str, str, Mapping[str, str] | None]
"""The mutable input of a parsed request: its object's identity, its label and its annotations. The rest is immutable."""

ReadRequest = Callable[[Mapping[str, Any]], AgentRequest]
"""Parses a signing request as an agent's. Raises NotAnAgentsRequest."""
OnApproved = Callable[[ManagedCluster], Awaitable[None]]
"""Called, repeatedly, with each ManagedCluster for which a first request is approved. Raises KubeError."""


class Approver:
    """The controller; its keys are names of signing requests."""

    def __init__(
        self,
        context: HubContext,
        trusted: frozenset[str],
        name: str = "csr-approving",
        read: ReadRequest = read_request,
        on_approved: OnApproved | None = None,
    ) -> None:
        self._context = context
        self._trusted = trusted if context.auto_approval else frozenset()
        self._read = read
        self._on_approved = on_approved
        self._requests = context.informers.of(SIGNING_REQUESTS, label_selector=OURS)
        self._by_cluster = f"{name}-by-cluster"
        self._requests.cache.add_index(self._by_cluster, label_index(CLUSTER_LABEL))
        self._latest = MutationCache(self._requests, clock=context.clock)
        self._answers = RequestAnswers(context.client, self._latest)
        self._clusters = context.informers.of(MANAGED_CLUSTERS, decode=ManagedCluster.decode)
        self._understood: dict[str, tuple[_Basis, AgentRequest | None]] = {}
        # Refusals are not cached: a review is repeated only after a change.
        self._reviewer = AccessReviewer(context.client, refused_for=0.0, clock=context.clock)
        self._controller = context.controller(name, self.reconcile, workers=WORKERS)
        self._controller.watch(self._requests, lambda snapshot: [snapshot.name])
        self._controller.watch(self._clusters, lambda cluster: self._waiting_for(cluster.metadata.name))
        self._requests.on_change(self._withdrawn)

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> float | None:
        csr = self._latest.snapshot(ObjectKey("", name))
        if csr is None:
            self._understood.pop(name, None)
            return None
        request = self._understand(csr)
        if request is None:
            return None
        if self._vouches(csr, request) or (not request.renewal and verdict_of(csr.data, "Approved") is not None):
            self._context.reconsider(request.identity.cluster)
        if is_settled(csr.data):
            await self._notify_approved(csr, request)
            return None
        if request.renewal:
            return await self._renew(csr, request)
        if request.requester.name in self._trusted:
            await self._admit(csr, request)
        return None

    async def _notify_approved(self, csr: Snapshot, request: AgentRequest) -> None:
        cluster = self._clusters.cache.named(request.identity.cluster)
        if self._on_approved is not None and cluster is not None and not request.renewal and is_approved_for(csr.data, cluster):
            await self._on_approved(cluster)

    def vouched_for(self, cluster: ManagedCluster) -> bool:
        """Whether a trusted identity has requested a certificate for this cluster, none was denied, and no other key competes."""
        contenders = list(self._contenders(cluster))
        trusted = [request for request in contenders if request.requester.name in self._trusted]
        return bool(trusted) and not has_rival(trusted[0], contenders)

    def agents(self, cluster: ManagedCluster) -> frozenset[str]:
        """The users whose first requests were approved for this very ManagedCluster (by uid)."""
        return frozenset(
            request.identity.common_name
            for csr, request in self._requests_of(cluster.metadata.name)
            if not request.renewal and is_approved_for(csr.data, cluster)
        )

    def _requests_of(self, cluster: str) -> Iterator[tuple[Snapshot, AgentRequest]]:
        for cached in self._requests.cache.by_index(self._by_cluster, cluster):
            csr = self._latest.snapshot(cached.key)
            if csr is not None and (request := self._understand(csr)) is not None:
                yield csr, request

    def _other_requests(self, cluster: str) -> Iterator[tuple[Snapshot, AgentRequest]]:
        """Requests of other drivers' agents."""
        for csr in self._requests.cache.by_index(self._by_cluster, cluster):
            if self._understand(csr) is None and (request := _read_any(csr)) is not None:
                yield csr, request

    def _contenders(self, cluster: ManagedCluster) -> Iterator[AgentRequest]:
        """Requests that were approved by any client, and those that could be approved here, of all drivers' agents."""
        for csr, request in (*self._requests_of(cluster.metadata.name), *self._other_requests(cluster.metadata.name)):
            eligible = is_settled(csr.data) or request.requester.name in self._trusted
            if eligible and is_contender(csr.data, request, cluster):
                yield request

    def _vouches(self, csr: Snapshot, request: AgentRequest) -> bool:
        return request.requester.name in self._trusted and verdict_of(csr.data, "Denied", "Failed") is None

    def _understand(self, csr: Snapshot) -> AgentRequest | None:
        """The parsed request; None if it is no agent's. Each request is parsed once."""
        basis = (csr.uid, csr.labels[CLUSTER_LABEL], csr.data["metadata"].get("annotations"))
        known = self._understood.get(csr.name)
        if known is not None and known[0] == basis:
            return known[1]
        request: AgentRequest | None = None
        try:
            request = self._read(csr.data)
        except NotAnAgentsRequest as problem:
            log.debug("not an agent's request", request=csr.name, problem=str(problem))
        self._understood[csr.name] = (basis, request)
        return request

    async def _renew(self, csr: Snapshot, request: AgentRequest) -> float | None:
        verdict = await self._reviewer.authorize(request.requester, RENEW)
        if not verdict.allowed:
            log.debug("renewal not allowed", request=csr.name, cluster=request.identity.cluster)
            return REFUSED_AGAIN
        note = f'renewal "{csr.name}" is approved: the agent may renew its certificate'
        await self._approve(csr, _RENEWED, "ManagedClusterCSRAutoApproved", note)
        return None

    async def _admit(self, csr: Snapshot, request: AgentRequest) -> None:
        cluster = self._clusters.cache.named(request.identity.cluster)
        if cluster is None or cluster.metadata.deletion_timestamp:
            return
        if has_rival(request, self._contenders(cluster)):
            self._warn(
                cluster,
                csr,
                "CompetingRequests",
                f'request "{csr.name}" of user "{request.requester.name}" is not approved automatically: another key asks for this '
                f"name. The key of this one is {request.fingerprint}; clusteradm accept --fingerprint chooses.",
            )
        elif is_in_use(cluster):
            self._warn(
                cluster,
                csr,
                "NameInUse",
                f'request "{csr.name}" of user "{request.requester.name}" is not approved automatically: a cluster of this name is '
                "joined and alive. Approve the request by hand if it is the same cluster.",
            )
        else:
            note = f'first request of cluster "{request.identity.cluster}" is approved: its requester is on the list'
            await self._approve(csr, approval(_REASON, _TEXT, cluster), "ManagedClusterAutoApproved", note)

    def _warn(self, cluster: ManagedCluster, csr: Snapshot, reason: str, note: str) -> None:
        self._context.events.event(cluster.document(), "Warning", reason, note, related=csr.data)

    async def _approve(self, csr: Snapshot, condition: Object, event: str, note: str) -> None:
        if not await self._answers.approve(csr, condition):
            return
        self._context.events.event(csr.data, "Normal", event, note)
        log.info("request approved", request=csr.name, cluster=csr.labels[CLUSTER_LABEL])

    def _waiting_for(self, cluster: str) -> Iterable[str]:
        return [csr.name for csr in self._requests.cache.by_index(self._by_cluster, cluster) if not is_settled(csr.data)]

    def _withdrawn(self, old: Snapshot | None, new: Snapshot | None) -> None:
        """A deleted or denied request no longer competes: the requests that waited for this are requeued."""
        if old is None or (new is not None and verdict_of(new.data, "Denied", "Failed") is None):
            return
        cluster = old.labels[CLUSTER_LABEL]
        self._context.reconsider(cluster)
        for name in self._waiting_for(cluster):
            self._controller.enqueue(name)


def _read_any(csr: Snapshot) -> AgentRequest | None:
    try:
        return read_any_request(csr.data)
    except NotAnAgentsRequest:
        return None


def is_in_use(cluster: ManagedCluster) -> bool:
    """Whether the name is in use: the cluster has joined, and its lease has not expired."""
    available = condition_of(cluster.status.conditions, AVAILABLE)
    return is_true(cluster.status.conditions, JOINED) and (available is None or available.status != "Unknown")
