"""Dispatch of non-resource paths."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from muster.apiserver.auth.access import Access
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.nonresource.discovery import Discovery
from muster.apiserver.nonresource.health import Health
from muster.apiserver.nonresource.metrics import CONTENT_TYPE, ServerMetrics
from muster.apiserver.nonresource.openapi import OpenApi
from muster.apiserver.presentation.negotiation import JSON, check_produced
from muster.http import Response


class NonResourcePaths:
    """Serves non-resource paths; discovery and OpenAPI of a cluster are created with the first request for them."""

    def __init__(self, clusters: Mapping[str, Cluster], metrics: ServerMetrics, health: Health) -> None:
        self._clusters = clusters
        self._documents: dict[str, tuple[Cluster, Discovery, OpenApi]] = {}
        self._metrics = metrics
        self._health = health

    async def __call__(self, ctx: Context) -> Response | None:
        answer = self._health.serve(ctx)
        if answer is not None:
            return answer
        if ctx.attributes.path in ("/.well-known/openid-configuration", "/openid/v1/jwks"):
            return await _issuer_document(ctx)
        if ctx.attributes.path == "/metrics":
            return Response(200, self._metrics.render(), (), CONTENT_TYPE)
        found = self._documents.get(ctx.cluster.name)
        if found is None or found[0] is not ctx.cluster:  # a removed cluster may have been created again
            for gone in self._documents.keys() - self._clusters.keys():
                del self._documents[gone]
            found = self._documents[ctx.cluster.name] = (ctx.cluster, Discovery(ctx.cluster), OpenApi(ctx.cluster))
        _, discovery, openapi = found
        return openapi.serve(ctx) or await discovery.serve(ctx)


async def _issuer_document(ctx: Context) -> Response:
    """The OIDC documents with which others verify service account tokens of the cluster."""
    issuer = await ctx.cluster.part(Access).token_issuer()
    is_keys = ctx.attributes.path == "/openid/v1/jwks"
    document = issuer.jwks() if is_keys else issuer.discovery()
    media = "application/jwk-set+json" if is_keys else JSON
    check_produced(ctx.accept, media)
    return Response(200, orjson.dumps(document), [("Cache-Control", "public, max-age=3600")], media)
