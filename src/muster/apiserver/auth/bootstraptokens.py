"""Bootstrap tokens: `id.secret` strings, kept in Secrets, with which a new cluster authenticates."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Sequence
from datetime import datetime

from muster.apiserver.auth.serviceaccounts import implicit_audiences
from muster.apiserver.cluster import Cluster
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object

SECRET_TYPE = "bootstrap.kubernetes.io/token"
SECRETS = "kube-system/bootstrap-token-"
"""Prefix of the keys of bootstrap token Secrets in the store."""
USER_PREFIX = "system:bootstrap:"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = "system:bootstrappers"
_EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokens:
    """Authenticates bootstrap tokens of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def __call__(self, token: str, audiences: Sequence[str]) -> tuple[UserInfo, list[str]] | None:
        parts, accepted = _TOKEN.fullmatch(token), implicit_audiences(audiences)
        if parts is None or accepted is None:
            return None
        identifier, secret = parts.groups()
        stored = self._cluster.secret("kube-system", f"bootstrap-token-{identifier}")
        if stored is None or stored.get("type") != SECRET_TYPE or stored["metadata"].get("deletionTimestamp"):
            return None
        data = decoded_data(stored)
        if not hmac.compare_digest(data.get("token-secret", "").encode(), secret.encode()) or data.get("token-id") != identifier:
            return None
        if data.get("usage-bootstrap-authentication") != "true" or is_expired(data, self._cluster.clock()):
            return None
        extra = [group.strip() for group in data.get("auth-extra-groups", "").split(",") if group.strip()]
        if not all(_EXTRA_GROUP.fullmatch(group) for group in extra):
            return None
        groups = (_GROUP, *sorted(set(extra)))
        return UserInfo(f"{USER_PREFIX}{identifier}", groups=groups), accepted


def decoded_data(secret: Object) -> dict[str, str]:
    """The data of a Secret as text, without values that are not UTF-8."""
    found = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            found[key] = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found


def is_expired(data: dict[str, str], now: datetime) -> bool:
    """Whether the `expiration` of a bootstrap token has passed or cannot be parsed."""
    text = data.get("expiration")
    if not text:
        return False
    try:
        return now >= datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return True
