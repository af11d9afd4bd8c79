"""Which cluster the credential of a request was made by: how a path that names no cluster is led to one.

`kubectl get --raw`, `kubectl proxy` and clients in pods drop the path of the server's URL, so only what they show tells whom they
mean: a client certificate says by its issuer's name which cluster's CA signed it, a service account's token by its issuer. That is
a claim, not a proof. The cluster that is found so authenticates the request as any other, by its own keys, and refuses a credential
that only says it was made there; no other cluster is asked then.
"""

from __future__ import annotations

from cryptography import x509

from muster.apiserver.auth.cluster_keys import cluster_of_authority
from muster.apiserver.auth.credentials import bearer_token, unverified_claims
from muster.apiserver.request import CLUSTER_PREFIX
from muster.http import Request
from muster.kube.certificates import common_name

_MEMO = "muster.certificate-cluster"


def claimed_cluster(request: Request) -> str | None:
    """The name of the cluster whose credential the request says it has; None if it shows none that tells."""
    return _by_certificate(request) or _by_token(request)


def _by_certificate(request: Request) -> str | None:
    der = request.connection.peer_certificate
    if der is None:
        return None
    memo = request.connection.memo
    if _MEMO not in memo:
        memo[_MEMO] = cluster_of_authority(common_name(x509.load_der_x509_certificate(der).issuer))
    name: str | None = memo[_MEMO]
    return name


def _by_token(request: Request) -> str | None:
    issuer = unverified_claims(bearer_token(request)).get("iss")
    if not isinstance(issuer, str):
        return None
    _, found, name = issuer.rpartition(CLUSTER_PREFIX)
    return name if found else None
