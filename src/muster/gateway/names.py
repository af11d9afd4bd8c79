"""Names of the gateway's objects on the hub."""

from __future__ import annotations

from typing import Final

from muster.api.proxy.v1alpha1 import GROUP

COMPONENT: Final = "cluster-gateway"
"""Name of the optional component, of its addon, and of the ManagedServiceAccount that it uses on a managed cluster."""
RESOURCE: Final = "clustergateways"
PROXY: Final = "proxy"
HEALTH: Final = "health"
ATTACH: Final = "attach"
"""The subresource at which the agent of an unreachable cluster opens its tunnel. API servers treat this name as long-running:
they do not time out such a request, and it does not occupy a seat of API Priority and Fairness."""
CREDENTIALS_NAMESPACE: Final = "managed-cluster-credentials"
"""Namespace for an administrator's credentials of clusters that have no ManagedServiceAccount."""

CREDENTIAL_TYPE: Final = f"{GROUP}/cluster-credential-type"
ENDPOINT_TYPE: Final = f"{GROUP}/cluster-endpoint-type"
OAM_GROUP: Final = "cluster.core.oam.dev"
OAM_CREDENTIAL_TYPE: Final = f"{OAM_GROUP}/cluster-credential-type"
OAM_ENDPOINT_TYPE: Final = f"{OAM_GROUP}/cluster-endpoint-type"
"""Upstream's labels, with the same meaning."""

CLUSTER_PROXY_ANNOTATION: Final = f"{GROUP}/gateway-cluster-proxy"
"""Annotation of a ClusterManager: the address of cluster-proxy's server, as HOST or HOST:PORT."""
CLUSTER_PROXY_PORT: Final = 8090
CLUSTER_PROXY_CA: Final = "proxy-server-ca"
CLUSTER_PROXY_CLIENT: Final = "proxy-client"
"""Secrets of cluster-proxy, with `ca.crt` of its server, and `tls.crt` and `tls.key` of its clients."""

SHORT_GROUP: Final = "open-cluster-management.io"
"""Group of upstream's abbreviated paths, which no kube-aggregator routes: an alias for clients that connect to the gateway
directly."""
