"""The ConfigMaps from which others learn by what they know the API server, in namespace kube-system.

Remote API servers read extension-apiserver-authentication. Webhooks read webhook-client-authentication, which is ours: where it is,
whoever calls a webhook shows a certificate of that CA. Their texts differ between clusters only by two CAs, so all share one
template of each, filled in when a cluster shows it.
"""

from __future__ import annotations

from typing import Final

import orjson

from muster.apiserver.aggregation.remote import PROXY_NAME
from muster.apiserver.auth.cluster_keys import ClusterKeys
from muster.apiserver.auth.webhook_identity import WEBHOOK_CLIENT
from muster.machinery.objects import Object

NAMESPACE: Final = "kube-system"
EXTENSIONS: Final = "extension-apiserver-authentication"
WEBHOOKS: Final = "webhook-client-authentication"
KEYS: Final = frozenset((f"{NAMESPACE}/{EXTENSIONS}", f"{NAMESPACE}/{WEBHOOKS}"))
_CLIENT_CA, _PROXY_CA = "@client-ca@", "@front-proxy-ca@"


def trust_templates() -> list[Object]:
    return [
        _config_map(
            EXTENSIONS,
            {
                "client-ca-file": _CLIENT_CA,
                "requestheader-allowed-names": _json(PROXY_NAME),
                "requestheader-client-ca-file": _PROXY_CA,
                "requestheader-extra-headers-prefix": _json("X-Remote-Extra-"),
                "requestheader-group-headers": _json("X-Remote-Group"),
                "requestheader-uid-headers": _json("X-Remote-Uid"),
                "requestheader-username-headers": _json("X-Remote-User"),
            },
        ),
        _config_map(WEBHOOKS, {"client-ca-file": _PROXY_CA, "allowed-names": _json(WEBHOOK_CLIENT)}),
    ]


def _config_map(name: str, data: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def filled(value: bytes, keys: ClusterKeys) -> bytes:
    """The stored template with a cluster's own CAs."""
    for mark, pem in ((_CLIENT_CA, keys.client_ca_pem), (_PROXY_CA, keys.proxy_ca_pem)):
        value = value.replace(orjson.dumps(mark), orjson.dumps(pem.decode()), 1)
    return value


def _json(text: str) -> str:
    return orjson.dumps([text]).decode()
