"""The request channel that uses CertificateSigningRequests, with any client that has the verbs of the hub."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from muster.api.resource import Document
from muster.machinery.golang.timestamps import parse_time
from muster.registration.drivers.certificates.certificate_manager import RequestState
from muster.registration.drivers.certificates.profile import CertificateProfile
from muster.registration.drivers.certificates.requests import is_for, issued_certificate, request_object, verdict_of
from muster.registration.drivers.interfaces import WatchTarget
from muster.runtime.client import AlreadyExists, KubeClient, NotFound
from muster.runtime.client.builtin import SIGNING_REQUESTS


class SigningRequests:
    def __init__(self, hub: KubeClient, profile: CertificateProfile) -> None:
        self._hub = hub
        self._profile = profile

    async def are_many(self, most: int) -> bool:
        async for page in self._hub.pages(SIGNING_REQUESTS, label_selector=self._profile.siblings, limit=most):
            return len(page.items) >= most
        return False

    async def find(self, name: str, key: bytes) -> RequestState | None:
        try:
            return self._answer(await self._hub.get(SIGNING_REQUESTS, name), key)
        except NotFound:
            return None

    async def submit(self, name: str, key: bytes) -> RequestState:
        try:
            csr = await self._hub.create(SIGNING_REQUESTS, request_object(name, self._profile, key))
        except AlreadyExists:
            csr = await self._hub.get(SIGNING_REQUESTS, name)
        return self._answer(csr, key)

    def read(self, seen: Document, name: str, key: bytes) -> RequestState | None:
        return self._answer(seen, key) if seen["metadata"]["name"] == name else None

    def watched(self, name: str) -> WatchTarget:
        return WatchTarget(SIGNING_REQUESTS, name)

    def _answer(self, csr: Document, key: bytes) -> RequestState:
        if not is_for(csr, self._profile, key):
            return RequestState(is_ours=False)
        refusal = verdict_of(csr, "Denied", "Failed")
        decided = _moment(refusal or verdict_of(csr, "Approved") or {}, csr)
        if refusal is not None:
            message = ": ".join(str(refusal[part]) for part in ("type", "reason", "message") if refusal.get(part))
            return RequestState(refusal=message, decided=decided)
        return RequestState(certificate=issued_certificate(csr), decided=decided)


def _moment(verdict: Mapping[str, Any], csr: Document) -> datetime | None:
    text = verdict.get("lastTransitionTime") or verdict.get("lastUpdateTime") or csr["metadata"].get("creationTimestamp")
    return parse_time(text) if text else None
