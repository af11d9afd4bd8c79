"""Hub endpoints that are gRPC configurations: `config.yaml`, in upstream's format.

The same file is used before registration, with a token, and after it, with the agent's certificate. A hub is identified by its
exact `url` and by its certificate authority; other settings of the connection (further addresses, a proxy, keepalive, timeouts) are
copied, so that an agent's own file has those of its bootstrap file, and is written again when they change. The file has no name of
the hub: after a change of address or authority the agent checks whether the hub still knows it, and registers again if not.

The credential's two files are named by the directory in which other processes mount them, as upstream's agents need it. A reader of
the file in another directory, in a copy of the Secret, still uses the files beside it: the entries of that Secret are meant, never
the reader's own files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509

from muster.api.agents import parse_common_name
from muster.kube.certificates import common_name
from muster.machinery.confinement import read, shown
from muster.registration.drivers.certificates.profile import CERTIFICATE, KEY
from muster.registration.drivers.endpoints import ClientSettings, EndpointError, HubAddress
from muster.registration.drivers.flags import GRPC
from muster.runtime.client import KubeClient
from muster.transport.client.config import (
    NO_PROXY,
    ConfigError,
    KeepAlive,
    ProxySettings,
    TransportConfig,
    dump_config,
    parse_config,
)
from muster.transport.client.dialer import open_client

CONFIG: Final = "config.yaml"


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of a connection other than address, authority and identity."""

    urls: tuple[str, ...] = ()
    keepalive: KeepAlive = KeepAlive()
    health_timeout: float | None = None
    proxy: ProxySettings | None = None


_NONE: Final = Details()


@dataclass(frozen=True)
class GrpcEndpoint:
    address: HubAddress
    config: TransportConfig = field(repr=False)
    source: str

    @property
    def url(self) -> str:
        return self.config.url

    def files(self) -> Mapping[str, Path]:
        config = self.config
        named = {"caFile": config.ca, "clientCertFile": config.cert, "clientKeyFile": config.key, "tokenFile": config.token_file}
        return {key: path for key, path in named.items() if isinstance(path, Path)}

    def is_portable(self) -> bool:
        return True

    def connect(self, settings: ClientSettings) -> KubeClient:
        cluster = settings.cluster or self._certified_cluster()
        if not cluster:
            problem = "a gRPC connection is for one cluster, and this one has no name yet; set one, or wait for its agent"
            raise EndpointError(self.source, problem)
        return open_client(
            self.config,
            cluster,
            source=settings.source,
            agent=settings.agent,
            metrics=settings.metrics,
            clock=settings.clock,
            random=settings.random,
        )

    def _certified_cluster(self) -> str:
        """The cluster in the certificate's subject; empty without a certificate."""
        material = self.config.cert
        try:
            pem = read(material) if isinstance(material, Path) else material
            identity = parse_common_name(common_name(x509.load_pem_x509_certificate(pem).subject)) if pem else None
        except OSError as error:
            raise EndpointError(self.source, f"clientCertFile: {error.strerror or error}") from None
        except ValueError:
            raise EndpointError(self.source, "clientCertFile: not a certificate in PEM") from None
        return "" if identity is None else identity.cluster


class GrpcConfigFormat:
    name: Final = GRPC
    key: Final = CONFIG

    def read(self, file: Path, content: bytes, source: str = "", siblings: Mapping[str, bytes] | None = None) -> GrpcEndpoint:
        source = source or shown(file)
        try:
            config = _with_own_files(parse_config(content, source, file.parent), file.parent, siblings)
        except ConfigError as error:
            raise EndpointError(source, ": ".join(part for part in (error.key, error.problem) if part)) from None
        authority = _authority(config, file.parent, source, siblings or {})
        return GrpcEndpoint(HubAddress("", config.url, authority, details=_details(config)), config, source)


CONFIGS: Final = GrpcConfigFormat()


def hub_config(hub: HubAddress, directory: Path | None) -> bytes:
    """The configuration of the agent's own identity, with files in `directory`, or beside it if that is None."""
    details = msgspec.json.decode(hub.details, type=Details) if hub.details else _NONE
    location = Path() if directory is None else Path(shown(directory.absolute()))
    config = TransportConfig(
        hub.server,
        details.urls,
        hub.ca + b"\n" if hub.ca else None,
        location / CERTIFICATE,
        location / KEY,
        keepalive=details.keepalive,
        health_timeout=details.health_timeout,
        proxy=details.proxy or NO_PROXY,
    )
    return dump_config(config)


def _details(config: TransportConfig) -> bytes:
    details = Details(config.urls, config.keepalive, config.health_timeout, config.proxy if config.proxy.url else None)
    return b"" if details == _NONE else msgspec.json.encode(details)


def _with_own_files(config: TransportConfig, base: Path, siblings: Mapping[str, bytes] | None) -> TransportConfig:
    """Replace the paths of the credential's files by those beside the configuration."""

    def own(material: object, entry: str) -> bool:
        if not isinstance(material, Path) or material.name != entry:
            return False
        return entry in siblings if siblings is not None else (base / entry).is_file()

    if own(config.cert, CERTIFICATE) and own(config.key, KEY):
        return dataclasses.replace(config, cert=base / CERTIFICATE, key=base / KEY)
    return config


def _authority(config: TransportConfig, base: Path, source: str, siblings: Mapping[str, bytes]) -> bytes:
    """The content of the authority, wherever it is stored."""
    if config.ca is None or isinstance(config.ca, bytes):
        return (config.ca or b"").strip()
    if config.ca.parent == base and config.ca.name in siblings:
        return siblings[config.ca.name].strip()
    try:
        return read(config.ca).strip()
    except OSError as error:
        raise EndpointError(source, f"caFile: {error.strerror or error}") from None
