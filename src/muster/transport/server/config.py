"""The server's configuration file, with the keys of OCM's server.

A missing file means the defaults. An unknown key is refused together with the list of known keys: a misspelt `client_ca_file` must
not change who is authenticated. Durations are Go's, ciphers have their IANA names and concern TLS 1.2 only, as in Go.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from muster.kube.yaml import YAMLError, load
from muster.machinery.confinement import read
from muster.machinery.golang.durations import parse_duration
from muster.machinery.golang.errors import GoError

MINIMUM_CERTIFICATE_WATCH: Final = 30.0
_SERVING: Final = "/var/run/secrets/hub/grpc/serving-cert"


class ConfigError(ValueError):
    """An invalid configuration; the text has the key and what is expected."""


@dataclass(frozen=True)
class GrpcServerConfig:
    """Names and defaults are OCM's. Times are in seconds, sizes in bytes."""

    tls_cert_file: str = f"{_SERVING}/tls.crt"
    tls_key_file: str = f"{_SERVING}/tls.key"
    client_ca_file: str = "/var/run/secrets/hub/grpc/ca/ca-bundle.crt"
    tls_min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    tls_max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    cipher_suites: tuple[str, ...] = ()
    """OpenSSL's names; empty: the library's default."""
    server_bind_port: int = 8090
    max_concurrent_streams: int | None = None
    """Per connection. None: the limit of our HTTP/2 server; OCM's server has none."""
    max_receive_message_size: int = 4 * 1024 * 1024
    max_send_message_size: int = (1 << 31) - 1
    connection_timeout: float = 120.0
    write_buffer_size: int = 32 * 1024
    """Has no effect, as `read_buffer_size`: connections are written and read once per iteration of the event loop."""
    read_buffer_size: int = 32 * 1024
    max_connection_age: float | None = None
    """None: unlimited."""
    client_min_ping_interval: float = 5.0
    server_ping_interval: float = 30.0
    server_ping_timeout: float = 10.0
    permit_ping_without_stream: bool = False
    cert_watch_interval: float = 60.0


_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_SUITES: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
_TLS13_SUITES: Final = frozenset(("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"))
"""Always enabled, as in Go: configuring them changes nothing."""


def read_config(path: Path) -> GrpcServerConfig:
    """Raises ConfigError, and OSError for an existing file that cannot be read."""
    try:
        content = read(path)
    except FileNotFoundError:
        return GrpcServerConfig()
    return parse_config(content)


def parse_config(content: bytes) -> GrpcServerConfig:
    """Raises ConfigError."""
    try:
        document = load(content.decode())
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"is not YAML: {error}") from None
    if document is None:
        return GrpcServerConfig()
    if not isinstance(document, dict):
        raise ConfigError('keys and values are expected, such as server_bind_port: "8090"')
    if unknown := sorted(set(document) - set(_READERS)):
        raise ConfigError(f"{', '.join(unknown)}: no such key; there are {', '.join(_READERS)}")
    config = GrpcServerConfig(**{key: _read_value(key, value) for key, value in document.items()})
    if config.tls_min_version > config.tls_max_version:
        raise ConfigError("tls_min_version is higher than tls_max_version")
    return config


def _read_value(key: str, value: Any) -> Any:
    try:
        return _READERS[key](value)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def tls_version(value: Any) -> ssl.TLSVersion:
    """Raises ValueError."""
    if value not in _VERSIONS:
        raise ValueError(f"{value!r} is not one of {', '.join(_VERSIONS)}")
    return _VERSIONS[value]


def cipher_suites(value: Any) -> tuple[str, ...]:
    """OpenSSL's names of the suites with these IANA names, joined by commas. Raises ValueError."""
    names = [name.strip() for name in _text(value).split(",") if name.strip()]
    if unknown := [name for name in names if name not in _SUITES and name not in _TLS13_SUITES]:
        raise ValueError(f"{', '.join(unknown)}: no such cipher suite; there are {', '.join((*_SUITES, *sorted(_TLS13_SUITES)))}")
    return tuple(_SUITES[name] for name in names if name in _SUITES)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _file(value: Any) -> str:
    if not _text(value):
        raise ValueError("the path of a file is expected")
    return str(value)


def _port(value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"{value!r} is not a port; 0 to 65535 are")
    return int(text)


def _number(least: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{value!r} is not a whole number from {least} on")
        return value

    return convert


def _seconds(least: float = 0.0) -> Callable[[Any], float]:
    def convert(value: Any) -> float:
        try:
            # Go reads a plain number as nanoseconds.
            found = (value if isinstance(value, int) and not isinstance(value, bool) else parse_duration(_text(value))) / 1e9
        except GoError as error:
            raise ValueError(f"{error}; write 30s or 1m30s") from None
        if found <= least:
            raise ValueError(f"{value!r} is too short; more than {least:g}s is expected")
        return found

    return convert


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "tls_cert_file": _file,
    "tls_key_file": _file,
    "client_ca_file": _file,
    "tls_min_version": tls_version,
    "tls_max_version": tls_version,
    "cipher_suites": cipher_suites,
    "server_bind_port": _port,
    "max_concurrent_streams": _number(1),
    "max_receive_message_size": _number(1),
    "max_send_message_size": _number(1),
    "connection_timeout": _seconds(),
    "write_buffer_size": _number(0),
    "read_buffer_size": _number(0),
    "max_connection_age": _seconds(),
    "client_min_ping_interval": _seconds(),
    "server_ping_interval": _seconds(),
    "server_ping_timeout": _seconds(),
    "permit_ping_without_stream": _yes_or_no,
    "cert_watch_interval": _seconds(MINIMUM_CERTIFICATE_WATCH),
}
assert set(_READERS) == {field.name for field in fields(GrpcServerConfig)}, "every key has a reader"
