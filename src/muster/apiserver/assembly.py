"""Assembly of the server: the handlers of subresources, and the components of each cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.apiserver.admission.plugins import admission_chain
from muster.apiserver.aggregation import Aggregator
from muster.apiserver.auth.access import Access, TokenAuthenticator
from muster.apiserver.auth.bootstraptokens import BootstrapTokens
from muster.apiserver.auth.cluster_keys import ClusterKeyStore
from muster.apiserver.cluster import Cluster
from muster.apiserver.handlers.pod_logs import reject_terminal, serve_log
from muster.apiserver.handlers.pod_requests import bind_pod, evict_pod
from muster.apiserver.handlers.scale import serve_scale
from muster.apiserver.handlers.token_requests import create_token
from muster.apiserver.long_running_requests import OpenRequests
from muster.apiserver.pipeline import SubresourceHandler
from muster.apiserver.service_addresses import ServiceAddresses
from muster.apiserver.service_resolver import ServiceResolver
from muster.apiserver.webhooks import WebhookRoute

SUBRESOURCES: dict[tuple[str, str], SubresourceHandler] = {
    ("/serviceaccounts", "token"): create_token,
    ("/pods", "binding"): bind_pod,
    ("/pods", "eviction"): evict_pod,
    ("/pods", "log"): serve_log,
    ("/pods", "exec"): reject_terminal,
    ("/pods", "attach"): reject_terminal,
    ("/pods", "portforward"): reject_terminal,
    ("*", "scale"): serve_scale,
}


def wire_cluster(
    cluster: Cluster, static_tokens: TokenAuthenticator, token_webhook: TokenAuthenticator, issuer_url: Callable[[], str]
) -> None:
    """Add access rules, allocators, admission chain and aggregator to a new cluster."""
    tokens: Sequence[TokenAuthenticator] = [static_tokens, BootstrapTokens(cluster), token_webhook]
    access = Access(cluster, ClusterKeyStore(cluster.store, cluster.name), tokens, issuer_url)
    services = ServiceResolver(cluster)
    cluster.rules = access
    cluster.addresses = ServiceAddresses(cluster)
    cluster.webhook_route = WebhookRoute(services.resolve, access.webhook_identity.pair)
    for part in (access, services, OpenRequests(cluster), Aggregator(cluster), admission_chain(cluster)):
        cluster.add(part)
