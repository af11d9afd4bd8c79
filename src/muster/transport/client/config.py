"""The agent's configuration of a hub's gRPC server, in upstream's format: `config.yaml`; bootstrap files have the same format.

It has the hub's address (`url`, host and port), the CA (`caData`, `caFile`), and the credential: a certificate with its key
(`clientCertData`, `clientCertFile`, `clientKeyData`, `clientKeyFile`) or a bearer token (`token`, `tokenFile`). Data take
precedence over files; data are base64 of PEM. Three keys are ours: `urls`, a list of further addresses of the same hub (`url`
remains the one in records), and `proxyURL` with `proxyCAData`, the proxy for all of them and its CA. Unknown keys are ignored, as
upstream.

Stricter than upstream in one respect: without a credential there is no connection, where upstream would connect without TLS.
Nothing is connected here. Every error is a `ConfigError` with the file, the key and a remedy; secrets never appear in an error or a
`repr`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from muster.kube import yaml
from muster.machinery import confinement
from muster.machinery.golang.durations import SECOND, format_duration, parse_duration
from muster.machinery.golang.errors import GoError
from muster.runtime.client import Material

DEFAULT_PORT: Final = 443
"""The default port of gRPC."""


class ConfigError(Exception):
    """`source` is the path for the administrator, `key` the entry in the file."""

    def __init__(self, source: str, key: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (source, key, problem) if part))
        self.source = source
        self.key = key
        self.problem = problem


@dataclass(frozen=True)
class KeepAlive:
    """Pings on an idle connection; times are in seconds."""

    enable: bool = False
    time: float = 30.0
    timeout: float = 10.0
    permit_without_stream: bool = False


@dataclass(frozen=True)
class ProxySettings:
    """An http or https proxy that is used by CONNECT; without a URL, the environment's proxy is used, if any."""

    url: str = field(default="", repr=False)
    """May contain a password."""
    ca: bytes | None = field(default=None, repr=False)
    """PEM; None: the system's CAs."""


NO_PROXY: Final = ProxySettings()


@dataclass(frozen=True)
class TransportConfig:
    url: str
    """As written in the file."""
    urls: tuple[str, ...] = ()
    """Further addresses of the same hub."""
    ca: Material | None = field(default=None, repr=False)
    cert: Material | None = field(default=None, repr=False)
    key: Material | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    keepalive: KeepAlive = KeepAlive()
    health_timeout: float | None = None
    """Seconds without a heartbeat after which a stream is dead; None if the file does not set it."""
    proxy: ProxySettings = NO_PROXY

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses, `url` first."""
        return tuple(dict.fromkeys((self.url, *self.urls)))


def load_config(path: Path) -> TransportConfig:
    """Raises ConfigError."""
    source = confinement.shown(path)
    try:
        text = confinement.read(path)
    except OSError as error:
        raise ConfigError(source, "", error.strerror or str(error)) from None
    return parse_config(text, source, path.parent)


def parse_config(text: bytes | str, source: str = "config.yaml", base: Path | None = None) -> TransportConfig:
    """Relative paths in it are resolved from the directory `base`. Raises ConfigError."""
    try:
        document = yaml.load(text)
    except yaml.YAMLError as error:
        raise ConfigError(source, "", str(error)) from None
    if not isinstance(document, dict):
        raise ConfigError(source, "", "not a gRPC configuration: expected a map with the key url")
    return _Reader(source, document, base or Path()).config()


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, `[address]:port` or `host`. Raises ValueError."""
    host, separator, port = address.removeprefix("dns:///").rpartition(":")
    if not separator or (":" in host and not host.startswith("[")) or host.count("[") != host.count("]"):
        host, port = address.removeprefix("dns:///"), ""
    host = host.removeprefix("[").removesuffix("]")
    if not host or any(mark in host for mark in "/@?# \t[]"):
        raise ValueError("expected host:port")
    if not port:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise ValueError(f"{port!r} is no port")
    return host, int(port)


