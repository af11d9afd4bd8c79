"""The agent's side: a state machine that asks the hub for a certificate, waits, takes it, and asks again before it ends.

All it remembers is in the agent's Secrets. A new key and the name of the request to be made with it are noted as pending first,
only then the request is made, under that name; the certificate that comes back replaces the old one together with its key, in one
write, and then what was pending is forgotten. So whenever the agent dies it finds either nothing begun, or a request that it has
the key of, or the pending key in use already. Two things hold at every moment: at most one live request of ours is on the hub, and
a certificate in use is replaced by a better one or not at all.

A request that was refused (denied, failed, or answered with a certificate that is not for us) stays the pending one for a while,
counted from the hub's own record of the refusal, so that neither a stubborn hub nor a restarting agent makes requests pile up.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from muster.api.resource import Document
from muster.kube.names import GENERATED_SUFFIX_LENGTH, generate_name
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.registration.drivers.csr.options import client_expiration
from muster.registration.drivers.csr.requests import (
    certificate_problem,
    is_for,
    is_key,
    issued_certificate,
    key_fingerprint,
    new_key,
    request_object,
    validity_of,
    verdict_of,
)
from muster.registration.drivers.kubeconfigs import KubeconfigSpoke
from muster.registration.drivers.seam import Progress, Report, SpokeContext, Watched
from muster.registration.names import ADDON_LABEL, CLUSTER_LABEL
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import SIGNING_REQUESTS
from muster.runtime.client.errors import AlreadyExists, NotFound

log = get_logger("muster.registration.drivers.csr")

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
PENDING_KEY: Final = "key"
PENDING_NAME: Final = "name"
_BASE: Final = 63 - GENERATED_SUFFIX_LENGTH
"""What the API server leaves of a generateName, and upstream's agents ask by one."""
_GO_TIME: Final = "%Y-%m-%d %H:%M:%S +0000 UTC"
_NOTHING_PENDING: Final[Mapping[str, bytes | None]] = {PENDING_KEY: None, PENDING_NAME: None}

MOST_REQUESTS: Final = 10
"""With so many requests of one cluster on the hub, something is wrong that another one will not mend."""
REFUSED_PAUSE: Final = 600.0
HALTED_PAUSE: Final = 300.0
UNHEARD_PAUSE: Final = 300.0
"""So long without a word of the watch, the hub is asked."""
LONGEST_SLEEP: Final = 3600.0
"""Timers stand still while a machine sleeps; certificates do not."""

ROTATED: Final = "ClientCertificateUpdated"
FAILED: Final = "ClientCertificateUpdateFailed"
HALTED: Final = "ClientCertificateCreationHalted"


