"""A hub that does with signing requests what a test tells it to, and counts what it is asked."""

import base64
import copy
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import orjson
from cryptography import x509

from muster.kube.certificates import CLIENT_AUTH, CertificateAuthority
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import GVR
from muster.runtime.client.base import KubeClient, Page
from muster.runtime.client.errors import AlreadyExists, NotFound, Unreachable
from tests.support.fake_clock import FakeClock

Document = dict[str, Any]


class ScriptedHub:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        # Longer than any life that a property test makes up.
        self.authority = CertificateAuthority.create("hub", clock.now(), timedelta(days=365_000))
        self.requests: dict[str, Document] = {}
        self.calls: list[str] = []
        self.away = False
        self.deaf = False
        """Carries out what it is asked, but the answer is lost."""

    @property
    def client(self) -> KubeClient:
        return cast(KubeClient, self)

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        if self.away:
            raise Unreachable("hub", "connection refused", sent=False)

    def _answer(self, csr: Document) -> Document:
        if self.deaf:
            raise Unreachable("hub", "connection reset")
        return copy.deepcopy(csr)

    async def get(self, resource: GVR, name: str) -> Document:
        self._called("get")
        if name not in self.requests:
            raise NotFound(404, "NotFound")
        return self._answer(self.requests[name])

    async def create(self, resource: GVR, obj: Document) -> Document:
        self._called("create")
        name = obj["metadata"]["name"]
        if name in self.requests:
            raise AlreadyExists(409, "AlreadyExists")
        self.requests[name] = copy.deepcopy(obj)
        self.requests[name]["metadata"]["creationTimestamp"] = format_time(self.clock.now())
        return self._answer(self.requests[name])

    async def pages(self, resource: GVR, *, label_selector: str, limit: int) -> AsyncIterator[Page]:
        self._called("list")
        yield Page([orjson.dumps(csr) for csr in self.requests.values()][:limit], "1", "")

    def rule(self, name: str, verdict: str, message: str = "because") -> None:
        """Approved, Denied or Failed."""
        status = self.requests[name].setdefault("status", {})
        condition = {"type": verdict, "status": "True", "reason": "Test", "message": message}
        condition["lastTransitionTime"] = format_time(self.clock.now())
        status.setdefault("conditions", []).append(condition)

    def certificate(self, name: str, lifetime: timedelta = timedelta(days=365), subject: x509.Name | None = None) -> bytes:
        request = x509.load_pem_x509_csr(base64.b64decode(self.requests[name]["spec"]["request"]))
        now = self.clock.now()
        return self.authority.sign(subject or request.subject, request.public_key(), now, now + lifetime, (CLIENT_AUTH,))

    def issue(self, name: str, certificate: bytes | None = None) -> bytes:
        """Approve and answer; gives what was issued."""
        self.rule(name, "Approved")
        issued = self.certificate(name) if certificate is None else certificate
        self.requests[name]["status"]["certificate"] = base64.b64encode(issued).decode()
        return issued

    def live(self) -> list[str]:
        """Requests that may still become certificates."""
        return [
            name
            for name, csr in self.requests.items()
            if not (csr.get("status") or {}).get("certificate")
            and not any(one["type"] in ("Denied", "Failed") for one in (csr.get("status") or {}).get("conditions") or ())
        ]
