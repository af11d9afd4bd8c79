"""The hub's signer of client certificates for gRPC agents.

A certificate is built from the parsed request, and nothing is copied into it: the agent's name and groups, its public key, the
usage of a client, and no alternative names or other extensions. Its validity is as requested, but at most what the hub allows and
that of the authority. An approved request that is not an agent's gets the condition `Failed`, as Kubernetes' own signers set it, so
that the requester does not wait.

The signer has no state: an approved request without certificate and failure is work to be done. So a hub may stop between any two
steps, and if two hubs sign at once, the resourceVersion of the request decides: the loser's certificate is discarded. While no
authority is able to sign, requests wait.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from muster.api.agents import GRPC_SIGNER
from muster.kube import certificates
from muster.kube.certificates import CLIENT_AUTH, CertificateAuthority
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.registration.drivers.certificates.agents import NotAnAgentsRequest, read_request
from muster.registration.drivers.certificates.request_answers import RequestAnswers, validity_for
from muster.registration.drivers.certificates.requests import issued_certificate, signing_request_of, verdict_of
from muster.registration.drivers.grpc.authority import NoAuthority, SigningAuthority
from muster.registration.drivers.interfaces import HubContext
from muster.registration.names import CLUSTER_LABEL, OURS
from muster.runtime.cache import MutationCache, Snapshot
from muster.runtime.client.builtin import SIGNING_REQUESTS

log = get_logger("muster.registration.drivers.grpc")

WORKERS: Final = 4
NO_AUTHORITY_PAUSE: Final = 5.0
"""Seconds until the authority is loaded again while there is none that can sign."""


def is_to_be_signed(csr: Object) -> bool:
    return (
        (csr.get("spec") or {}).get("signerName") == GRPC_SIGNER
        and verdict_of(csr, "Approved") is not None
        and verdict_of(csr, "Denied", "Failed") is None
        and not issued_certificate(csr)
    )


def certificate_for(csr: Object, authority: CertificateAuthority, longest: timedelta, now: datetime) -> bytes:
    """The certificate (PEM) for a request. Raises NotAnAgentsRequest."""
    read_request(csr, GRPC_SIGNER)
    request = signing_request_of(csr["spec"])
    groups = sorted(set(certificates.organizations(request.subject)))
    subject = certificates.subject(certificates.common_name(request.subject), groups)
    return authority.sign(subject, request.public_key(), *validity_for(csr, authority, longest, now), (CLIENT_AUTH,))


class Signer:
    """The controller; its keys are names of signing requests."""

    def __init__(self, context: HubContext, authority: SigningAuthority, longest: timedelta) -> None:
        self._context = context
        self._authority = authority
        self._longest = longest
        self._requests = context.informers.of(SIGNING_REQUESTS, label_selector=OURS)
        self._latest = MutationCache(self._requests, clock=context.clock)
        self._answers = RequestAnswers(context.client, self._latest)
        self._problem = ""
        self._controller = context.controller("grpc-signing", self.reconcile, workers=WORKERS)
        self._controller.watch(self._requests, lambda csr: [csr.name] if is_to_be_signed(csr.data) else [])
        self._issued = context.metrics.counter(
            "muster_grpc_certificates_issued_total", "Certificates that were signed for agents that reach the hub over gRPC"
        )

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, name: str) -> float | None:
        csr = self._latest.snapshot(ObjectKey("", name))
        if csr is None or not is_to_be_signed(csr.data):
            return None
        now = self._context.clock.now()
        try:
            authority = self._authority.current(now)
            certificate = certificate_for(csr.data, authority, self._longest, now)
        except NoAuthority as error:
            self._wait(error)
            return NO_AUTHORITY_PAUSE
        except NotAnAgentsRequest as error:
            await self._fail(csr, error)
            return None
        self._problem = ""
        await self._issue(csr, certificate)
        return None

    async def _issue(self, csr: Snapshot, certificate: bytes) -> None:
        if await self._answers.issue(csr, certificate):
            self._issued.inc()
            log.info("certificate issued", request=csr.name, cluster=csr.labels[CLUSTER_LABEL])

    async def _fail(self, csr: Snapshot, error: NotAnAgentsRequest) -> None:
        if await self._answers.fail(csr, str(error)):
            log.warning("request refused by the signer", request=csr.name, problem=str(error))

    def _wait(self, error: NoAuthority) -> None:
        if self._problem != str(error):
            self._problem = str(error)
            log.error("no certificate can be signed", problem=str(error))
