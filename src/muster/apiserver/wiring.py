"""Which special handler serves what: the tables that connect the pipeline with the parts that are not plain storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from muster.apiserver.addresses import ServiceAddresses
from muster.apiserver.admission.plugins import admission_chain
from muster.apiserver.aggregation import Aggregator
from muster.apiserver.auth.access import Access, TokenAuthenticator
from muster.apiserver.auth.bootstraptokens import BootstrapTokens
from muster.apiserver.auth.statictokens import StaticTokens
from muster.apiserver.auth.vault import Vault
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.handlers import reviews
from muster.apiserver.handlers.pod_logs import refuse_terminal, serve_log
from muster.apiserver.handlers.pod_requests import bind_pod, evict_pod
from muster.apiserver.handlers.scale import serve_scale
from muster.apiserver.handlers.token_requests import create_token
from muster.apiserver.longrunning import OpenRequests
from muster.apiserver.nonresource.discovery import Discovery
from muster.apiserver.nonresource.health import Health
from muster.apiserver.nonresource.metrics import CONTENT_TYPE
from muster.apiserver.nonresource.openapi import OpenApi
from muster.apiserver.pipeline import Answer, Pipeline, SubresourceHandler
from muster.apiserver.presentation.negotiation import JSON, check_produced
from muster.apiserver.services import ServiceResolver
from muster.http import Response

if TYPE_CHECKING:
    from muster.apiserver.server import ApiServer


SUBRESOURCES: dict[tuple[str, str], SubresourceHandler] = {
    ("/serviceaccounts", "token"): create_token,
    ("/pods", "binding"): bind_pod,
    ("/pods", "eviction"): evict_pod,
    ("/pods", "log"): serve_log,
    ("/pods", "exec"): refuse_terminal,
    ("/pods", "attach"): refuse_terminal,
    ("/pods", "portforward"): refuse_terminal,
    ("*", "scale"): serve_scale,
}


class NonResources:
    """Paths outside the resource tree. What describes a cluster is made when somebody first asks."""

    def __init__(self, server: ApiServer) -> None:
        self._clusters = server.clusters
        self._documents: dict[str, tuple[Cluster, Discovery, OpenApi]] = {}
        self._metrics = server.metrics
        self._health = Health({"ping": lambda: None, "store": server.store_problem})

    async def __call__(self, ctx: Context) -> Answer | None:
        answer = self._health.serve(ctx)
        if answer is not None:
            return answer
        if ctx.attributes.path in ("/.well-known/openid-configuration", "/openid/v1/jwks"):
            return await _issuer_document(ctx)
        if ctx.attributes.path == "/metrics":
            return Response(200, self._metrics.render(), (), CONTENT_TYPE)
        found = self._documents.get(ctx.cluster.name)
        if found is None or found[0] is not ctx.cluster:  # one that was removed may be made anew under its name
            for gone in self._documents.keys() - self._clusters.keys():
                del self._documents[gone]
            found = self._documents[ctx.cluster.name] = (ctx.cluster, Discovery(ctx.cluster), OpenApi(ctx.cluster))
        _, discovery, openapi = found
        return openapi.serve(ctx) or await discovery.serve(ctx)


async def _issuer_document(ctx: Context) -> Answer:
    """With what others verify this cluster's service-account tokens."""
    issuer = await ctx.cluster.access.token_issuer()
    is_keys = ctx.attributes.path == "/openid/v1/jwks"
    document = issuer.jwks() if is_keys else issuer.discovery()
    media = "application/jwk-set+json" if is_keys else JSON
    check_produced(ctx.accept, media)
    return Response(200, orjson.dumps(document), [("Cache-Control", "public, max-age=3600")], media)


def build_pipeline(server: ApiServer) -> Pipeline:
    return Pipeline(NonResources(server), SUBRESOURCES, reviews.HANDLERS, server.fairness, server.metrics, server.audit)


def equip(server: ApiServer, cluster: Cluster) -> None:
    """Give a new cluster its access rules, admission chain and aggregator."""
    vault = Vault(server.store, cluster.name)
    tokens: list[TokenAuthenticator] = [
        StaticTokens(server.config.static_tokens),
        BootstrapTokens(cluster),
        server.token_webhooks.of(cluster.name),
    ]
    cluster.rules = cluster.access = Access(cluster, vault, tokens, lambda: server.cluster_url(cluster.name))
    cluster.open_requests = OpenRequests(cluster)
    cluster.aggregator = Aggregator(cluster)
    cluster.addresses = ServiceAddresses(cluster)
    cluster.services = ServiceResolver(cluster)
    cluster.admission = admission_chain(cluster)
