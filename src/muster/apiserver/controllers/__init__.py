"""Controllers that live in the server: coroutines on the store's event stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.apiserver.cluster import Cluster
    from muster.apiserver.server import ApiServer


async def start_controllers(server: ApiServer, cluster: Cluster) -> None:
    return None
