"""The agent's side: a state machine that requests a certificate, waits, stores it, and renews it. As client-go's certificate
manager.

All state is in Secrets. A new key and the name of its request are stored as pending before the request is created under that name;
the issued certificate replaces the old one together with its key, in one write, and then the pending entries are removed. So after
a crash the agent finds either nothing begun, or a request whose key it has, or the pending key already in use. Two invariants hold:
at most one live request of ours is with the signer, and a certificate in use is replaced by a better one or not at all.

The next step (`next_step`) and the meaning of an answer (`follow`) are decided without side effects, from the stored and pending
entries, the answer and the clock. A `RequestChannel` transports requests and answers. Signers may be slow: a request without a
condition is pending, and is read again when the channel reports a change or after a long silence.

A request that was refused (denied, failed, or answered with an unusable certificate) stays the pending one for a while, counted
from the signer's own time of refusal, so that requests do not pile up when a hub refuses always or an agent restarts often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from muster.api.resource import Document
from muster.kube.names import generate_name
from muster.machinery.clock import Clock, Random
from muster.machinery.logs import get_logger
from muster.registration.drivers.certificates.profile import CertificateProfile
from muster.registration.drivers.certificates.requests import certificate_problem, is_key, key_fingerprint, new_key, validity_of
from muster.registration.drivers.interfaces import CredentialReport, StepResult, WatchTarget

log = get_logger("muster.registration.drivers")

PENDING_KEY: Final = "key"
PENDING_NAME: Final = "name"
_NOTHING_PENDING: Final[Mapping[str, bytes | None]] = {PENDING_KEY: None, PENDING_NAME: None}
_GO_TIME: Final = "%Y-%m-%d %H:%M:%S +0000 UTC"

MOST_REQUESTS: Final = 10
"""If so many requests of ours exist already, another one would not help."""
REFUSED_PAUSE: Final = 600.0
HALTED_PAUSE: Final = 300.0
UNHEARD_PAUSE: Final = 300.0
"""Seconds without a watch event after which the request is read again."""
LONGEST_SLEEP: Final = 3600.0
"""Timers stand still while a machine is suspended; the life of certificates does not."""

ROTATED: Final = "ClientCertificateUpdated"
FAILED: Final = "ClientCertificateUpdateFailed"
HALTED: Final = "ClientCertificateCreationHalted"


@dataclass(frozen=True)
class RequestState:
    """The state of a request at the signer; without any field set it is pending."""

    is_ours: bool = True
    """Whether the request of this name is ours."""
    certificate: bytes = b""
    refusal: str = ""
    """Why no certificate will be issued."""
    decided: datetime | None = None
    """When the signer decided, by its own timestamp; None if it has none."""


class RequestChannel(Protocol):
    """Transports requests to a signer and its answers back. All methods but `read` and `watched` raise KubeError."""

    async def are_many(self, most: int) -> bool:
        """Whether at least so many requests of ours exist at the signer."""
        ...

    async def find(self, name: str, key: bytes) -> RequestState | None:
        """The request's state; None if no request has this name (yet, or any more)."""
        ...

    async def submit(self, name: str, key: bytes) -> RequestState:
        """Create the request. An existing one of this name is success: repeated creates are the same request."""
        ...

    def read(self, seen: Document, name: str, key: bytes) -> RequestState | None:
        """The state of the request in a watched object; None if the object is another request."""
        ...

    def watched(self, name: str) -> WatchTarget | None:
        """The object to watch for the answer; None if only reading shows it."""
        ...


def rotated(certificate: bytes) -> CredentialReport:
    """The report about a certificate in use."""
    validity = validity_of(certificate)
    text = f"client certificate rotated starting from {validity.since:{_GO_TIME}} to {validity.until:{_GO_TIME}}"
    return CredentialReport(True, ROTATED, text, "ClientCertificateCreated")


@dataclass(frozen=True)
class PendingRequest:
    """The next step is to create or read the pending request."""

    name: str
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Draw:
    """The next step is to generate a key and a name for its request."""


