"""One aggregated API server: its address and TLS configuration, the identity that is presented to it, and its discovery.

It is named by a Service and must have a certificate for `name.namespace.svc`, verified with the caBundle unless the APIService sets
insecureSkipTLSVerify. This server presents a client certificate of the cluster's front-proxy CA and sends the user in headers; the
credentials of the user are never forwarded.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import orjson

from muster.apiserver.aggregation.openapi import RemoteOpenApi
from muster.apiserver.auth.access import Access
from muster.apiserver.cluster import Cluster
from muster.apiserver.service_resolver import ServiceResolver
from muster.apiserver.webhooks import client_context, go_error_text
from muster.http import UpstreamError, UpstreamPool
from muster.http.pool import UpstreamKey
from muster.http.tls import load_chain
from muster.http.upstream import AnswerHead, encode_request
from muster.kube.certificates import KeyPair
from muster.kube.identity_headers import to_header
from muster.machinery.authentication import MASTERS, UserInfo
from muster.machinery.logs import get_logger

log = get_logger(__name__)
PROXY_NAME: Final = "front-proxy-client"
CERTIFICATE_LIFETIME: Final = timedelta(days=365)
_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_PROBE_USER: Final = UserInfo("system:kube-aggregator", groups=(MASTERS,))
_OPENAPI_USER: Final = UserInfo("system:aggregator")
"""The user as which kube-apiserver fetches OpenAPI documents."""
_PROBE_TIMEOUT: Final = 5
_OPENAPI_TIMEOUT: Final = 15
_MAX_DISCOVERY: Final = 16 * 1024 * 1024
_HEADER_SAFE: Final = "!#$&'*+-.^_`|~"
Fields = list[tuple[str, str]]


class ProbeFailed(Exception):
    """The server did not answer discovery with success."""


class Remote:
    """The server of one APIService, as the object was last written."""

    def __init__(self, cluster: Cluster, api_service: Mapping[str, Any]) -> None:
        spec = api_service["spec"]
        self.name: str = api_service["metadata"]["name"]
        self.group: str = spec.get("group", "")
        self.version: str = spec["version"]
        self.priorities: tuple[int, int] = (spec.get("groupPriorityMinimum", 0), spec.get("versionPriority", 0))
        service = spec["service"]
        self.namespace: str = service["namespace"]
        self.service: str = service["name"]
        self.port: int = service.get("port") or 443
        self.spec: Mapping[str, Any] = spec
        self.available = False
        self.rows: list[dict[str, Any]] | None = None
        """Its resources in the form of aggregated discovery; None before the first successful discovery."""
        self.openapi = RemoteOpenApi(self.group, self.version)
        self._cluster = cluster
        self._insecure = bool(spec.get("insecureSkipTLSVerify"))
        self._bundle = base64.b64decode(spec.get("caBundle") or "")
        self._tls: ssl.SSLContext | None = None
        self._probe_tls: ssl.SSLContext | None = None
        self._renew_at = cluster.clock() + CERTIFICATE_LIFETIME / 2

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}"

    @property
    def server_name(self) -> str:
        return f"{self.service}.{self.namespace}.svc"

    def address(self) -> tuple[str, int]:
        """Raises LookupError."""
        return self._cluster.part(ServiceResolver).resolve(self.namespace, self.service, self.port)

    async def tls(self) -> ssl.SSLContext:
        if self._cluster.clock() > self._renew_at:
            self._tls = self._probe_tls = None
            self._renew_at = self._cluster.clock() + CERTIFICATE_LIFETIME / 2
        if self._tls is None:
            self._tls = _unverified() if self._insecure else client_context(self._bundle)
            await self._load_client_certificate(self._tls)
        return self._tls

    async def _load_client_certificate(self, context: ssl.SSLContext) -> None:
        now = self._cluster.clock()
        keys = await self._cluster.part(Access).key_store.keys(now)
        pair: KeyPair = keys.proxy_ca.issue(PROXY_NAME, now, CERTIFICATE_LIFETIME)
        await asyncio.to_thread(load_chain, context, pair.certificate, pair.key)

    async def probe(self, pool: UpstreamPool) -> None:
        """Check that the address answers discovery, without verifying its certificate (as kube-aggregator does), then read the
        resources from the verified server. Raises ProbeFailed."""
        try:
            host, port = self.address()
        except LookupError as problem:
            raise ProbeFailed(str(problem)) from None
        url = f"https://{host}:{port}{self.root}"
        try:
            if self._probe_tls is None:
                self._probe_tls = _unverified()
                await self._load_client_certificate(self._probe_tls)
            status, _ = await self._get(pool, self._probe_tls, (host, port), self.root, "application/json")
        except (TimeoutError, ConnectionError) as problem:
            raise ProbeFailed(f'failing or missing response from {url}: Get "{url}": {problem}') from None
        if not 200 <= status < 300:
            raise ProbeFailed(f"failing or missing response from {url}: bad status from {url}: {status}")
        try:
            self.rows = await self._discover(pool, (host, port))
        except (TimeoutError, ConnectionError) as problem:
            log.warning(
                "discovery of an aggregated API server failed", cluster=self._cluster.name, name=self.name, problem=str(problem)
            )

    async def refresh_openapi(self, pool: UpstreamPool) -> bool:
        """Refresh the OpenAPI documents; return whether they have changed. A failure does not affect availability."""
        try:
            host_port, tls = self.address(), await self.tls()

            async def fetch(target: str, etag: str, max_size: int) -> tuple[int, str, bytes]:
                known = [("If-None-Match", etag)] if etag else []
                fields = [*known, *identity_fields(_OPENAPI_USER)]
                head, body = await self._exchange(pool, tls, host_port, target, "application/json", fields, max_size)
                return head.status, head.field("etag") or "", body

            async def run_in_worker(function: Callable[..., Any], *arguments: Any) -> Any:
                return await self._cluster.worker.run(_OPENAPI_USER.name, function, *arguments)

            async with asyncio.timeout(_OPENAPI_TIMEOUT):
                return await self.openapi.refresh(fetch, run_in_worker)
        except (LookupError, OSError) as problem:
            log.debug(
                "fetching OpenAPI documents of an aggregated API server failed",
                cluster=self._cluster.name,
                name=self.name,
                problem=str(problem),
            )
            return False

    async def _discover(self, pool: UpstreamPool, host_port: tuple[str, int]) -> list[dict[str, Any]]:
        tls = await self.tls()
        status, body = await self._get(pool, tls, host_port, "/apis", _AGGREGATED)
        rows = self._aggregated_rows(_decoded(body)) if status == 200 else None
        if rows is None:
            status, body = await self._get(pool, tls, host_port, self.root, "application/json")
            rows = _legacy_rows(body)
        return rows

    def _aggregated_rows(self, document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """The resources of the group version in an aggregated discovery document; None if it is not one."""
        if document.get("kind") != "APIGroupDiscoveryList":
            return None
        for group in document.get("items") or ():
            if (group.get("metadata") or {}).get("name") == self.group:
                for version in group.get("versions") or ():
                    if version.get("version") == self.version:
                        rows: list[dict[str, Any]] = version.get("resources") or []
                        return rows
        return None

    async def _get(
        self, pool: UpstreamPool, tls: ssl.SSLContext, host_port: tuple[str, int], path: str, accept: str
    ) -> tuple[int, bytes]:
        head, body = await self._exchange(pool, tls, host_port, path, accept, identity_fields(_PROBE_USER), _MAX_DISCOVERY)
        return head.status, body

    async def _exchange(
        self,
        pool: UpstreamPool,
        tls: ssl.SSLContext,
        host_port: tuple[str, int],
        path: str,
        accept: str,
        extra_fields: Fields,
        max_size: int,
    ) -> tuple[AnswerHead, bytes]:
        host, port = host_port
        key: UpstreamKey = (host, port, tls, self.server_name)
        fields = [("Host", f"{host}:{port}"), ("Accept", accept), ("User-Agent", "muster-apiserver"), *extra_fields]
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                connection = await pool.connect(key, _PROBE_TIMEOUT, fresh=True)
                try:
                    connection.exchange(encode_request("GET", path, fields), bodiless=False)
                    answer = await connection.answer()
                    body = await connection.whole_body(max_size)
                finally:
                    connection.abort()
        except UpstreamError as problem:
            raise ConnectionError(go_error_text(problem)) from None
        except TimeoutError:
            raise TimeoutError("context deadline exceeded (Client.Timeout exceeded while awaiting headers)") from None
        return answer, body


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def identity_fields(user: UserInfo) -> Fields:
    """The headers in which a front proxy sends the user."""
    fields = [("X-Remote-User", to_header(user.name))]
    if user.uid:
        fields.append(("X-Remote-Uid", to_header(user.uid)))
    fields += [("X-Remote-Group", to_header(group)) for group in user.groups]
    for key, values in user.extra.items():
        escaped = key.lower() if key.isascii() and key.isalnum() else quote(key, safe=_HEADER_SAFE).lower()
        fields += [(f"X-Remote-Extra-{escaped}", to_header(value)) for value in values]
    return fields


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _legacy_rows(body: bytes) -> list[dict[str, Any]]:
    """An APIResourceList, converted to the form of aggregated discovery."""
    rows: dict[str, dict[str, Any]] = {}
    entries = _decoded(body).get("resources") or ()
    for entry in (e for e in entries if "/" not in e.get("name", "/")):
        row = rows[entry["name"]] = {
            "resource": entry["name"],
            "responseKind": _kind(entry),
            "scope": "Namespaced" if entry.get("namespaced") else "Cluster",
            "singularResource": entry.get("singularName", ""),
            "verbs": entry.get("verbs") or [],
        }
        row |= {field: entry[field] for field in ("shortNames", "categories") if entry.get(field)}
    for entry in entries:
        plural, slash, sub = entry.get("name", "").partition("/")
        if slash:
            scope = "Namespaced" if entry.get("namespaced") else "Cluster"
            parent = rows.setdefault(plural, {"resource": plural, "scope": scope, "singularResource": "", "verbs": []})
            described = {"subresource": sub, "responseKind": _kind(entry), "verbs": entry.get("verbs") or []}
            parent.setdefault("subresources", []).append(described)
    return [{"responseKind": {"group": "", "version": "", "kind": ""}, **row} for row in rows.values()]


def _kind(entry: Mapping[str, Any]) -> dict[str, str]:
    return {"group": entry.get("group", ""), "version": entry.get("version", ""), "kind": entry.get("kind", "")}
