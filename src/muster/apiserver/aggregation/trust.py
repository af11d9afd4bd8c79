"""The ConfigMaps in kube-system that publish the CAs by which others authenticate this API server, as kube-apiserver's controller
`clusterauthenticationtrust` does.

Aggregated API servers read extension-apiserver-authentication. webhook-client-authentication is ours: if it exists, calls to
webhooks present a client certificate of the CA in it. The objects of different clusters differ only in two CAs, so all clusters
share one template of each, which is filled in when it is read.
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
    """The stored template with the CAs of a cluster."""
    for placeholder, pem in ((_CLIENT_CA, keys.client_ca_pem), (_PROXY_CA, keys.proxy_ca_pem)):
        value = value.replace(orjson.dumps(placeholder), orjson.dumps(pem.decode()), 1)
    return value


def _json(text: str) -> str:
    return orjson.dumps([text]).decode()