class CertificateMachine:
    def __init__(self, profile: CertificateProfile, clock: Clock, random: Random) -> None:
        self._profile = profile
        self._clock = clock
        self._random = random
        self._drawn = ""
        """The name of a new request that is certainly not at the signer yet."""
        self._waiting = ""
        """The name of the request that was last logged as waiting for approval."""
        self._refusal: tuple[str, datetime] | None = None
        """The request that was last seen refused, and since when."""
        self._renewal: tuple[bytes, datetime] | None = None

    def problem(self, stored: Mapping[str, bytes]) -> str:
        """Why the stored certificate is unusable now; empty if it is usable."""
        profile = self._profile
        certificate, key = stored.get(profile.certificate_entry, b""), stored.get(profile.key_entry, b"")
        return certificate_problem(certificate, key, profile.common_name, self._clock.now())

    async def advance(
        self, channel: RequestChannel, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        step = self.next_step(stored, pending)
        if isinstance(step, StepResult):
            return step
        if isinstance(step, Draw):
            return await self._draw(channel)
        answer = await self._answer(channel, step, seen)
        return self.follow(step, answer, channel.watched(step.name))

    def next_step(self, stored: Mapping[str, bytes], pending: Mapping[str, bytes]) -> PendingRequest | Draw | StepResult:
        """The next step for these stored and pending entries."""
        name, key = pending.get(PENDING_NAME, b"").decode(errors="replace"), pending.get(PENDING_KEY, b"")
        if key and key == stored.get(self._profile.key_entry):
            # The certificate was stored, and the agent stopped before it removed the pending entries.
            return StepResult(_NOTHING_PENDING, again=0)
        if name.startswith(self._profile.prefix) and is_key(key):
            return PendingRequest(name, key)
        if not self.problem(stored):
            rest = self._until_renewal(stored[self._profile.certificate_entry])
            if rest > 0:
                return StepResult(again=rest)
        return Draw()

    def follow(self, request: PendingRequest, answer: RequestState, watched: WatchTarget | None) -> StepResult:
        """The result of the signer's present answer."""
        if not answer.is_ours:
            # The request of that name is another client's, or the agent had another name when it created it: start over.
            return StepResult(_NOTHING_PENDING, again=0)
        if answer.refusal:
            return self._refused(request, answer, f": {answer.refusal}", watched)
        if not answer.certificate:
            self._log_waiting(request)
            return StepResult(again=UNHEARD_PAUSE, watch=watched)
        problem = certificate_problem(answer.certificate, request.key, self._profile.common_name, self._clock.now())
        if problem:
            return self._refused(request, answer, f" was answered, but {problem}", watched)
        return StepResult(
            credential={self._profile.certificate_entry: answer.certificate, self._profile.key_entry: request.key},
            again=max(self._until_renewal(answer.certificate), 0.0),
            report=rotated(answer.certificate),
        )

    async def _draw(self, channel: RequestChannel) -> StepResult:
        """Generate a key and a name for its request, to be stored before the request is created."""
        if await channel.are_many(MOST_REQUESTS):
            text = f"{MOST_REQUESTS} requests of this cluster are on the hub already; no other is made until some are gone"
            return StepResult(again=self._later(HALTED_PAUSE), report=CredentialReport(False, FAILED, text, HALTED))
        self._drawn = generate_name(self._profile.prefix, lambda alphabet: alphabet[int(self._random() * len(alphabet))])
        return StepResult({PENDING_KEY: new_key(), PENDING_NAME: self._drawn.encode()}, again=0)

    async def _answer(self, channel: RequestChannel, request: PendingRequest, seen: Document | None) -> RequestState:
        """The state of the pending request; it is created if it does not exist (yet, or any more)."""
        new, self._drawn = self._drawn == request.name, ""
        known = None if seen is None else channel.read(seen, request.name, request.key)
        if known is None and not new:
            known = await channel.find(request.name, request.key)
        return known or await channel.submit(request.name, request.key)

    def _log_waiting(self, request: PendingRequest) -> None:
        """Logged once for each request: an administrator compares the key's fingerprint with the one on the hub."""
        if self._waiting != request.name:
            self._waiting = request.name
            subject, key = self._profile.common_name, key_fingerprint(request.key)
            log.info("waiting for approval", subject=subject, request=request.name, key=key)

    def _refused(self, request: PendingRequest, answer: RequestState, why: str, watched: WatchTarget | None) -> StepResult:
        """Start over some time after the refusal; earlier if the refused request is deleted from the hub."""
        if self._refusal is None or self._refusal[0] != request.name:
            self._refusal = (request.name, self._clock.now())
        since = answer.decided or self._refusal[1]
        rest = REFUSED_PAUSE - (self._clock.now() - since).total_seconds()
        if rest <= 0:
            return StepResult(_NOTHING_PENDING, again=0)
        return StepResult(
            again=self._later(min(rest, REFUSED_PAUSE)),
            report=CredentialReport(False, FAILED, f"Failed to rotate client certificate: request {request.name}{why}"),
            watch=watched,
        )

    def _until_renewal(self, certificate: bytes) -> float:
        """Seconds until the renewal; its time is drawn once per certificate, which spreads the renewals of a fleet."""
        if self._renewal is None or self._renewal[0] != certificate:
            self._renewal = (certificate, validity_of(certificate).renewal(self._random))
        return min((self._renewal[1] - self._clock.now()).total_seconds(), LONGEST_SLEEP)

    def _later(self, seconds: float) -> float:
        return seconds * (1 + 0.2 * self._random())
