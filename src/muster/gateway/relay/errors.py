"""Reasons why a cluster gave no answer, as causes of `gateway/target.py`.

A client needs to know whether its request may have been executed: a cluster is called unreachable only while nothing was sent,
because client libraries retry then.
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


class ClusterError(Exception):
    """A cluster did not answer; `problem` is the reason and contains no secret."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def problem_of(error: UpstreamError, target: Target) -> Problem:
    where, reason = error.upstream, error.reason
    if isinstance(error, UpstreamUntrusted):
        if error.verify_code:
            remedy = "nothing was sent; correct the cluster's caBundle or tls-server-name"
            return Problem(CERTIFICATE_MISMATCH, f"the certificate of {where} is not trusted ({reason}): {remedy}")
        return Problem(
            CLUSTER_BROKEN, f"TLS handshake with {where} failed ({reason}): nothing was sent; correct the cluster's endpoint"
        )
    if isinstance(error, UpstreamTimeout):
        return Problem(CLUSTER_TIMEOUT, f"{where}: {reason}")
    if isinstance(error, UpstreamUnavailable) and not error.sent:
        return Problem(CLUSTER_UNREACHABLE, f"{where} cannot be reached: {reason}")
    if isinstance(target.credential, ClientCertificate) and isinstance(error, UpstreamUnavailable):
        if isinstance(error.__cause__, ssl.SSLError):
            return Problem(CREDENTIAL_REFUSED, f"{where} refuses the gateway's client certificate: {reason}")
        # Not every event loop reports the TLS alert of the refusal.
        reason += ", perhaps because it does not accept the gateway's client certificate"
    return Problem(CLUSTER_BROKEN, f"{where} closed the connection: {reason}; the request may have been executed")
