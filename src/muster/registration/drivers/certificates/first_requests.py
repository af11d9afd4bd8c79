"""First requests of a cluster's agents: which of them compete for its name, and which were approved for it.

Every user with a bootstrap identity may ask for any cluster's name, and may read and copy the subject of another request, but a
copy has another public key. So requests with different keys compete, and no program chooses among them: an administrator compares
fingerprints. A request competes while it is pending, and after its approval until the cluster has joined; from then on the name is
in use (`approval.is_in_use`). Renewals never compete: they are made with the certificate that they renew.

An approval is for the ManagedCluster that existed when it was given. Our approvals name it (`approval`); an approval by another
client that is older than the ManagedCluster was for an earlier cluster of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.api import is_true
from muster.api.cluster.v1 import JOINED, ManagedCluster
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.objects import Object
from muster.registration.drivers.certificates.agents import AgentRequest
from muster.registration.drivers.certificates.requests import issued_certificate, verdict_of

_FOR: Final = "Approved for the ManagedCluster with uid "


def is_settled(csr: Object) -> bool:
    """Whether the request was answered already."""
    return verdict_of(csr, "Approved", "Denied", "Failed") is not None or bool(issued_certificate(csr))


def approval(reason: str, text: str, cluster: ManagedCluster) -> Object:
    """The condition by which a first request is approved for a ManagedCluster."""
    message = f"{text} {_FOR}{cluster.metadata.uid}"
    return {"type": "Approved", "status": "True", "reason": reason, "message": message}


def is_approved_for(csr: Object, cluster: ManagedCluster) -> bool:
    """Whether a request was approved for this very ManagedCluster, and has not failed."""
    approved = verdict_of(csr, "Approved")
    if approved is None or verdict_of(csr, "Denied", "Failed") is not None:
        return False
    _, fingerprint, uid = str(approved.get("message") or "").rpartition(_FOR)
    if fingerprint:
        return uid == cluster.metadata.uid
    moment = approved.get("lastTransitionTime") or approved.get("lastUpdateTime") or csr["metadata"]["creationTimestamp"]
    try:
        # Creation timestamps have whole seconds only.
        return parse_time(moment).replace(microsecond=0) >= parse_time(cluster.metadata.creation_timestamp)
    except ValueError:
        return False


def is_contender(csr: Object, request: AgentRequest, cluster: ManagedCluster) -> bool:
    """Whether a request competes for the cluster's name."""
    if request.renewal:
        return False
    if not is_settled(csr):
        return True
    return not is_true(cluster.status.conditions, JOINED) and is_approved_for(csr, cluster)


def has_rival(request: AgentRequest, contenders: Iterable[AgentRequest]) -> bool:
    """Whether another request asks for the same name with another key."""
    return any(other.fingerprint != request.fingerprint for other in contenders)
