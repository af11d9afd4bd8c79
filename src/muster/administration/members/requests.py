"""Judges agents' signing requests for an administrator who is about to accept their cluster.

The label on a request is only a hint, so each is judged by what would be signed and by its requester (`judge`). A request for
another cluster's certificate is never approved, whatever flags are given. If requests for one cluster have different public keys,
one of them may be a copy made by another holder of a bootstrap token: then nothing is approved, and the administrator gets the
differences (`refuse_ambiguity`). The fingerprint of the key is the only part of a request that cannot be copied. Requests that came
over gRPC are judged with the others, so that they compete too; the hub's gRPC servers, known by their service accounts
(`request_servers`), name the requester.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.administration.errors import Refused
from muster.api import MalformedObject
from muster.api.agents import GRPC_SIGNER
from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import ClusterManager
from muster.machinery.golang.durations import human_duration
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object
from muster.operator.names import CLUSTER_MANAGER
from muster.registration.drivers import profile_of
from muster.registration.drivers.certificates.agents import AgentRequest, NotAnAgentsRequest, read_request
from muster.registration.drivers.certificates.approval import is_in_use
from muster.registration.drivers.certificates.first_requests import is_contender
from muster.registration.drivers.certificates.requests import verdict_of
from muster.registration.drivers.grpc.options import DEFAULT_ACCOUNT, server_accounts
from muster.registration.drivers.grpc.requests import read_grpc_request
from muster.registration.hub.install import BOOTSTRAP_GROUP, bound_account
from muster.registration.names import BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE
from muster.runtime.client import Forbidden, KubeClient, NotFound

ACCOUNTS: Final = frozenset(
    f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{name}" for name in (BOOTSTRAP_ACCOUNT, "cluster-bootstrap")
)
"""Service accounts of new clusters: the present one, and that of earlier versions."""
ACCOUNT_GROUP: Final = f"system:serviceaccounts:{BOOTSTRAP_NAMESPACE}"
LISTED: Final = 10
"""The number of requests that are listed; the others are counted."""
COMPARE: Final = (
    "compare with the key that the agent itself names, in its log and at the end of join --wait, and choose with "
    "--fingerprint=sha256:…; requests that an agent left behind when it was restarted can be deleted (kubectl delete csr)"
)


@dataclass(frozen=True)
class RequestFilter:
    """Selects the requests that the administrator means."""

    requesters: tuple[str, ...] = ()
    """Common names of agents, or the users that requested certificates for them."""
    fingerprints: tuple[str, ...] = ()
    """Fingerprints of public keys."""
    skip_check: bool = False
    servers: frozenset[str] = frozenset((DEFAULT_ACCOUNT,))
    """Users of the hub's gRPC servers."""


EVERY_REQUEST: Final = RequestFilter()


@dataclass(frozen=True)
class Judgement:
    """The judgement of one request: approve it, or why not."""

    name: str
    uid: str
    created: str
    request: AgentRequest | None = None
    """The parsed request, if it is an agent's."""
    settled: str = ""
    """`approved` or `denied` if it was answered already."""
    objection: str = ""
    contender: bool = False
    """Whether it competes for the name, or was just given it."""

    @property
    def good(self) -> bool:
        return self.request is not None and not self.objection and not self.settled

    def is_approved(self, wanted: RequestFilter) -> bool:
        """Whether it is approved already, with a selected key."""
        return self.settled == "approved" and (not wanted.fingerprints or self.fingerprint in wanted.fingerprints)

    @property
    def agent(self) -> str:
        return self.request.identity.common_name if self.request else ""

    @property
    def fingerprint(self) -> str:
        return self.request.fingerprint if self.request else ""

    def describe(self, now: datetime) -> str:
        """One line by which an administrator distinguishes requests."""
        user = self.request.requester.name if self.request else ""
        age = human_duration(max((now - parse_time(self.created)).total_seconds(), 0))
        state = f"{self.settled or 'pending'}, {age} old"
        return f"CSR {self.name} ({state}): key {self.fingerprint}, agent {self.agent}, requested by {user}"