class CsrSpoke(KubeconfigSpoke):
    def __init__(self, context: SpokeContext) -> None:
        self._identity = context.identity
        self._clock = context.clock
        self._random = context.random
        self._expiration = client_expiration(context.options)
        self._prefix = f"{self._identity.cluster}-"[:_BASE]
        self._drawn = ""
        """The name of the request that is surely not on the hub yet."""
        self._waiting = ""
        """The name of the request that was last said to wait for its approval."""
        self._renewal: tuple[bytes, datetime] | None = None

    def kubeconfig_user(self) -> Document:
        return {"client-certificate": CERTIFICATE, "client-key": KEY}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        return certificate_problem(stored.get(CERTIFICATE, b""), stored.get(KEY, b""), self._identity, self._clock.now())

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> Progress:
        name, key = pending.get(PENDING_NAME, b"").decode(errors="replace"), pending.get(PENDING_KEY, b"")
        if key and key == stored.get(KEY):
            # Its certificate came, and the agent died before it had forgotten what was pending.
            return Progress(_NOTHING_PENDING, again=0)
        if name.startswith(self._prefix) and is_key(key):
            csr = await self._request(hub, name, key, seen)
            return self._follow(csr, name, key)
        if not self.problem(stored):
            rest = self._until_renewal(stored[CERTIFICATE])
            if rest > 0:
                return Progress(again=rest)
        return await self._draw(hub)

    async def _draw(self, hub: KubeClient) -> Progress:
        """A new key and a name for its request, to be stored before anything is asked."""
        selector = f"{CLUSTER_LABEL}={self._identity.cluster},!{ADDON_LABEL}"
        async for page in hub.pages(SIGNING_REQUESTS, label_selector=selector, limit=MOST_REQUESTS):
            if len(page.items) >= MOST_REQUESTS:
                text = f"{MOST_REQUESTS} requests of this cluster are on the hub already; no other is made until some are gone"
                return Progress(again=self._later(HALTED_PAUSE), report=Report(False, FAILED, text, HALTED))
            break
        self._drawn = generate_name(self._prefix, lambda alphabet: alphabet[int(self._random() * len(alphabet))])
        return Progress({PENDING_KEY: new_key(), PENDING_NAME: self._drawn.encode()}, again=0)

    async def _request(self, hub: KubeClient, name: str, key: bytes, seen: Document | None) -> Document:
        """The pending request as the hub has it; made, if it is not there (yet, or any more)."""
        new, self._drawn = self._drawn == name, ""
        if seen is not None and seen["metadata"]["name"] == name:
            return seen
        if not new:
            try:
                return await hub.get(SIGNING_REQUESTS, name)
            except NotFound:
                pass
        try:
            return await hub.create(SIGNING_REQUESTS, request_object(name, self._identity, key, self._expiration))
        except AlreadyExists:
            return await hub.get(SIGNING_REQUESTS, name)

    def _follow(self, csr: Document, name: str, key: bytes) -> Progress:
        """What the hub's answer so far means."""
        if not is_for(csr, self._identity, key):
            # Somebody else's request has that name, or the agent had another name when it asked: begin anew.
            return Progress(_NOTHING_PENDING, again=0)
        refusal = verdict_of(csr, "Denied", "Failed")
        if refusal is not None:
            words = ": ".join(str(refusal[part]) for part in ("type", "reason", "message") if refusal.get(part))
            return self._refused(csr, refusal, f"request {name}: {words}")
        certificate = issued_certificate(csr)
        if not certificate:
            self._log_waiting(name, key)
            return Progress(again=UNHEARD_PAUSE, watch=Watched(SIGNING_REQUESTS, name))
        problem = certificate_problem(certificate, key, self._identity, self._clock.now())
        if problem:
            return self._refused(csr, verdict_of(csr, "Approved") or {}, f"request {name} was answered, but {problem}")
        validity = validity_of(certificate)
        text = f"client certificate rotated starting from {validity.since:{_GO_TIME}} to {validity.until:{_GO_TIME}}"
        return Progress(
            credential={CERTIFICATE: certificate, KEY: key},
            again=max(self._until_renewal(certificate), 0.0),
            report=Report(True, ROTATED, text, "ClientCertificateCreated"),
        )

    def _log_waiting(self, name: str, key: bytes) -> None:
        """Once for each request: an administrator compares the key with what the hub shows."""
        if self._waiting != name:
            self._waiting = name
            log.info("waiting for approval", cluster=self._identity.cluster, request=name, key=key_fingerprint(key))

    def _refused(self, csr: Document, verdict: Mapping[str, Any], why: str) -> Progress:
        """Begin anew some time after the refusal; earlier if somebody removes the refused request from the hub."""
        text = verdict.get("lastTransitionTime") or verdict.get("lastUpdateTime") or csr["metadata"]["creationTimestamp"]
        rest = REFUSED_PAUSE - (self._clock.now() - parse_time(text)).total_seconds()
        if rest <= 0:
            return Progress(_NOTHING_PENDING, again=0)
        return Progress(
            again=self._later(min(rest, REFUSED_PAUSE)),
            report=Report(False, FAILED, f"Failed to rotate client certificate: {why}"),
            watch=Watched(SIGNING_REQUESTS, csr["metadata"]["name"]),
        )

    def _until_renewal(self, certificate: bytes) -> float:
        """Seconds until the next request is due; the moment is drawn once per certificate, so that a fleet spreads out."""
        if self._renewal is None or self._renewal[0] != certificate:
            self._renewal = (certificate, validity_of(certificate).renewal(self._random))
        return min((self._renewal[1] - self._clock.now()).total_seconds(), LONGEST_SLEEP)

    def _later(self, seconds: float) -> float:
        return seconds * (1 + 0.2 * self._random())
