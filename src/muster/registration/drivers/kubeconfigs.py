"""Hub endpoints that are kubeconfigs, and the base classes of drivers whose agents authenticate to a kube-apiserver.

A driver whose agents use the hub's own API server takes `KubeconfigDriver` and `KubeconfigSpoke` as bases and adds only what is its
own: the user entry of the kubeconfig, with relative file names, and how to get the content of these files.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from muster.api.resource import Document
from muster.kube import yaml
from muster.machinery.confinement import read, shown, sibling_path
from muster.registration.drivers.endpoints import ClientSettings, EndpointError, EndpointFormat, HubAddress
from muster.registration.drivers.interfaces import Driver
from muster.runtime.client import ClientConfig, HttpClient, KubeClient, KubeconfigError, load_kubeconfig

CONTEXT: Final = "default-context"
USER: Final = "default-auth"
NAMESPACE: Final = "configuration"


@dataclass(frozen=True)
class KubeconfigEndpoint:
    address: HubAddress
    url: str
    file: Path
    source: str

    def files(self) -> Mapping[str, Path]:
        config = self._config()
        named = {
            "certificate-authority": config.ca,
            "client-certificate": config.identity.cert,
            "client-key": config.identity.key,
            "tokenFile": config.identity.token_file,
        }
        return {field: path for field, path in named.items() if isinstance(path, Path)}

    def is_portable(self) -> bool:
        """Not if it has an exec plugin: the program is in the agent's image."""
        return self._config().identity.exec_plugin is None

    def connect(self, settings: ClientSettings) -> KubeClient:
        return HttpClient(
            self._config(),
            agent=settings.agent,
            metrics=settings.metrics,
            clock=settings.clock,
            random=settings.random,
            at_once=settings.at_once,
        )

    def _config(self) -> ClientConfig:
        try:
            return load_kubeconfig(self.file)
        except KubeconfigError as error:
            problem = ": ".join(part for part in (error.where, error.field, error.problem) if part)
            raise EndpointError(self.source, problem) from None


class KubeconfigFormat:
    name: Final = "kube"
    key: Final = "kubeconfig"

    def read(self, file: Path, content: bytes, source: str = "", siblings: Mapping[str, bytes] | None = None) -> KubeconfigEndpoint:
        """Only the current cluster is parsed; whether its user's files exist is checked when connecting."""
        source = source or shown(file)
        try:
            document = yaml.load(content)
        except yaml.YAMLError as error:
            raise EndpointError(source, str(error)) from None
        if not isinstance(document, dict):
            raise EndpointError(source, "not a kubeconfig: expected a map")
        current = str(document.get("current-context") or "")
        if not current:
            raise EndpointError(source, "current-context: not set")
        context = _entry(document, source, "contexts", "context", current)
        name = str(context.get("cluster") or "")
        cluster = _entry(document, source, "clusters", "cluster", name)
        url = str(cluster.get("server") or "")
        if not url.rstrip("/"):
            raise EndpointError(source, f"cluster {name!r}: server: not set")
        try:
            authority = _authority(cluster, file.parent, siblings or {})
        except EndpointError as error:
            raise EndpointError(source, f"cluster {name!r}: {error.problem}") from None
        proxy_url, tls_server_name = (str(cluster.get(field) or "") for field in ("proxy-url", "tls-server-name"))
        return KubeconfigEndpoint(HubAddress(name, url.rstrip("/"), authority, proxy_url, tls_server_name), url, file, source)


KUBECONFIGS: Final = KubeconfigFormat()


def _entry(document: Document, source: str, collection: str, kind: str, name: str) -> Document:
    for item in document.get(collection) or ():
        if isinstance(item, dict) and item.get("name") == name and isinstance(item.get(kind), dict):
            found: Document = item[kind]
            return found
    raise EndpointError(source, f"{collection}: no {kind} {name!r}")


def _authority(cluster: Document, base: Path, siblings: Mapping[str, bytes]) -> bytes:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    try:
        if data:
            return base64.b64decode(str(data), validate=True).strip()
        if not file:
            return b""
        return (siblings[str(file)] if str(file) in siblings else read(sibling_path(base, str(file)))).strip()
    except binascii.Error:
        raise EndpointError("", "certificate-authority-data: not valid base64") from None
    except OSError as error:
        raise EndpointError("", f"certificate-authority: {error.strerror or error}") from None


def hub_kubeconfig(address: HubAddress, user: Document) -> bytes:
    """The kubeconfig of the agent's own identity: the hub as configured, with relative file names."""
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


@lru_cache(maxsize=64)
def program_of(kubeconfig: bytes) -> tuple[str, ...] | None:
    """The command and arguments of the exec plugin in an agent's own kubeconfig; None if there is none."""
    try:
        program = yaml.load(kubeconfig)["users"][0]["user"]["exec"]
        command = (program["command"], *program["args"])
    except (yaml.YAMLError, LookupError, TypeError):
        return None
    return tuple(map(str, command))


class KubeconfigDriver(Driver):
    """Base of drivers whose agents reach the hub by a kubeconfig."""

    endpoints: EndpointFormat = KUBECONFIGS


class KubeconfigSpoke(ABC):
    """Base class of their spoke sides."""

    derived: bool = False
    """See `interfaces.is_derived`."""

    def decorate(self, cluster: Document) -> Document:
        return cluster

    @abstractmethod
    def kubeconfig_user(self) -> Document:
        """The user entry of the agent's own kubeconfig, with files named relative to it."""

    def way_to(self, hub: HubAddress) -> Mapping[str, bytes]:
        return {KUBECONFIGS.key: hub_kubeconfig(hub, self.kubeconfig_user())}