def judge(csr: Object, cluster: ManagedCluster | None, wanted: RequestFilter = EVERY_REQUEST) -> Judgement:
    metadata = csr["metadata"]
    name, uid, created = metadata["name"], metadata["uid"], metadata["creationTimestamp"]
    try:
        request = _read(csr, wanted.servers)
    except NotAnAgentsRequest as problem:
        return Judgement(name, uid, created, objection=str(problem))
    verdict = verdict_of(csr, "Denied", "Approved", "Failed")
    settled = "" if verdict is None else str(verdict["type"]).lower()
    objection = "" if settled else _objection(request, wanted)
    contender = cluster is not None and is_contender(csr, request, cluster)
    return Judgement(name, uid, created, request, settled, objection, contender)


async def request_servers(client: KubeClient) -> frozenset[str]:
    """The users of the hub's gRPC servers, if the ClusterManager configures any. Raises the client's errors."""
    try:
        manager = await client.get(ClusterManager, CLUSTER_MANAGER)
    except (NotFound, Forbidden, MalformedObject):
        return server_accounts({})
    configured = manager.spec.registration_configuration
    entries = configured.registration_drivers if configured else ()
    ours = (entry for entry in entries if (profile := profile_of(entry.auth_type)) is not None and profile.grpc_server)
    return frozenset(account for our in ours for account in server_accounts(our.driver_options)) or server_accounts({})


def _read(csr: Object, servers: frozenset[str]) -> AgentRequest:
    """Parse the request of an agent with any of the signers. Raises NotAnAgentsRequest."""
    if (csr.get("spec") or {}).get("signerName") == GRPC_SIGNER:
        return read_grpc_request(csr, servers)
    return read_request(csr)


def _objection(request: AgentRequest, wanted: RequestFilter) -> str:
    agent, user = request.identity.common_name, request.requester.name
    if request.renewal:
        return "it is a renewal, which the hub decides by itself"
    if wanted.requesters and not {agent, user} & set(wanted.requesters):
        return f"requester {agent} is not in the approve list"
    if wanted.fingerprints and request.fingerprint not in wanted.fingerprints:
        return f"its key {request.fingerprint} is not the chosen one"
    if not wanted.skip_check and not wanted.requesters and not is_newcomer(request):
        return f"user {user!r} is no bootstrap identity" if user else "its requester is not authenticated as an agent"
    return ""


def is_newcomer(request: AgentRequest) -> bool:
    """Whether its requester used a bootstrap credential; a token for one cluster counts for that cluster only."""
    user, groups = request.requester.name, request.requester.groups
    if user.startswith("system:bootstrap:"):
        return BOOTSTRAP_GROUP in groups
    bound = f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:{bound_account(request.identity.cluster)}"
    return user in (*ACCOUNTS, bound) and ACCOUNT_GROUP in groups


def refuse_ambiguity(cluster: ManagedCluster, judged: Sequence[Judgement], wanted: RequestFilter, now: datetime) -> None:
    """Raises Refused if it is ambiguous which agent is the cluster's."""
    name = cluster.metadata.name
    if wanted.fingerprints:
        if not any(one.good or one.is_approved(wanted) for one in judged):
            listed = _listed([one for one in judged if one.request], now) or "there is no request"
            raise Refused(f"no CSR for cluster {name} has the chosen key: {listed}", "wait for it with --wait, or choose another")
        return
    good = [one for one in judged if one.good]
    if not good:
        return
    contenders = [one for one in judged if one.contender and (one.good or one.settled)]
    if len({one.fingerprint for one in contenders}) > 1:
        differ = "of different requesters" if len({contender.agent for contender in contenders}) > 1 else "with different keys"
        raise Refused(f"there are CSRs {differ} for cluster {name}: {_listed(contenders, now)}", COMPARE)
    if wanted.requesters or wanted.skip_check:
        return
    agents = sorted({one.agent for one in good})
    if len(agents) > 1:
        raise Refused(
            f"there are CSRs of different requesters for cluster {name}: {', '.join(agents)}",
            "approve those you know with --requesters, or all with --skip-approve-check",
        )
    if is_in_use(cluster):
        raise Refused(
            f"cluster {name} has joined and is alive, and {agents[0]} requests the same name: {_listed(good, now)}",
            f"if it is the same cluster, approve it with --requesters={agents[0]}; else join it under another name",
        )


def _listed(judged: Sequence[Judgement], now: datetime) -> str:
    more = [f"and {len(judged) - LISTED} more"] if len(judged) > LISTED else []
    return "; ".join([*(one.describe(now) for one in judged[:LISTED]), *more])
