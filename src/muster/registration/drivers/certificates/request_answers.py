"""How the hub answers signing requests: approved, with a certificate, or failed; and for how long a certificate is valid.

Every answer is an update of the version that was looked at. Of two hubs that answer at once one gets a Conflict, and looks again.
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
"""A certificate is backdated by this part of its life at the most: one that began long ago would be due for renewal at once."""


def lifetime_of(csr: Object, longest: timedelta) -> timedelta:
    """How long the certificate is to be valid: as asked for, and not longer than the hub allows."""
    requested = (csr.get("spec") or {}).get("expirationSeconds")
    return min(timedelta(seconds=requested), longest) if isinstance(requested, int) and requested > 0 else longest


def validity_for(csr: Object, authority: CertificateAuthority, longest: timedelta, now: datetime) -> tuple[datetime, datetime]:
    """From when to when a certificate made now is valid; not longer than the authority is."""
    lifetime = min(lifetime_of(csr, longest), authority.certificate.not_valid_after_utc - now)
    return now - min(BACKDATE, lifetime / _SHORT), now + lifetime


class RequestAnswers:
    """Writes answers; in all of them False means that the request is gone. Raises KubeError: after a Conflict, look again."""

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
        """As Kubernetes' own signers do it, so that whoever asked knows that there is nothing to wait for."""
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
