"""proxy.open-cluster-management.io/v1alpha1: ClusterGateway, a way through the hub to a cluster, and cluster-proxy's configuration.

`ClusterGateway` objects are virtual: the gateway serves them from an aggregated API and computes them from credentials, so there is
no definition for them, and secrets never appear in what is read. `ManagedProxyConfiguration` is stored like any custom resource; on
a hub where the gateway's APIService owns this group and version it cannot be reached, so it is not part of a hub's own definitions.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from muster.api.markers import Base64, Int32, Int64, Time, one_of, schema
from muster.api.meta import Condition, NodePlacement
from muster.api.resource import AGE, Column, Record, ResourceType, TypedObject

GROUP: Final = "proxy.open-cluster-management.io"
VERSION: Final = "v1alpha1"
X509_CERTIFICATE: Final = "X509Certificate"
SERVICE_ACCOUNT_TOKEN: Final = "ServiceAccountToken"
MANAGED_SERVICE_ACCOUNT: Final = "ManagedServiceAccount"


class X509Certificate(Record):
    """A client certificate; the key is never shown."""

    certificate: str = ""
    private_key: str = ""


class ServiceAccountToken(Record):
    """A token for the managed cluster; it is never shown."""

    token: str = ""


class ManagedServiceAccountReference(Record):
    """The ManagedServiceAccount whose token is used."""

    namespace: str = ""
    name: str = ""


class GatewayCredential(Record):
    """The credential with which the gateway connects to the managed cluster; the member that `type` names is used."""

    type: Annotated[str, one_of(X509_CERTIFICATE, SERVICE_ACCOUNT_TOKEN, MANAGED_SERVICE_ACCOUNT)] = ""
    x509_certificate: X509Certificate | None = msgspec.field(name="x509Certificate", default=None)
    service_account_token: ServiceAccountToken | None = None
    managed_service_account: ManagedServiceAccountReference | None = None


class GatewayAccess(Record):
    """How the gateway reaches the managed cluster."""

    endpoint: str = ""
    ca_bundle: Base64 = ""
    credential: GatewayCredential | None = None


class ClusterGatewaySpec(Record):
    """Where the cluster comes from, and how it is reached."""

    provider: str = ""
    access: GatewayAccess = GatewayAccess()


class ClusterGatewayStatus(Record):
    """Whether the cluster responds through the gateway, and how long the credential is valid."""

    healthy: bool = False
    healthy_reason: str = ""
    expiration_timestamp: Time = ""


class ClusterGateway(TypedObject):
    """A managed cluster that can be reached through the hub; it has the cluster's name."""

    resource = ResourceType(
        GROUP,
        VERSION,
        "ClusterGateway",
        "clustergateways",
        "Cluster",
        columns=(
            Column("Credential-Type", ".spec.access.credential.type"),
            Column("Endpoint", ".spec.access.endpoint"),
            Column("Healthy", ".status.healthy", "boolean"),
            # A date is shown as an age, and this one is in the future.
            Column("Expires", ".status.expirationTimestamp"),
            AGE,
        ),
    )

    spec: ClusterGatewaySpec = ClusterGatewaySpec()
    status: ClusterGatewayStatus = ClusterGatewayStatus()


class SelfSigned(Record):
    """Certificates from a CA that the proxy creates itself."""

    additional_sans: tuple[str, ...] = msgspec.field(name="additionalSANs", default=())


class Signer(Record):
    """Where the proxy's certificates come from."""

    type: Annotated[str, one_of("SelfSigned", "Provided", "CertManager")] = "SelfSigned"
    self_signed: SelfSigned | None = None


class DumpedSecrets(Record):
    """The names of the secrets with certificates."""

    signing_proxy_server_secret_name: str = "proxy-server"
    signing_proxy_client_secret_name: str = "proxy-client"
    signing_agent_server_secret_name: str = "agent-server"


class Dump(Record):
    """Where certificates are written."""

    secrets: DumpedSecrets = DumpedSecrets()


class ProxyAuthentication(Record):
    """The proxy's certificates."""

    signer: Signer = Signer()
    dump: Dump = Dump()


class Annotation(Record):
    """An annotation of a service."""

    key: str
    value: str = ""


class LoadBalancerService(Record):
    """A service of type LoadBalancer."""

    name: str = "proxy-agent-entrypoint"
    annotations: tuple[Annotation, ...] = ()


class EntrypointHostname(Record):
    """A host name."""

    value: str


class Entrypoint(Record):
    """How agents reach the proxy server."""

    type: Annotated[str, one_of("Hostname", "LoadBalancerService", "PortForward")]
    load_balancer_service: LoadBalancerService | None = None
    hostname: EntrypointHostname | None = None
    port: Annotated[Int32, schema(minimum=1)] = 8091


class ProxyServer(Record):
    """The proxy server on the hub."""

    image: str
    replicas: Int32 = 3
    namespace: str = "open-cluster-management-cluster-proxy"
    in_cluster_service_name: str = "proxy-entrypoint"
    entrypoint: Entrypoint | None = None
    additional_args: tuple[str, ...] = ()
    node_placement: NodePlacement = NodePlacement()


class ProxyAgent(Record):
    """The proxy agents on managed clusters."""

    image: str
    replicas: Int32 = 3
    additional_args: tuple[str, ...] = ()
    additional_service_proxy_args: tuple[str, ...] = ()
    additional_service_ca_config_map: str = msgspec.field(name="additionalServiceCAConfigMap", default="")
    image_pull_secrets: tuple[str, ...] = ()


class ProxyPorts(Record):
    """The ports of the proxy server."""

    proxy_server: Int32 = 8090
    agent_server: Int32 = 8091
    health_server: Int32 = 8092
    admin_server: Int32 = 8095


class ProxyDeploy(Record):
    """How the proxy server is deployed."""

    ports: ProxyPorts


class UserServer(Record):
    """The server that users connect to."""

    additional_sans: tuple[str, ...] = msgspec.field(name="additionalSANs", default=())


class ManagedProxyConfigurationSpec(Record):
    """The parts of cluster-proxy."""

    authentication: ProxyAuthentication
    proxy_server: ProxyServer
    proxy_agent: ProxyAgent
    deploy: ProxyDeploy | None = None
    user_server: UserServer | None = None


class ManagedProxyConfigurationStatus(Record):
    """The observed state of cluster-proxy."""

    last_observed_generation: Int64 = 0
    conditions: tuple[Condition, ...] = ()


class ManagedProxyConfiguration(TypedObject):
    """The configuration of cluster-proxy on the hub and on managed clusters."""

    resource = ResourceType(GROUP, VERSION, "ManagedProxyConfiguration", "managedproxyconfigurations", "Cluster")

    spec: ManagedProxyConfigurationSpec | None = None
    status: ManagedProxyConfigurationStatus = ManagedProxyConfigurationStatus()
