"""The ConfigMap from which remote API servers learn whom to trust: kube-system/extension-apiserver-authentication.

Its text differs between clusters only by their two CAs, so all share one template, filled in when a cluster shows it.
"""

from __future__ import annotations

from typing import Final

import orjson

from muster.apiserver.aggregation.remote import PROXY_NAME
from muster.apiserver.auth.vault import ClusterKeys
from muster.apiserver.registry.resource import Object

KEY: Final = "kube-system/extension-apiserver-authentication"
_CLIENT_CA, _PROXY_CA = "@client-ca@", "@front-proxy-ca@"


def trust_template() -> Object:
    namespace, _, name = KEY.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {
            "client-ca-file": _CLIENT_CA,
            "requestheader-allowed-names": _json(PROXY_NAME),
            "requestheader-client-ca-file": _PROXY_CA,
            "requestheader-extra-headers-prefix": _json("X-Remote-Extra-"),
            "requestheader-group-headers": _json("X-Remote-Group"),
            "requestheader-uid-headers": _json("X-Remote-Uid"),
            "requestheader-username-headers": _json("X-Remote-User"),
        },
    }


def filled(value: bytes, keys: ClusterKeys) -> bytes:
    """The stored template with a cluster's own CAs."""
    for mark, pem in ((_CLIENT_CA, keys.client_ca_pem), (_PROXY_CA, keys.proxy_ca_pem)):
        value = value.replace(orjson.dumps(mark), orjson.dumps(pem.decode()), 1)
    return value


def _json(text: str) -> str:
    return orjson.dumps([text]).decode()
