"""Signs approved requests for addons with their own signer, with the CA in the Secret that they name.

A certificate has the subject and the alternative name of the addon's registration and client and server usages; nothing else of a
request is used. It is valid for a day, or less if the agent requests so or the CA expires before. An approved request that does not
match the registration gets the condition `Failed`.

The Secret is read for each certificate and never cached. If it is missing or invalid, an Event on the request and the log have the
reason, without its content; the request waits, as do all of that signer and no others.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from muster.addon.agent_addon import AddonError, CustomSigner, signer_problem
from muster.addon.requests.approval import REMEDY
from muster.addon.requests.open_requests import RECHECK, RequestController
from muster.addon.requests.options import RequestOptions
from muster.addon.requests.registrations import RegistrationsOf
from muster.addon.requests.request import AddonRequest, NotAnAddonsRequest, read_request, registration_for
from muster.api.addon.v1alpha1 import SecretReference
from muster.api.addons import dns_name
from muster.kube.certificates import CLIENT_AUTH, SERVER_AUTH, CertificateAuthority, UnusableAuthority
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.registration.drivers.certificates.profile import CERTIFICATE, KEY
from muster.registration.drivers.certificates.request_answers import validity_for
from muster.registration.drivers.certificates.requests import issued_certificate, verdict_of
from muster.registration.names import GRPC_SIGNER_SECRET
from muster.runtime.cache import Snapshot
from muster.runtime.client import Forbidden, NotFound
from muster.runtime.client.builtin import SECRETS
from muster.runtime.controller import ControllerContext

log = get_logger("muster.addon.requests.signer")

NAME: Final = "addon-csr-signing"
LONGEST: Final = timedelta(hours=24)


class NoSigningAuthority(Exception):
    """A signer has no usable CA now; the message has the Secret and the remedy, and nothing of its content."""


def is_to_be_signed(csr: Object) -> bool:
    return (
        not signer_problem(str((csr.get("spec") or {}).get("signerName") or ""))
        and verdict_of(csr, "Approved") is not None
        and verdict_of(csr, "Denied", "Failed") is None
        and not issued_certificate(csr)
    )


def authority_in(secret: Object, now: datetime) -> CertificateAuthority:
    """The CA in a Secret. Raises NoSigningAuthority."""
    data = secret.get("data") or {}
    parts = []
    for entry in (CERTIFICATE, KEY):
        try:
            parts.append(base64.b64decode(data.get(entry) or "", validate=True))
        except (binascii.Error, ValueError, TypeError):
            raise NoSigningAuthority(f"{entry} is not in base64") from None
    try:
        authority = CertificateAuthority.read(*parts)
    except UnusableAuthority as error:
        raise NoSigningAuthority(f"{KEY if error.of_key else CERTIFICATE}: {error.problem}") from None
    end = authority.certificate.not_valid_after_utc
    if end <= now:
        raise NoSigningAuthority(f"{CERTIFICATE}: this authority ended at {end:%Y-%m-%dT%H:%M:%SZ}; put a new one there")
    return authority


def certificate_for(csr: Object, request: AddonRequest, authority: CertificateAuthority, now: datetime) -> bytes:
    """The certificate (PEM) for a request that matches its registration."""
    validity = validity_for(csr, authority, LONGEST, now)
    names = (x509.DNSName(dns_name(request.addon)),)
    return authority.sign(request.content.subject, request.content.public_key(), *validity, (CLIENT_AUTH, SERVER_AUTH), names)


class AddonSigner(RequestController):
    def __init__(self, context: ControllerContext, registrations: RegistrationsOf, options: RequestOptions) -> None:
        super().__init__(context, registrations, NAME, is_to_be_signed)
        self._namespace = options.namespace
        self._issued = context.metrics.counter(
            "muster_addon_certificates_issued_total", "Certificates that were signed for addons by their own signers"
        )
        self._unsigned = context.metrics.counter(
            "muster_addon_certificates_unsigned_total", "Signing requests of addons that waited because their signer could not sign"
        )

    async def answer(self, csr: Snapshot) -> float | None:
        name = csr.name
        try:
            return await self._sign(csr)
        except NotAnAddonsRequest as problem:
            if await self._requests.answers.fail(csr, str(problem)):
                log.warning("request refused by the signer", request=name, problem=str(problem))
        except AddonError as problem:
            if self._requests.is_news(name, str(problem)):
                log.warning("request waits for its addon", request=name, problem=str(problem))
            return RECHECK
        except NoSigningAuthority as problem:
            self._wait(csr, str(problem))
            return RECHECK
        except Forbidden as refusal:
            self._wait(csr, f"the addon manager may not sign this: {refusal}; {REMEDY}")
            return RECHECK
        return None

    async def _sign(self, csr: Snapshot) -> float | None:
        registrations = self.registrations_of(csr) or ()
        signer = str(csr.data["spec"].get("signerName"))
        own = [
            one for one in registrations if isinstance(one, CustomSigner) and one.signer == signer and one.signing_ca is not None
        ]
        if not own:
            # Another controller signs this.
            return None
        request = read_request(csr.data)
        registration = registration_for(request, own)
        assert isinstance(registration, CustomSigner)
        assert registration.signing_ca is not None
        now = self._context.clock.now()
        authority = await self._authority(registration.signing_ca, now)
        if await self._requests.answers.issue(csr, certificate_for(csr.data, request, authority, now)):
            self._issued.inc()
            log.info("certificate issued", request=csr.name, cluster=request.cluster, addon=request.addon, signer=request.signer)
        return None

    async def _authority(self, reference: SecretReference, now: datetime) -> CertificateAuthority:
        namespace = reference.namespace or self._namespace
        where = f"Secret {namespace}/{reference.name}"
        if (namespace, reference.name) == (self._namespace, GRPC_SIGNER_SECRET):
            raise NoSigningAuthority(f"{where} is the authority of the hub's own agents; give the addon one of its own")
        try:
            return authority_in(await self._context.client.get(SECRETS, reference.name, namespace), now)
        except NoSigningAuthority as error:
            raise NoSigningAuthority(f"{where}: {error}") from None
        except NotFound:
            raise NoSigningAuthority(f"{where} is missing; it has to hold {CERTIFICATE} and {KEY} of the authority") from None
        except Forbidden:
            raise NoSigningAuthority(
                f"{where} may not be read by the addon manager; grant it get on this Secret by a Role in that namespace"
            ) from None

    def _wait(self, csr: Snapshot, problem: str) -> None:
        self._context.events.event(csr.data, "Warning", "SigningFailed", f"No certificate can be signed: {problem}")
        if self._requests.is_news(csr.name, problem):
            self._unsigned.inc()
            log.error("no certificate can be signed", request=csr.name, problem=problem)
