"""Registration over gRPC: agents connect only to the hub's gRPC server, and the hub signs their certificates itself.

`endpoints.py` is the agent's configuration file, `spoke.py` its side, `access.py` checks its permissions. On the hub, `hub.py`
votes on acceptance, `requests.py` parses the requests that the gRPC server forwards, and `signer.py` signs approved ones with the
authority in two files (`authority.py`). Requests, certificates, their renewal and the automatic approval are in
`drivers/certificates/`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from cryptography import x509

from muster.kube import yaml
from muster.kube.certificates import fingerprint
from muster.machinery.authorization import AccessAttributes
from muster.registration.drivers.certificates.options import expiration_arguments
from muster.registration.drivers.errors import Unfit
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.grpc.options import APPROVED_USERS, CA_FILE, HUB_CONFIG, KEY_FILE, bootstrap_configs, hub_config
from muster.registration.drivers.interfaces import Driver
from muster.registration.drivers.profile import PROXY_CA, PROXY_URL, AgentFiles, HubSetup, MemberSetup, Process, carrying, last
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import GRPC_SIGNER_SECRET, REGISTER_GROUP
from muster.runtime.auth import rights
from muster.runtime.client.builtin import SIGNING_REQUESTS

if TYPE_CHECKING:
    from muster.api.operator.v1 import ClusterManagerSpec, HubRegistrationDriver, SpokeRegistrationConfiguration
    from muster.api.resource import Document
    from muster.registration.drivers.endpoints import EndpointFormat
    from muster.registration.drivers.interfaces import HubContext, HubDriver, SpokeContext, SpokeDriver
    from muster.registration.drivers.profile import DriverOptions
    from muster.runtime.client import KubeClient

CONFIG: Final = "config.yaml"
HUB_FILES: Final = "/spoke/hub-kubeconfig"
"""Where a managed cluster's agents have the configuration and credential of the hub."""
SIGNER_FILES: Final = "/var/run/secrets/hub/grpc/certs"
"""Where the hub's controllers have the authority that signs agents' certificates."""
SERVER: Final = "grpc-server"
AUTHORITY: Final = "grpc-ca"
AUTHORITY_HASH: Final = "grpc-ca-hash"
ENDPOINT_TYPE: Final = "grpc-endpoint-type"
HOSTNAME: Final = "hostname"
LOAD_BALANCER: Final = "loadBalancer"
IDENTITIES: Final = "auto-approved-grpc-identities"


