"""Checks whether this hub issues certificates: some managed Kubernetes services approve signing requests and never sign them.

A request for a client certificate of a user without permissions is created, approved, watched for a few seconds, and deleted in any
case. Its name and label identify it, so the next run deletes what an interrupted one left. Its key is discarded.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from dataclasses import dataclass
from enum import Enum
from typing import Final

from muster.api import Document
from muster.kube import certificates
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.objects import Object
from muster.machinery.poll_interval import poll_interval
from muster.registration.drivers.certificates.profile import CLIENT_USAGES
from muster.registration.drivers.certificates.requests import issued_certificate, verdict_of
from muster.registration.names import CLIENT_SIGNER
from muster.runtime.client import Forbidden, KubeClient, KubeError
from muster.runtime.client.builtin import SIGNING_REQUESTS

WITHIN: Final = 10.0
LABEL: Final = "open-cluster-management.io/csr-probe"
PREFIX: Final = "clusteradm-csr-probe-"
SUBJECT: Final = "open-cluster-management:csr-probe"
EXPIRATION: Final = 600
_LONGEST_PAUSE: Final = 0.1


class Answer(Enum):
    ISSUED = "issued"
    NOT_ISSUED = "not issued"
    UNKNOWN = "could not verify"


@dataclass(frozen=True)
class Probe:
    answer: Answer
    detail: str = ""


async def probe_signing(client: KubeClient, *, within: float = WITHIN, clock: Clock = SYSTEM) -> Probe:
    """Raises no errors of the server: if it does not answer, the result is unknown."""
    name = PREFIX + secrets.token_hex(5)
    try:
        return await _probe(client, name, within, clock)
    except Forbidden as error:
        return Probe(Answer.UNKNOWN, f"no permission: {error}")
    except KubeError as error:
        return Probe(Answer.UNKNOWN, str(error))
    finally:
        await _clean(client)


async def _probe(client: KubeClient, name: str, within: float, clock: Clock) -> Probe:
    made = await client.create(SIGNING_REQUESTS, _request(name))
    status = made.setdefault("status", {})
    approval = {"type": "Approved", "status": "True", "reason": "ClusteradmProbe", "message": "A probe; it is deleted at once."}
    status["conditions"] = [*(status.get("conditions") or ()), approval]
    await client.update(SIGNING_REQUESTS, made, subresource="approval")
    began = clock.monotonic()
    while True:
        found = await client.get(SIGNING_REQUESTS, name)
        if issued_certificate(found):
            return Probe(Answer.ISSUED)
        if failure := verdict_of(found, "Failed", "Denied"):
            return Probe(Answer.NOT_ISSUED, f"the signer says {failure.get('reason')}: {failure.get('message')}")
        waited = clock.monotonic() - began
        if waited >= within:
            return Probe(Answer.NOT_ISSUED, f"approved, and not signed within {within:g} s")
        await sleep(clock, poll_interval(waited, _LONGEST_PAUSE))


def _request(name: str) -> Document:
    pem = certificates.signing_request(certificates.generate_key(), certificates.subject(SUBJECT))
    return {
        "apiVersion": SIGNING_REQUESTS.api_version,
        "kind": SIGNING_REQUESTS.kind,
        "metadata": {"name": name, "labels": {LABEL: ""}},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": CLIENT_SIGNER,
            "usages": list(CLIENT_USAGES),
            "expirationSeconds": EXPIRATION,
        },
    }


async def _clean(client: KubeClient) -> None:
    """Runs to its end even if cancelled; the cancellation is raised afterwards.

    Without permission to list or delete there was hardly one to create.
    """

    async def delete_all() -> None:
        with contextlib.suppress(KubeError):
            for found in (await client.list(SIGNING_REQUESTS, label_selector=LABEL)).items:
                await _delete(client, found)

    cleaning = asyncio.ensure_future(delete_all())
    cancelled: asyncio.CancelledError | None = None
    while not cleaning.done():
        try:
            await asyncio.wait({cleaning})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _delete(client: KubeClient, found: Object) -> None:
    with contextlib.suppress(KubeError):
        await client.delete(SIGNING_REQUESTS, found["metadata"]["name"])
