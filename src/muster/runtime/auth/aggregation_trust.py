"""How a server behind the aggregator authenticates callers: ConfigMap kube-system/extension-apiserver-authentication.

kube-apiserver writes into it the CAs of client certificates, the CAs and allowed common names of front proxies, and the names of
the headers in which front proxies send the user. Only header names from the ConfigMap are accepted: a caller that could choose them
could choose its user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.kube.client_certificates import ClientAuthorities
from muster.kube.front_proxy import FrontProxyHeaders

NAMESPACE: Final = "kube-system"
CONFIG_MAP: Final = "extension-apiserver-authentication"
_CLIENT_CA: Final = "client-ca-file"
_PROXY_CA: Final = "requestheader-client-ca-file"
_NAMES: Final = "requestheader-allowed-names"
_USER: Final = "requestheader-username-headers"
_UID: Final = "requestheader-uid-headers"
_GROUP: Final = "requestheader-group-headers"
_EXTRA: Final = "requestheader-extra-headers-prefix"
_strings = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(frozen=True, slots=True)
class AggregationTrust:
    """CAs that are None accept no certificate."""

    clients: ClientAuthorities | None = None
    proxies: ClientAuthorities | None = None
    proxy_names: frozenset[str] = frozenset()
    """Common names that a front proxy may have; empty for any."""
    headers: FrontProxyHeaders = field(default_factory=FrontProxyHeaders)

    @property
    def authorities(self) -> bytes:
        """All CAs, PEM, for the TLS context."""
        return b"".join(known.pem for known in (self.proxies, self.clients) if known is not None)


def read_trust(data: Mapping[str, Any]) -> AggregationTrust:
    """Parse the `data` of the ConfigMap. ValueError names the key that cannot be read."""
    return AggregationTrust(
        _authorities(data, _CLIENT_CA),
        _authorities(data, _PROXY_CA),
        frozenset(_list(data, _NAMES)),
        FrontProxyHeaders(*(tuple(name.lower() for name in _list(data, key) if name) for key in (_USER, _UID, _GROUP, _EXTRA))),
    )


def _authorities(data: Mapping[str, Any], key: str) -> ClientAuthorities | None:
    pem = data.get(key)
    if not pem:
        return None
    try:
        return ClientAuthorities(str(pem).encode())
    except ValueError:
        raise ValueError(f"data[{key!r}] of ConfigMap {NAMESPACE}/{CONFIG_MAP}: expected certificates in PEM") from None


def _list(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    text = data.get(key)
    if not text:
        return ()
    try:
        return _strings(str(text)) or ()
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise ValueError(f"data[{key!r}] of ConfigMap {NAMESPACE}/{CONFIG_MAP}: expected a JSON list of strings") from None