class GrpcDriver(Driver):
    """The driver; each side is imported only when it is used, because an agent does not need the hub's."""

    name = GRPC
    certificates = True
    grpc_server = True

    @property
    def endpoints(self) -> EndpointFormat:
        from muster.registration.drivers.grpc.endpoints import CONFIGS

        return CONFIGS

    def hub(self, context: HubContext) -> HubDriver:
        from muster.registration.drivers.grpc.hub import GrpcHub

        return GrpcHub(context)

    def spoke(self, context: SpokeContext) -> SpokeDriver:
        from muster.registration.drivers.grpc.spoke import GrpcSpoke

        return GrpcSpoke(context)

    def bootstrap_rights(self) -> tuple[AccessAttributes, ...]:
        return rights(SIGNING_REQUESTS.group, SIGNING_REQUESTS.plural, "create", "list", "watch")

    def agent_rights(self) -> tuple[AccessAttributes, ...]:
        return (
            *rights(SIGNING_REQUESTS.group, SIGNING_REQUESTS.plural, "create", "list", "watch"),
            *rights(REGISTER_GROUP, MANAGED_CLUSTERS.plural, "renew", subresource="clientcertificates"),
        )

    async def missing_to_register(self, hub: KubeClient, cluster: str) -> tuple[str, ...]:
        from muster.registration.drivers.grpc.access import FOLLOWED_TO_REGISTER, refused_kinds

        return await refused_kinds(hub, cluster, FOLLOWED_TO_REGISTER)

    async def missing_to_serve(self, hub: KubeClient, cluster: str) -> tuple[str, ...]:
        from muster.registration.drivers.grpc.access import FOLLOWED_TO_SERVE, refused_kinds

        return await refused_kinds(hub, cluster, FOLLOWED_TO_SERVE)

    def agent_files(self, options: DriverOptions) -> AgentFiles:
        return AgentFiles(bootstrap_configs(options), hub_config(options))

    def hub_process(self, entry: HubRegistrationDriver) -> Process:
        users = entry.grpc.auto_approved_identities if entry.grpc is not None else ()
        files = (f"--{CA_FILE}={SIGNER_FILES}/tls.crt", f"--{KEY_FILE}={SIGNER_FILES}/tls.key")
        approved = (f"--{APPROVED_USERS}={user}" for user in users)
        return Process((*files, *approved, *super().hub_process(entry).arguments), secrets={GRPC_SIGNER_SECRET: SIGNER_FILES})

    def agent_process(self, configured: SpokeRegistrationConfiguration) -> Process:
        # The file then names its certificate where work agents mount the Secret: upstream's find it only there.
        own = (f"--{HUB_CONFIG}={HUB_FILES}/{CONFIG}",)
        arguments = (*own, *expiration_arguments(configured), *super().agent_process(configured).arguments)
        return Process(arguments, scratch={"hub-kubeconfig": HUB_FILES})

    def hub_setup(self, options: DriverOptions) -> HubSetup:
        server, kind = last(options, SERVER), last(options, ENDPOINT_TYPE) or HOSTNAME
        if kind != LOAD_BALANCER and not server:
            raise Unfit(f"--{SERVER}: grpc server should not be empty if the grpc endpoint type is {kind}")
        exposure: Document = {"type": kind, **({kind: {"host": server}} if server else {})}
        identities = list(options.get(IDENTITIES, ()))
        own = {"grpc": {"autoApprovedIdentities": identities}} if identities else {}
        spec = {"serverConfiguration": {"endpointsExposure": [{"protocol": "grpc", "grpc": exposure}]}}
        return HubSetup({**own, **carrying(options, SERVER, ENDPOINT_TYPE, IDENTITIES)}, spec)

    def member_setup(self, options: DriverOptions, token: str, ca: bytes) -> MemberSetup:
        server = last(options, SERVER)
        if not server:
            raise Unfit(f"--{SERVER}: {SERVER} is required when registration-auth type is {self.name}")
        given = last(options, AUTHORITY).encode(errors="surrogateescape")
        trusted = {"caData": base64.b64encode(ca).decode()} if ca else {}
        config = yaml.dump({"url": server, "token": token, **trusted, **_proxy(options)})
        return MemberSetup(
            carrying(options, SERVER, AUTHORITY, AUTHORITY_HASH, PROXY_URL, PROXY_CA),
            {CONFIG: config},
            (server,),
            server=server,
            ca=given,
            hashes=tuple(options.get(AUTHORITY_HASH, ())),
        )

    def join_flags(self, hub: ClusterManagerSpec, authority: bytes = b"") -> tuple[str, ...]:
        exposures = hub.server_configuration.grpc_exposures if hub.server_configuration else ()
        address = next((exposure.host for exposure in exposures if exposure.host), "")
        if not address:
            return ()
        hashes = ",".join(_hashes(authority))
        return (f"--{SERVER}", address, *((f"--{AUTHORITY_HASH}", hashes) if hashes else ()))


def _proxy(options: DriverOptions) -> dict[str, str]:
    """The proxy settings in the agents' configuration; upstream's agents ignore them."""
    url, ca = last(options, PROXY_URL), last(options, PROXY_CA).encode(errors="surrogateescape")
    return {**({"proxyURL": url} if url else {}), **({"proxyCAData": base64.b64encode(ca).decode()} if ca else {})}


def _hashes(authority: bytes) -> list[str]:
    try:
        found = x509.load_pem_x509_certificates(authority)
    except ValueError:
        return []
    return [fingerprint(one.public_key()) for one in found]


DRIVER: Final = GrpcDriver()
