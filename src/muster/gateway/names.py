"""What the gateway's things are called on the hub."""

from __future__ import annotations

from typing import Final

from muster.api.proxy.v1alpha1 import GROUP

COMPONENT: Final = "cluster-gateway"
"""The optional component, its addon, and the ManagedServiceAccount that it speaks as on a managed cluster."""
RESOURCE: Final = "clustergateways"
PROXY: Final = "proxy"
HEALTH: Final = "health"
ATTACH: Final = "attach"
"""Where the agent of a cluster that cannot be reached opens its tunnel. API servers count this name as long-running, and so neither
end such a request in time nor let it hold a seat of fairness."""
CREDENTIALS_NAMESPACE: Final = "managed-cluster-credentials"
"""Where an administrator puts the credentials of clusters that have no ManagedServiceAccount."""

CREDENTIAL_TYPE: Final = f"{GROUP}/cluster-credential-type"
ENDPOINT_TYPE: Final = f"{GROUP}/cluster-endpoint-type"
OAM_GROUP: Final = "cluster.core.oam.dev"
OAM_CREDENTIAL_TYPE: Final = f"{OAM_GROUP}/cluster-credential-type"
OAM_ENDPOINT_TYPE: Final = f"{OAM_GROUP}/cluster-endpoint-type"
"""Upstream's labels, which say the same."""

CLUSTER_PROXY_ANNOTATION: Final = f"{GROUP}/gateway-cluster-proxy"
"""Of a ClusterManager: where the gateway finds cluster-proxy's server, as HOST or HOST:PORT."""
CLUSTER_PROXY_PORT: Final = 8090
CLUSTER_PROXY_CA: Final = "proxy-server-ca"
CLUSTER_PROXY_CLIENT: Final = "proxy-client"
"""Secrets of cluster-proxy, in which are `ca.crt` of its server, and `tls.crt` and `tls.key` for its clients."""

SHORT_GROUP: Final = "open-cluster-management.io"
"""Of the seed's abbreviated paths, which no aggregating API server routes: aliases for those who ask the gateway itself."""
