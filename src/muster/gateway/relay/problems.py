"""Why a cluster gave no answer, in the words of `gateway/target.py`.

What matters most to a client is whether its request may have been carried out: only while nothing was sent is the cluster called
unreachable, which says "try again later" to every client library.
"""

from __future__ import annotations

import ssl

from muster.gateway.target import (
    CERTIFICATE_MISMATCH,
    CLUSTER_BROKEN,
    CLUSTER_TIMEOUT,
    CLUSTER_UNREACHABLE,
    CREDENTIAL_REFUSED,
    ClientCertificate,
    Problem,
    Target,
)
from muster.http import UpstreamError, UpstreamTimeout, UpstreamUnavailable, UpstreamUntrusted


class ClusterProblem(Exception):
    """Nothing was answered by a cluster; `problem` says why and has no secret in it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def problem_of(error: UpstreamError, target: Target) -> Problem:
    where, reason = error.upstream, error.reason
    if isinstance(error, UpstreamUntrusted):
        if error.verify_code:
            remedy = "nothing was sent; correct the cluster's caBundle or tls-server-name"
            return Problem(CERTIFICATE_MISMATCH, f"the certificate of {where} is not to be trusted ({reason}): {remedy}")
        return Problem(CLUSTER_BROKEN, f"no TLS with {where} ({reason}): nothing was sent; correct the cluster's endpoint")
    if isinstance(error, UpstreamTimeout):
        return Problem(CLUSTER_TIMEOUT, f"{where}: {reason}")
    if isinstance(error, UpstreamUnavailable) and not error.sent:
        return Problem(CLUSTER_UNREACHABLE, f"{where} cannot be reached: {reason}")
    if isinstance(target.credential, ClientCertificate) and isinstance(error, UpstreamUnavailable):
        if isinstance(error.__cause__, ssl.SSLError):
            return Problem(CREDENTIAL_REFUSED, f"{where} refuses the gateway's client certificate: {reason}")
        # Not every event loop tells of the alert with which TLS says so.
        reason += ", perhaps because it does not accept the gateway's client certificate"
    return Problem(CLUSTER_BROKEN, f"{where} broke off: {reason}; the request may have been carried out")
