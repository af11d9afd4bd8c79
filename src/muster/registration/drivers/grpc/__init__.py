"""Registration over gRPC: what is known of it here, so far without a driver that does it.

Upstream's agents find their way to the hub in the file `config.yaml` of the bootstrap Secret.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from muster.kube import yaml
from muster.registration.drivers.errors import Unfit
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.profile import HubSetup, MemberSetup, Process, Profile, carrying, last

if TYPE_CHECKING:
    from muster.api.operator.v1 import ClusterManagerSpec, HubRegistrationDriver
    from muster.api.resource import Document
    from muster.registration.drivers.profile import DriverOptions

CONFIG: Final = "config.yaml"
SERVER: Final = "grpc-server"
AUTHORITY: Final = "grpc-ca"
ENDPOINT_TYPE: Final = "grpc-endpoint-type"
HOSTNAME: Final = "hostname"
IDENTITIES: Final = "auto-approved-grpc-identities"


class GrpcProfile(Profile):
    name = GRPC

    def hub_process(self, entry: HubRegistrationDriver) -> Process:
        users = entry.grpc.auto_approved_identities if entry.grpc is not None else ()
        return Process((*(f"--auto-approved-grpc-users={user}" for user in users), *super().hub_process(entry).arguments))

    def hub_setup(self, options: DriverOptions) -> HubSetup:
        server, kind = last(options, SERVER), last(options, ENDPOINT_TYPE) or HOSTNAME
        if kind == HOSTNAME and not server:
            raise Unfit(f"--{SERVER}: grpc server should not be empty if the grpc endpoint type is {HOSTNAME}")
        exposure: Document = {"type": kind, **({kind: {"host": server}} if server else {})}
        identities = list(options.get(IDENTITIES, ()))
        own = {"grpc": {"autoApprovedIdentities": identities}} if identities else {}
        spec = {"serverConfiguration": {"endpointsExposure": [{"protocol": "grpc", "grpc": exposure}]}}
        return HubSetup({**own, **carrying(options, SERVER, ENDPOINT_TYPE, IDENTITIES)}, spec)

    def member_setup(self, options: DriverOptions, token: str, ca: bytes) -> MemberSetup:
        server = last(options, SERVER)
        if not server:
            raise Unfit(f"--{SERVER}: {SERVER} is required when registration-auth type is {self.name}")
        authority = last(options, AUTHORITY).encode(errors="surrogateescape") or ca
        trusted = {"caData": base64.b64encode(authority).decode()} if authority else {}
        config = yaml.dump({"url": server, "token": token, **trusted})
        return MemberSetup(carrying(options, SERVER, AUTHORITY), {CONFIG: config}, (server,))

    def join_flags(self, hub: ClusterManagerSpec) -> tuple[str, ...]:
        server = hub.server_configuration
        for endpoint in server.endpoints_exposure if server else ():
            exposure = endpoint.grpc
            found = (exposure.hostname or exposure.load_balancer or exposure.route) if exposure else None
            if found is not None and found.host:
                return (f"--{SERVER}", found.host)
        return ()


PROFILE: Final = GrpcProfile()
