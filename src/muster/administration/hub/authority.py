"""The CA of the hub's gRPC server: the ConfigMap in which the hub's operator publishes it."""

from __future__ import annotations

from typing import Final

from muster.operator.cluster_manager.components import CA_BUNDLE
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS

AUTHORITY_MAP: Final = CA_BUNDLE
AUTHORITY_KEY: Final = "ca-bundle.crt"


async def grpc_authority(client: KubeClient) -> bytes:
    """PEM; empty if the ConfigMap has none. Raises the client's errors, NotFound if the ConfigMap does not exist."""
    found = await client.get(CONFIG_MAPS, AUTHORITY_MAP, HUB_NAMESPACE)
    return str((found.get("data") or {}).get(AUTHORITY_KEY) or "").encode()