@dataclass(frozen=True)
class _Reader:
    source: str
    values: Mapping[str, Any]
    base: Path
    prefix: str = ""

    def config(self) -> TransportConfig:
        config = TransportConfig(
            self._address("url"),
            self._addresses("urls"),
            self._material("ca"),
            self._material("clientCert"),
            self._material("clientKey"),
            self._text("token").strip(),
            self._file("tokenFile"),
            self._keepalive(),
            self._duration("serverHealthinessTimeout"),
            self._proxy(),
        )
        if (config.cert is None) != (config.key is None):
            missing = "clientCertFile" if config.cert is None else "clientKeyFile"
            raise self._error(missing, "not set; a client certificate and its key are given together or not at all")
        has_token = bool(config.token) or config.token_file is not None
        if has_token and config.ca is None:
            raise self._error("caFile", "not set; a token is only shown to a server that caFile or caData vouches for")
        if not has_token and config.cert is None:
            problem = "not set, nor is clientCertFile; give a token or a client certificate"
            raise self._error("token", problem)
        return config

    def _error(self, key: str, problem: str) -> ConfigError:
        return ConfigError(self.source, self.prefix + key, problem)

    def _text(self, key: str) -> str:
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._error(key, "must be a string")
        return value

    def _checked(self, key: str, address: str) -> str:
        try:
            host_and_port(address)
        except ValueError as error:
            raise self._error(key, f"{address!r} leads nowhere: {error}") from None
        return address

    def _address(self, key: str) -> str:
        address = self._text(key)
        if not address:
            raise self._error(key, "not set; give the gRPC server's address as host:port")
        return self._checked(key, address)

    def _addresses(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self._error(key, "must be a list of addresses, host:port each")
        return tuple(self._checked(key, item) for item in value)

    def _file(self, key: str) -> Path | None:
        value = self._text(key)
        try:
            return confinement.own(confinement.sibling_path(self.base, value)) if value else None
        except OSError as error:
            raise self._error(key, error.strerror or str(error)) from None

    def _material(self, name: str) -> Material | None:
        data = self._text(f"{name}Data")
        return self._decoded(f"{name}Data", data) if data else self._file(f"{name}File")

    def _decoded(self, key: str, data: str) -> bytes:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise self._error(key, "not valid base64; it is the base64 of PEM") from None

    def _proxy(self) -> ProxySettings:
        url, ca = self._text("proxyURL"), self._text("proxyCAData")
        if url and not _is_proxy(url):
            # It may contain a password, and is not repeated.
            raise self._error("proxyURL", "expected the http or https URL of a proxy")
        if ca and not url:
            raise self._error("proxyCAData", "set without proxyURL; give both, or only the URL")
        return ProxySettings(url, self._decoded("proxyCAData", ca) if ca else None)

    def _keepalive(self) -> KeepAlive:
        value = self.values.get("keepAliveConfig")
        if value is None:
            return KeepAlive()
        if not isinstance(value, dict):
            raise self._error("keepAliveConfig", "must be a map")
        inner, default = _Reader(self.source, value, self.base, "keepAliveConfig."), KeepAlive()
        return KeepAlive(
            inner._flag("enable"),
            inner._duration("time") or default.time,
            inner._duration("timeout") or default.timeout,
            inner._flag("permitWithoutStream"),
        )

    def _flag(self, key: str) -> bool:
        value = self.values.get(key)
        if not isinstance(value, bool | None):
            raise self._error(key, "must be true or false")
        return bool(value)

    def _duration(self, key: str) -> float | None:
        """A Go duration: a text with units, or nanoseconds."""
        value = self.values.get(key)
        if value is None:
            return None
        try:
            nanoseconds = parse_duration(value) if isinstance(value, str) else value
        except GoError as error:
            raise self._error(key, str(error)) from None
        if not isinstance(nanoseconds, int) or isinstance(nanoseconds, bool):
            raise self._error(key, "must be a duration such as 30s")
        if nanoseconds <= 0:
            raise self._error(key, "must be greater than zero")
        return nanoseconds / SECOND


def _is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def dump_config(config: TransportConfig) -> bytes:
    """In upstream's format; files stay paths as in `config`, and bytes are written as data."""
    document: dict[str, Any] = {"url": config.url}
    if config.urls:
        document["urls"] = list(config.urls)
    for name, material in (("ca", config.ca), ("clientCert", config.cert), ("clientKey", config.key)):
        if isinstance(material, Path):
            document[f"{name}File"] = str(material)
        elif material is not None:
            document[f"{name}Data"] = base64.b64encode(material).decode()
    if config.token:
        document["token"] = config.token
    if config.token_file is not None:
        document["tokenFile"] = str(config.token_file)
    if config.keepalive != KeepAlive():
        document["keepAliveConfig"] = {
            "enable": config.keepalive.enable,
            "time": _go(config.keepalive.time),
            "timeout": _go(config.keepalive.timeout),
            "permitWithoutStream": config.keepalive.permit_without_stream,
        }
    if config.health_timeout is not None:
        document["serverHealthinessTimeout"] = _go(config.health_timeout)
    if config.proxy.url:
        document["proxyURL"] = config.proxy.url
    if config.proxy.ca is not None:
        document["proxyCAData"] = base64.b64encode(config.proxy.ca).decode()
    return yaml.dump(document).encode()


def _go(seconds: float) -> str:
    return format_duration(round(seconds * SECOND))
