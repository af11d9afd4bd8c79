"""The proxy for servers whose kubeconfig has none: from the environment, by the rules of Go's `httpproxy`.

`HTTPS_PROXY` is for servers with TLS, `HTTP_PROXY` for others, and `NO_PROXY` lists the servers without proxy: `*`, addresses,
networks (`10.0.0.0/8`), domains with their subdomains (`example.com`) or only subdomains (`.example.com`, `*.example.com`), each
optionally with a port. Loopback addresses never use a proxy. Other entries are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from muster.runtime.client.errors import KubeError


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The proxy's address; empty if there is none. Raises KubeError for an unsupported one."""
    parts = urlsplit(server)
    name = f"{parts.scheme}_proxy"
    proxy = _either(environ, name)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not proxy or _direct((parts.hostname or "").removesuffix("."), port, _either(environ, "no_proxy")):
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https") or not urlsplit(proxy).hostname:
        raise KubeError(f"{name.upper()} in the environment: only http and https proxies are supported")
    return proxy


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _direct(host: str, port: int, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_covers(entry.strip().lower(), host, port) for entry in exceptions.split(","))


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        return address is not None and _within(address, entry)
    entry_host, only = _split(entry)
    if not entry_host or only not in ("", str(port)):
        return False
    if (excepted := _address(entry_host)) is not None:
        return excepted == address
    entry_host = entry_host.removeprefix("*") if entry_host.startswith("*.") else entry_host
    return host.endswith(entry_host if entry_host.startswith(".") else f".{entry_host}") or host == entry_host


def _split(entry: str) -> tuple[str, str]:
    """Host and port of an entry. An IPv6 address without brackets has no port."""
    if entry.startswith("["):
        entry_host, _, rest = entry[1:].partition("]")
        return entry_host, rest.removeprefix(":")
    if entry.count(":") > 1:
        return entry, ""
    entry_host, _, only = entry.partition(":")
    return entry_host, only


def _within(address: IPv4Address | IPv6Address, network: str) -> bool:
    try:
        return address in ip_network(network, strict=False)
    except ValueError:
        return False


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
