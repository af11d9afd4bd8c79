"""`Gateway`: access to a hub's clusters for programs that use some client library.

Every library accepts a kubeconfig: here it is the hub's own with the cluster's address behind the gateway. So the library itself
handles certificates, tokens and exec plugins, and never sees a token of a cluster. The six methods of upstream's gateway client and
their counterparts:

    RESTClient(cluster)                             rest(cluster), rest_async(cluster)
    GetKubernetesClient(cluster)                    kubernetes(cluster), kubernetes_aio(cluster), kubernetes_asyncio(cluster)
    GetControllerRuntimeClient(cluster, options)    dynamic(cluster), kr8s(cluster), lightkube(cluster)
    RoundTripperForCluster(cluster)                 httpx_transport(cluster), requests_adapter(cluster), aiohttp_middleware(cluster)
    RoundTripperForClusterFromContext()             the same without a cluster
    RoundTripperForClusterFromContextWrapper(inner) the same with `inner`
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from muster.gateway.client import errors
from muster.gateway.client.context import require_cluster_name
from muster.gateway.client.fanout import CLUSTERS_AT_ONCE, ClusterResult, fanout, fanout_threads
from muster.gateway.client.identity import HubIdentity
from muster.gateway.client.libraries import library
from muster.gateway.client.paths import GATEWAY_API, GatewayApi, Route, gateway_base_url
from muster.kube import yaml
from muster.runtime.client import ClientConfig, HttpClient, context_of, in_cluster_config, load_context, parse_kubeconfig

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from kr8s import Api as Kr8sApi
    from kr8s.asyncio import Api as AsyncKr8sApi
    from kubernetes.aio.client import ApiClient as AioApiClient
    from kubernetes.client import ApiClient
    from kubernetes.dynamic import DynamicClient
    from kubernetes_asyncio.client import ApiClient as AsyncioApiClient
    from lightkube import AsyncClient as AsyncLightkubeClient
    from lightkube import Client as LightkubeClient
    from requests import Session

    from muster.gateway.client.transports.aiohttp_middleware import Middleware
    from muster.gateway.client.transports.httpx_family import Family

T = TypeVar("T")
Httpx = Literal["httpx", "httpx2"]


class Gateway:
    """A hub, reached with its kubeconfig. Nothing is contacted before one of its clients is used."""

    def __init__(self, kubeconfig: Mapping[str, Any], *, api: GatewayApi = GATEWAY_API, hub_server: str = "") -> None:
        """`kubeconfig` has one context, as `load_context` returns it; `hub_server` overrides the address of the hub."""
        self._document = deepcopy(dict(kubeconfig))
        self._cluster: dict[str, Any] = self._document["clusters"][0]["cluster"]
        if hub_server:
            self._cluster["server"] = hub_server
        self._cluster["server"] = str(self._cluster.get("server") or "").rstrip("/")
        self.api = api
        # Raises ValueError for an invalid address.
        Route(self.hub_url, api=api)

    @classmethod
    def from_kubeconfig(
        cls,
        source: str | PathLike[str] | Mapping[str, Any] | None = None,
        context: str = "",
        *,
        api: GatewayApi = GATEWAY_API,
        hub_server: str = "",
    ) -> Gateway:
        """From a file or a document, or as kubectl from $KUBECONFIG or ~/.kube/config. Raises KubeconfigError."""
        found = load_context(source if isinstance(source, Mapping | None) else Path(source), context)
        return cls(found, api=api, hub_server=hub_server)

    @classmethod
    def from_config(cls, config: ClientConfig, *, api: GatewayApi = GATEWAY_API, hub_server: str = "") -> Gateway:
        """From the configuration of Muster's own clients."""
        return cls(context_of(config, "hub"), api=api, hub_server=hub_server)

    @classmethod
    def in_cluster(cls, *, api: GatewayApi = GATEWAY_API) -> Gateway:
        """For a pod on the hub, with its service account."""
        return cls.from_config(in_cluster_config(), api=api)

    def __repr__(self) -> str:
        return f"Gateway({self.hub_url})"

    @property
    def hub_url(self) -> str:
        return str(self._cluster["server"])

    @property
    def hub_kubeconfig(self) -> dict[str, Any]:
        """The hub's own kubeconfig, with the caller's credentials."""
        return deepcopy(self._document)

    def base_url(self, cluster: str) -> str:
        return gateway_base_url(self.hub_url, cluster, self.api)

    # Kubeconfigs -------------------------------------------------------------------------------------------------------------

    def kubeconfig_for(self, cluster: str, *, namespace: str = "") -> dict[str, Any]:
        """A kubeconfig for one cluster; its context has the cluster's name."""
        return self.kubeconfig([cluster], namespace=namespace)

    def kubeconfig(self, clusters: Sequence[str], *, prefix: str = "", namespace: str = "") -> dict[str, Any]:
        """A kubeconfig with one context for each cluster; the first one is current. All use the hub's user; `prefix` is prepended
        to the names of contexts and clusters. The namespace of the hub's context is not copied."""
        document = self.hub_kubeconfig
        user = document["contexts"][0]["context"].get("user")
        rest = {"user": user} if user else {}
        rest |= {"namespace": namespace} if namespace else {}
        names = {prefix + require_cluster_name(one): one for one in clusters}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {**self._cluster, "server": self.base_url(one)}} for name, one in names.items()],
            "users": document["users"],
            "contexts": [{"name": name, "context": {"cluster": name, **rest}} for name in names],
            "current-context": next(iter(names), ""),
        }

    def config_for(self, cluster: str) -> ClientConfig:
        """The configuration for Muster's own clients."""
        return parse_kubeconfig(yaml.dump(self.kubeconfig_for(cluster)))

    @property
    def _hub_config(self) -> ClientConfig:
        return parse_kubeconfig(yaml.dump(self._document))

    # Clients -----------------------------------------------------------------------------------------------------------------

    def client(self, cluster: str) -> HttpClient:
        """Muster's asynchronous client."""
        return HttpClient(self.config_for(cluster))

    def kubernetes(self, cluster: str) -> ApiClient:
        """For `CoreV1Api(…)` and all other APIs of the package `kubernetes`."""
        return library("kubernetes.config").new_client_from_config_dict(self.kubeconfig_for(cluster), persist_config=False)

    async def kubernetes_aio(self, cluster: str) -> AioApiClient:
        """For the APIs of `kubernetes.aio`, part of the package `kubernetes` since version 37."""
        return await library("kubernetes.aio.config").new_client_from_config_dict(self.kubeconfig_for(cluster))

    async def kubernetes_asyncio(self, cluster: str) -> AsyncioApiClient:
        """For the APIs of the package `kubernetes_asyncio`."""
        return await library("kubernetes_asyncio.config").new_client_from_config_dict(self.kubeconfig_for(cluster))

    def dynamic(self, cluster: str) -> DynamicClient:
        """A dynamic client; it starts discovery at once."""
        return library("kubernetes.dynamic").DynamicClient(self.kubernetes(cluster))

    def kr8s(self, cluster: str) -> Kr8sApi:
        return library("kr8s").api(kubeconfig=self.kubeconfig_for(cluster))

    async def kr8s_async(self, cluster: str) -> AsyncKr8sApi:
        return await library("kr8s.asyncio").api(kubeconfig=self.kubeconfig_for(cluster))

    def lightkube(self, cluster: str, **options: Any) -> LightkubeClient:
        """`options` are lightkube's."""
        config = library("lightkube.config.kubeconfig").KubeConfig.from_dict(self.kubeconfig_for(cluster))
        return library("lightkube").Client(config=config, **options)

    def lightkube_async(self, cluster: str, **options: Any) -> AsyncLightkubeClient:
        config = library("lightkube.config.kubeconfig").KubeConfig.from_dict(self.kubeconfig_for(cluster))
        return library("lightkube").AsyncClient(config=config, **options)

    # HTTP --------------------------------------------------------------------------------------------------------------------

    def route(self, cluster: str | None = None, *, fallback_to_hub: bool = False) -> Route:
        """The route to one cluster, or to the one of `using_cluster`."""
        return Route(self.hub_url, cluster, fallback_to_hub, self.api)

    def rest(self, cluster: str | None = None, *, fallback_to_hub: bool = False, module: Httpx = "httpx", **options: Any) -> Any:
        """An `httpx.Client` (or httpx2's) for plain requests: `rest("foo").get("/api/v1/namespaces")`. Without a cluster it uses
        the one of `using_cluster`."""
        made, identity = library(module), self._identity
        inner = made.HTTPTransport(verify=_verify(identity), proxy=identity.proxy, trust_env=False)
        return made.Client(**self._rest(made, identity, cluster, fallback_to_hub, inner, "transport"), **options)

    def rest_async(
        self, cluster: str | None = None, *, fallback_to_hub: bool = False, module: Httpx = "httpx", **options: Any
    ) -> Any:
        """An `httpx.AsyncClient` (or httpx2's), otherwise as `rest`."""
        made, identity = library(module), self._identity
        inner = made.AsyncHTTPTransport(verify=_verify(identity), proxy=identity.proxy, trust_env=False)
        return made.AsyncClient(**self._rest(made, identity, cluster, fallback_to_hub, inner, "async_transport"), **options)

    def _rest(self, made: Any, identity: HubIdentity, cluster: str | None, fallback: bool, inner: Any, kind: str) -> dict[str, Any]:
        common = {"auth": _family(made).auth(identity), "trust_env": False, "follow_redirects": False}
        route = self.route(cluster, fallback_to_hub=fallback)
        return {"base_url": self.hub_url, "transport": getattr(_family(made), kind)(route, inner), **common}

    def requests_session(self, cluster: str | None = None, *, fallback_to_hub: bool = False) -> Session:
        """A `requests.Session` with a single address: paths of a cluster behind the hub's."""
        from muster.gateway.client.transports.requests_adapter import adapters

        kinds, identity = adapters(), self._identity
        session: Session = library("requests").Session()
        session.trust_env, session.auth = False, kinds.auth(identity)
        session.proxies = {"http": identity.proxy, "https": identity.proxy} if identity.proxy else {}
        session.mount(f"{self.hub_url}/", kinds.gateway(self.route(cluster, fallback_to_hub=fallback_to_hub), kinds.tls(identity)))
        return session

    def aiohttp_session(self, cluster: str | None = None, *, fallback_to_hub: bool = False, **options: Any) -> ClientSession:
        """An `aiohttp.ClientSession`, to be created in a running loop: `session.get(gateway.hub_url + "/api/v1/namespaces")`."""
        from muster.gateway.client.transports.aiohttp_middleware import gateway_middleware, identity_middleware

        aiohttp, identity = library("aiohttp"), self._identity
        tls = identity.tls_blocking()
        connector = aiohttp.TCPConnector(ssl=True if tls is None else tls)
        middlewares = (identity_middleware(identity), gateway_middleware(self.route(cluster, fallback_to_hub=fallback_to_hub)))
        return aiohttp.ClientSession(connector=connector, middlewares=middlewares, proxy=identity.proxy, **options)  # type: ignore[no-any-return]

    @property
    def _identity(self) -> HubIdentity:
        return HubIdentity(self._hub_config)

    def httpx_transport(
        self, cluster: str | None = None, inner: Any = None, *, fallback_to_hub: bool = False, module: Httpx = "httpx"
    ) -> Any:
        """A transport for your own client with requests for the hub; `inner` sends them."""
        return _family(library(module)).transport(self.route(cluster, fallback_to_hub=fallback_to_hub), inner)

    def async_httpx_transport(
        self, cluster: str | None = None, inner: Any = None, *, fallback_to_hub: bool = False, module: Httpx = "httpx"
    ) -> Any:
        return _family(library(module)).async_transport(self.route(cluster, fallback_to_hub=fallback_to_hub), inner)

    def requests_adapter(self, cluster: str | None = None, inner: Any = None, *, fallback_to_hub: bool = False) -> Any:
        """To be mounted at the hub's address in your own session; `inner` is the adapter that sends."""
        from muster.gateway.client.transports.requests_adapter import adapters

        return adapters().gateway(self.route(cluster, fallback_to_hub=fallback_to_hub), inner)

    def aiohttp_middleware(self, cluster: str | None = None, *, fallback_to_hub: bool = False) -> Middleware:
        """For your own session, as its last middleware."""
        from muster.gateway.client.transports.aiohttp_middleware import gateway_middleware

        return gateway_middleware(self.route(cluster, fallback_to_hub=fallback_to_hub))

    # Many clusters, and errors ------------------------------------------------------------------------------------------------

    def fanout(
        self,
        clusters: Iterable[str],
        ask: Callable[[str], Awaitable[T]],
        *,
        limit: int = CLUSTERS_AT_ONCE,
        timeout: float | None = None,
    ) -> AsyncGenerator[ClusterResult[T], None]:
        """See `muster.gateway.client.fanout`."""
        return fanout(clusters, ask, limit=limit, timeout=timeout, api=self.api)

    def fanout_threads(
        self, clusters: Iterable[str], ask: Callable[[str], T], *, limit: int = CLUSTERS_AT_ONCE, timeout: float | None = None
    ) -> Iterator[ClusterResult[T]]:
        return fanout_threads(clusters, ask, limit=limit, timeout=timeout, api=self.api)

    def blame(self, cluster: str, error: BaseException) -> errors.GatewayError | None:
        """Classifies an error that a client library raised: see `muster.gateway.client.errors.blame`."""
        return errors.blame(cluster, error, self.api)

    def blaming(self, cluster: str) -> AbstractContextManager[None]:
        """Converts refusals in the block to a GatewayError."""
        return errors.blaming(cluster, self.api)


def _family(module: Any) -> Family:
    from muster.gateway.client.transports.httpx_family import family

    return family(module)


def _verify(identity: HubIdentity) -> Any:
    tls = identity.tls_blocking()
    return True if tls is None else tls
