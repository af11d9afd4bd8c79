"""Aggregation: API groups that other servers serve, reached through this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.http import Response, StreamResponse, Takeover

if TYPE_CHECKING:
    from muster.apiserver.cluster import Cluster
    from muster.apiserver.context import Context
    from muster.apiserver.discovery import GroupVersion


class Aggregator:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.generation = 0

    def group_versions(self) -> Sequence[GroupVersion]:
        return ()

    async def serve(self, ctx: Context) -> Response | StreamResponse | Takeover | None:
        return None
