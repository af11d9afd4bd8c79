"""Which special handler serves what: the tables that connect the pipeline with the parts that are not plain storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.apiserver.admission.chain import AdmissionChain
from muster.apiserver.admission.lifecycle import NamespaceLifecycle
from muster.apiserver.aggregation import Aggregator
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.statictokens import StaticTokens
from muster.apiserver.auth.vault import Vault
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.discovery import Discovery
from muster.apiserver.health import Health
from muster.apiserver.openapi import OpenApi
from muster.apiserver.pipeline import Answer, Pipeline

if TYPE_CHECKING:
    from muster.apiserver.server import ApiServer


class NonResources:
    """Paths outside the resource tree. What describes a cluster is made when somebody first asks."""

    def __init__(self, server: ApiServer) -> None:
        self._documents: dict[str, tuple[Discovery, OpenApi]] = {}
        self._health = Health({"ping": lambda: None, "store": server.store_problem})

    async def __call__(self, ctx: Context) -> Answer | None:
        answer = self._health.serve(ctx)
        if answer is not None:
            return answer
        found = self._documents.get(ctx.cluster.name)
        if found is None:
            found = self._documents[ctx.cluster.name] = (Discovery(ctx.cluster), OpenApi(ctx.cluster))
        discovery, openapi = found
        return openapi.serve(ctx) or await discovery.serve(ctx)


def build_pipeline(server: ApiServer) -> Pipeline:
    return Pipeline(NonResources(server), {}, {}, server.audit)


def equip(server: ApiServer, cluster: Cluster) -> None:
    """Give a new cluster its access rules, admission chain and aggregator."""
    vault = Vault(server.store, cluster.name)
    cluster.access = Access(cluster, vault, [StaticTokens(server.config.static_tokens)])
    cluster.aggregator = Aggregator(cluster)
    cluster.admission = AdmissionChain([NamespaceLifecycle()])
