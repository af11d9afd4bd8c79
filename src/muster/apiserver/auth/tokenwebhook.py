"""Webhook token authentication: a TokenReview is posted to a configured endpoint, as kube-apiserver does with
`--authentication-token-webhook-config-file`. The caller caches answers for a short time; an endpoint that cannot be reached
authenticates nobody.

Each cluster may have its own endpoint (`TokenWebhooks`); then only that one is used for the tokens of this cluster, because a user
of one cluster is not necessarily a user of another.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from muster.http import UpstreamError, UpstreamPool
from muster.http.pool import UpstreamKey
from muster.http.upstream import encode_request
from muster.kube.yaml import YAMLError, load
from muster.machinery.authentication import UserInfo
from muster.machinery.logs import get_logger

log = get_logger(__name__)
_REQUEST_TIMEOUT = 10.0
_MAX_ANSWER = 1024 * 1024


class WebhookConfigError(ValueError):
    """The kubeconfig of the webhook is invalid; the text names the field and what is expected."""


@dataclass(slots=True)
class WebhookTarget:
    url: str
    tls: ssl.SSLContext | None


def load_webhook_config(path: Path) -> WebhookTarget:
    """Read the endpoint from a file in kubeconfig format."""
    try:
        document = load(path.read_bytes())
        cluster = document["clusters"][0]["cluster"]
        url = cluster["server"]
    except OSError as error:
        raise WebhookConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (YAMLError, KeyError, IndexError, TypeError):
        raise WebhookConfigError(f"{path}: expected a kubeconfig with clusters[0].cluster.server") from None
    if not str(url).startswith("https://") and not str(url).startswith("http://127.0.0.1"):
        raise WebhookConfigError(f"{path}: clusters[0].cluster.server must be an https:// address")
    tls = None
    if str(url).startswith("https://"):
        tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
        user = (document.get("users") or [{}])[0].get("user") or {}
        if user.get("client-certificate") and user.get("client-key"):
            tls.load_cert_chain(user["client-certificate"], user["client-key"])
    return WebhookTarget(str(url), tls)


class TokenWebhook:
    def __init__(self, target: WebhookTarget) -> None:
        parts = urlsplit(target.url)
        self._url = target.url
        self._path = parts.path or "/"
        if parts.query:
            self._path += f"?{parts.query}"
        self._fields = [
            ("Host", parts.netloc),
            ("User-Agent", "muster-apiserver"),
            ("Accept", "application/json"),
            ("Content-Type", "application/json"),
        ]
        self._key: UpstreamKey = (parts.hostname or "", parts.port or (443 if target.tls else 80), target.tls, None)
        self._pool: UpstreamPool | None = None

    async def __call__(self, token: str, audiences: Sequence[str]) -> tuple[UserInfo, list[str]] | None:
        if self._pool is None:
            self._pool = UpstreamPool()
        body = orjson.dumps(
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token, "audiences": list(audiences)},
            }
        )
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                request = encode_request("POST", self._path, self._fields, body)
                _, answer = await self._pool.request(self._key, request, timeout=_REQUEST_TIMEOUT, repeat=True, longest=_MAX_ANSWER)
            status = orjson.loads(answer).get("status") or {}
        except (UpstreamError, TimeoutError, ValueError, AttributeError) as problem:
            log.warning("token webhook failed", url=self._url, problem=repr(problem))
            return None
        return _identity(status, audiences)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


class TokenWebhooks:
    """The endpoints of clusters that have their own, and the default endpoint, if any, of all others."""

    def __init__(self, default: WebhookTarget | None = None, own: Mapping[str, WebhookTarget] | None = None) -> None:
        self._default = TokenWebhook(default) if default is not None else None
        self._own = {name: TokenWebhook(target) for name, target in (own or {}).items()}

    def of(self, cluster: str) -> Callable[[str, Sequence[str]], Awaitable[tuple[UserInfo, list[str]] | None]]:
        """An authenticator that uses the endpoint that the cluster has at the time of the call."""

        async def authenticate(token: str, audiences: Sequence[str]) -> tuple[UserInfo, list[str]] | None:
            webhook = self._own.get(cluster, self._default)
            return None if webhook is None else await webhook(token, audiences)

        return authenticate

    async def set(self, cluster: str, target: WebhookTarget | None) -> None:
        before = self._own.pop(cluster, None)
        if target is not None:
            self._own[cluster] = TokenWebhook(target)
        if before is not None:
            await before.close()

    async def close(self) -> None:
        for webhook in (*self._own.values(), self._default):
            if webhook is not None:
                await webhook.close()


def _identity(status: dict[str, Any], audiences: Sequence[str]) -> tuple[UserInfo, list[str]] | None:
    if status.get("authenticated") is not True:
        return None
    accepted = [a for a in status.get("audiences") or () if a in audiences] if audiences else []
    if audiences and not accepted:
        return None
    return UserInfo.decode(status.get("user") or {}), accepted
