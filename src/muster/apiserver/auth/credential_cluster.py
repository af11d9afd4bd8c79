"""The cluster that issued the credential of a request: used for paths that do not name a cluster.

`kubectl get --raw`, `kubectl proxy` and clients in pods drop the path of the server's URL, so only their credential shows which
cluster they mean: the issuer of a client certificate names the CA of a cluster, and a service account token has an issuer URL. That
is a claim, not a proof. The cluster found this way authenticates the request with its own keys like any other request, and rejects
a credential that it has not issued; no other cluster is tried.
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
    """The name of the cluster that the credential of a request claims as its issuer; None if there is no such credential."""
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
