"""The hub's answers to signing requests: approval, certificate, or failure; and the validity of certificates.

Every answer is an update with the resourceVersion that was read. If two hubs answer at once, one gets a Conflict and reads again.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Final

from muster.kube.certificates import BACKDATE, CertificateAuthority
from muster.machinery.objects import Object
from muster.runtime.cache import MutationCache, Snapshot
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import SIGNING_REQUESTS

FAILED_REASON: Final = "SignerValidationFailure"
_SHORT: Final = 10
"""A certificate is backdated by at most this fraction of its life: with an early notBefore it would be due for renewal at once."""


def lifetime_of(csr: Object, longest: timedelta) -> timedelta:
    """The life of the certificate: as requested, but at most what the hub allows."""
    requested = (csr.get("spec") or {}).get("expirationSeconds")
    return min(timedelta(seconds=requested), longest) if isinstance(requested, int) and requested > 0 else longest


def validity_for(csr: Object, authority: CertificateAuthority, longest: timedelta, now: datetime) -> tuple[datetime, datetime]:
    """The notBefore and notAfter of a certificate made now, within the validity of the authority."""
    lifetime = min(lifetime_of(csr, longest), authority.certificate.not_valid_after_utc - now)
    return now - min(BACKDATE, lifetime / _SHORT), now + lifetime


class RequestAnswers:
    """Writes answers; False means that the request was deleted. Raises KubeError: after a Conflict, read again."""

    def __init__(self, client: KubeClient, latest: MutationCache[Snapshot]) -> None:
        self._client = client
        self._latest = latest

    async def approve(self, csr: Snapshot, condition: Object) -> bool:
        return await self._write(_with_condition(csr, condition), "approval")

    async def issue(self, csr: Snapshot, certificate: bytes) -> bool:
        signed = csr.decode()
        signed.setdefault("status", {})["certificate"] = base64.b64encode(certificate).decode()
        return await self._write(signed, "status")

    async def fail(self, csr: Snapshot, message: str) -> bool:
        """Set the condition Failed, as Kubernetes' own signers do, so that the requester does not wait."""
        condition = {"type": "Failed", "status": "True", "reason": FAILED_REASON, "message": message}
        return await self._write(_with_condition(csr, condition), "status")

    async def _write(self, csr: Object, subresource: str) -> bool:
        try:
            self._latest.record_write(await self._client.update(SIGNING_REQUESTS, csr, subresource=subresource))
        except NotFound:
            return False
        return True


def _with_condition(csr: Snapshot, condition: Object) -> Object:
    answered = csr.decode()
    status = answered.setdefault("status", {})
    status["conditions"] = [*(status.get("conditions") or ()), dict(condition)]
    return answered
