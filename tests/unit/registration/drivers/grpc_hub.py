"""What a hub's gRPC server does for agents, as far as the driver's hub side sees it: requests made on somebody's behalf."""

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography import x509

from muster.api.agents import CSR_USER, GRPC_SIGNER
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.kube.certificates import CertificateAuthority
from muster.machinery.clock import SYSTEM, Clock
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.requests import issued_certificate, new_key, request_object
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import DRIVER_ANNOTATION, AgentIdentity
from muster.runtime.client.builtin import SIGNING_REQUESTS
from muster.runtime.client.errors import AlreadyExists
from tests.unit.registration.drivers.conftest import BOOTSTRAP, client_of

AGENT = AgentIdentity("cluster1", "abcde")
SERVER = "system:serviceaccount:open-cluster-management-hub:grpc-server-sa"
Document = dict[str, Any]


def grpc_server(server: ApiServer) -> InProcessClient:
    return client_of(server, SERVER)


class AuthorityFiles:
    """The authority of the hub in two files, as a Secret's mount shows it."""

    def __init__(self, directory: Path, clock: Clock = SYSTEM) -> None:
        directory.mkdir(exist_ok=True)
        self.certificate = directory / "tls.crt"
        self.key = directory / "tls.key"
        self._clock = clock
        self.replace()

    def replace(self, authority: CertificateAuthority | None = None) -> None:
        self.authority = authority or CertificateAuthority.create("grpc-signer", self._clock.now(), timedelta(days=365))
        pair = self.authority.pair()
        self.certificate.write_bytes(pair.certificate)
        self.key.write_bytes(pair.key)

    def options(self, *trusted: str, **more: str) -> dict[str, tuple[str, ...]]:
        told = {"grpc-ca-file": (str(self.certificate),), "grpc-key-file": (str(self.key),)}
        return {**told, "auto-approved-grpc-users": trusted, **{name.replace("_", "-"): (value,) for name, value in more.items()}}


def request_of(name: str, identity: AgentIdentity = AGENT, *, user: str = BOOTSTRAP, key: bytes = b"", **spec: Any) -> Document:
    csr = request_object(name, agent_profile(identity, signer=GRPC_SIGNER), key or new_key())
    csr["metadata"]["annotations"] = {CSR_USER: user}
    csr["spec"] |= spec
    return csr


async def ask(
    client: InProcessClient, name: str, identity: AgentIdentity = AGENT, *, introduced: bool = True, **request: Any
) -> Document:
    """As the server does it for an agent: the cluster first, with the driver's mark."""
    if introduced:
        metadata = {"name": identity.cluster, "annotations": {DRIVER_ANNOTATION: "grpc"}}
        with contextlib.suppress(AlreadyExists):
            kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
            await client.create(MANAGED_CLUSTERS, {**kind, "metadata": metadata})
    return await client.create(SIGNING_REQUESTS, request_of(name, identity, **request))


async def approve(admin: InProcessClient, name: str) -> None:
    csr = await admin.get(SIGNING_REQUESTS, name)
    csr.setdefault("status", {})["conditions"] = [{"type": "Approved", "status": "True", "reason": "ByHand", "message": "yes"}]
    await admin.update(SIGNING_REQUESTS, csr, subresource="approval")


async def verdict(client: InProcessClient, name: str) -> str:
    csr = await client.get(SIGNING_REQUESTS, name)
    return ",".join(condition["type"] for condition in (csr.get("status") or {}).get("conditions") or ())


async def issued(client: InProcessClient, name: str) -> x509.Certificate | None:
    pem = issued_certificate(await client.get(SIGNING_REQUESTS, name))
    return x509.load_pem_x509_certificate(pem) if pem else None
