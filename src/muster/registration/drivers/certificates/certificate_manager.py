"""The agent's side: a state machine that asks a signer for a certificate, waits, takes it, and asks again before it ends.

All it remembers is in Secrets. A new key and the name of the request to be made with it are noted as pending first, only then the
request is made, under that name; the certificate that comes back replaces the old one together with its key, in one write, and
then what was pending is forgotten. So whenever the agent dies it finds either nothing begun, or a request that it has the key of,
or the pending key in use already. Two things hold at every moment: at most one live request of ours is with the signer, and a
certificate in use is replaced by a better one or not at all.

What to do next (`next_step`) and what an answer means (`follow`) are decisions without side effects, over what is stored, what is
pending, the answer and the clock. How a request gets to its signer and an answer back is a `RequestChannel`'s business. Signers may
take their time: a request about which nothing is said is pending, whoever decides on it and in whatever queue, and is asked
about again when the channel shows a change or nothing was heard for long.

A request that was refused (denied, failed, or answered with a certificate that is not for us) stays the pending one for a while,
counted from the signer's own record of the refusal, so that neither a stubborn hub nor a restarting agent makes requests pile up.
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
"""With so many requests of ours with the signer, something is wrong that another one will not mend."""
REFUSED_PAUSE: Final = 600.0
HALTED_PAUSE: Final = 300.0
UNHEARD_PAUSE: Final = 300.0
"""So long without a word of the watch, the signer is asked."""
LONGEST_SLEEP: Final = 3600.0
"""Timers stand still while a machine sleeps; certificates do not."""

ROTATED: Final = "ClientCertificateUpdated"
FAILED: Final = "ClientCertificateUpdateFailed"
HALTED: Final = "ClientCertificateCreationHalted"


@dataclass(frozen=True)
class RequestState:
    """What a signer has said to a request so far; one that says nothing of this is pending."""

    is_ours: bool = True
    """Whether it is our request that has this name."""
    certificate: bytes = b""
    refusal: str = ""
    """Why there will be no certificate."""
    decided: datetime | None = None
    """When the signer decided, by its own record; None where it keeps none."""


class RequestChannel(Protocol):
    """How requests reach a signer, and its answers us. All but `read` and `watched` raise KubeError."""

    async def are_many(self, most: int) -> bool:
        """Whether so many requests of ours are with the signer already."""
        ...

    async def find(self, name: str, key: bytes) -> RequestState | None:
        """None when there is no request of this name (yet, or any more)."""
        ...

    async def submit(self, name: str, key: bytes) -> RequestState:
        """Make the request. One of this name that is there already is as good: what is submitted again is the same request."""
        ...

    def read(self, seen: Document, name: str, key: bytes) -> RequestState | None:
        """What a watched object says of the request; None when it is another."""
        ...

    def watched(self, name: str) -> WatchTarget | None:
        """What changes when there is an answer; None when only asking tells."""
        ...


def rotated(certificate: bytes) -> CredentialReport:
    """What is told of a certificate that is in use."""
    validity = validity_of(certificate)
    text = f"client certificate rotated starting from {validity.since:{_GO_TIME}} to {validity.until:{_GO_TIME}}"
    return CredentialReport(True, ROTATED, text, "ClientCertificateCreated")


@dataclass(frozen=True)
class PendingRequest:
    """The pending request is to be made, or asked about."""

    name: str
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Draw:
    """A new key and a name for its request are needed."""


class CertificateMachine:
    def __init__(self, profile: CertificateProfile, clock: Clock, random: Random) -> None:
        self._profile = profile
        self._clock = clock
        self._random = random
        self._drawn = ""
        """The name of the request that is surely not with the signer yet."""
        self._waiting = ""
        """The name of the request that was last said to wait for its approval."""
        self._refusal: tuple[str, datetime] | None = None
        """The request that was last seen to be refused, and since when."""
        self._renewal: tuple[bytes, datetime] | None = None

    def problem(self, stored: Mapping[str, bytes]) -> str:
        """Why the stored certificate cannot be used now; empty when it can."""
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
        """What is to be done with what is stored and pending."""
        name, key = pending.get(PENDING_NAME, b"").decode(errors="replace"), pending.get(PENDING_KEY, b"")
        if key and key == stored.get(self._profile.key_entry):
            # Its certificate came, and the agent died before it had forgotten what was pending.
            return StepResult(_NOTHING_PENDING, again=0)
        if name.startswith(self._profile.prefix) and is_key(key):
            return PendingRequest(name, key)
        if not self.problem(stored):
            rest = self._until_renewal(stored[self._profile.certificate_entry])
            if rest > 0:
                return StepResult(again=rest)
        return Draw()

    def follow(self, request: PendingRequest, answer: RequestState, watched: WatchTarget | None) -> StepResult:
        """What the signer's answer so far means."""
        if not answer.is_ours:
            # Somebody else's request has that name, or the agent had another name when it asked: begin anew.
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
        """A new key and a name for its request, to be stored before anything is asked."""
        if await channel.are_many(MOST_REQUESTS):
            text = f"{MOST_REQUESTS} requests of this cluster are on the hub already; no other is made until some are gone"
            return StepResult(again=self._later(HALTED_PAUSE), report=CredentialReport(False, FAILED, text, HALTED))
        self._drawn = generate_name(self._profile.prefix, lambda alphabet: alphabet[int(self._random() * len(alphabet))])
        return StepResult({PENDING_KEY: new_key(), PENDING_NAME: self._drawn.encode()}, again=0)

    async def _answer(self, channel: RequestChannel, request: PendingRequest, seen: Document | None) -> RequestState:
        """What is said of the pending request; it is made, if it is not there (yet, or any more)."""
        new, self._drawn = self._drawn == request.name, ""
        known = None if seen is None else channel.read(seen, request.name, request.key)
        if known is None and not new:
            known = await channel.find(request.name, request.key)
        return known or await channel.submit(request.name, request.key)

    def _log_waiting(self, request: PendingRequest) -> None:
        """Once for each request: an administrator compares the key with what the hub shows."""
        if self._waiting != request.name:
            self._waiting = request.name
            subject, key = self._profile.common_name, key_fingerprint(request.key)
            log.info("waiting for approval", subject=subject, request=request.name, key=key)

    def _refused(self, request: PendingRequest, answer: RequestState, why: str, watched: WatchTarget | None) -> StepResult:
        """Begin anew some time after the refusal; earlier if somebody removes the refused request from the hub."""
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
        """Seconds until the next request is due; the moment is drawn once per certificate, so that a fleet spreads out."""
        if self._renewal is None or self._renewal[0] != certificate:
            self._renewal = (certificate, validity_of(certificate).renewal(self._random))
        return min((self._renewal[1] - self._clock.now()).total_seconds(), LONGEST_SLEEP)

    def _later(self, seconds: float) -> float:
        return seconds * (1 + 0.2 * self._random())
