"""Which hub a kubeconfig speaks of, and the kubeconfig that the agent makes for itself from the one it was given.

Two kubeconfigs mean the same hub when their current cluster has the same name, server, proxy and certificate authority. The name
counts because a hub may be rebuilt behind the same address and certificate: then it signs with other keys, and whoever changed the
name in the bootstrap kubeconfig says so. The authority counts by its content, wherever it is kept.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from muster.api.resource import Document
from muster.kube import yaml
from muster.machinery.confinement import beside, read
from muster.runtime.client.kubeconfig import KubeconfigError

CONTEXT = "default-context"
USER = "default-auth"
NAMESPACE = "configuration"


@dataclass(frozen=True)
class HubAddress:
    name: str
    """What the kubeconfig calls the hub."""
    server: str
    ca: bytes = field(default=b"", repr=False)
    proxy_url: str = ""
    tls_server_name: str = ""

    @property
    def fingerprint(self) -> str:
        """Equal for equal addresses, short, and nothing that a Secret's reader did not know."""
        parts = [self.name, self.server, self.proxy_url, self.tls_server_name, hashlib.sha256(self.ca).hexdigest()]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]

    @property
    def server_hash(self) -> str:
        """What labels on the managed cluster call this hub."""
        return hashlib.sha256(self.server.encode()).hexdigest()


def address_of(text: bytes, source: str, base: Path) -> HubAddress:
    """The current cluster of a kubeconfig; files in it are taken from `base`. Raises KubeconfigError."""
    try:
        document = yaml.load(text)
    except yaml.YAMLError as error:
        raise KubeconfigError(source, "", "", str(error)) from None
    if not isinstance(document, dict):
        raise KubeconfigError(source, "", "", "not a kubeconfig: expected a map")
    current = str(document.get("current-context") or "")
    context = _entry(document, source, "contexts", "context", current)
    name = str(context.get("cluster") or "")
    cluster = _entry(document, source, "clusters", "cluster", name)
    server = str(cluster.get("server") or "").rstrip("/")
    if not server:
        raise KubeconfigError(source, f"cluster {name!r}", "server", "not set")
    return HubAddress(
        name,
        server,
        _authority(cluster, source, name, base),
        str(cluster.get("proxy-url") or ""),
        str(cluster.get("tls-server-name") or ""),
    )


def _entry(document: Document, source: str, collection: str, kind: str, name: str) -> Document:
    for item in document.get(collection) or ():
        if isinstance(item, dict) and item.get("name") == name and isinstance(item.get(kind), dict):
            found: Document = item[kind]
            return found
    raise KubeconfigError(source, "", collection, f"no {kind} {name!r}")


def _authority(cluster: Document, source: str, name: str, base: Path) -> bytes:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    try:
        if data:
            return base64.b64decode(str(data), validate=True).strip()
        return read(beside(base, str(file))).strip() if file else b""
    except binascii.Error:
        raise KubeconfigError(source, f"cluster {name!r}", "certificate-authority-data", "not valid base64") from None
    except OSError as error:
        raise KubeconfigError(source, f"cluster {name!r}", "certificate-authority", error.strerror or str(error)) from None


def hub_kubeconfig(address: HubAddress, user: Document) -> bytes:
    """The kubeconfig of the agent's own identity: the hub as the bootstrap kubeconfig has it, files relative to itself."""
    cluster: dict[str, Any] = {"server": address.server}
    if address.ca:
        cluster["certificate-authority-data"] = base64.b64encode(address.ca + b"\n").decode()
    if address.proxy_url:
        cluster["proxy-url"] = address.proxy_url
    if address.tls_server_name:
        cluster["tls-server-name"] = address.tls_server_name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": address.name, "cluster": cluster}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": address.name, "namespace": NAMESPACE, "user": USER}}],
        "current-context": CONTEXT,
        "preferences": {},
        "users": [{"name": USER, "user": user}],
    }
    return yaml.dump(document).encode()
