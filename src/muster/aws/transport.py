"""Sends requests to AWS: HTTPS by urllib3, a dependency of botocore, inside the confinement of the caller.

botocore's own transport uses proxies and CAs of the process's variables, reads certificates from files of the machine only, and
connects to any address of a name. For a pod of a local fleet none of these is right. Here they come from its environment, and
inside a confinement (`machinery/confinement`) the address is one that it permits.

Blocking, for threads: `send` returns a response or raises `NoAnswer`. Nothing is repeated.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import urllib3

from muster.aws.process_env import CA_BUNDLE, ProcessEnv
from muster.machinery import confinement

CONNECT_SECONDS: Final = 10.0
LONGEST_ANSWER: Final = 16 * 1024 * 1024
"""A page of a thousand roles with their policies is a tenth of it."""
POOLS: Final = 8


class NoAnswer(Exception):
    """Whether the request was executed is unknown. The text contains only the host of the request."""


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


class Transport:
    """`bundle` is a file with the CAs to trust if the environment has none."""

    def __init__(self, process_env: ProcessEnv, bundle: str, *, seconds: float, connections: int) -> None:
        self._surroundings = process_env
        self._seconds = seconds
        self._options = {
            "num_pools": POOLS,
            "maxsize": connections,
            "ssl_context": _trusting(process_env, bundle),
            "retries": False,
            "timeout": urllib3.Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds),
        }
        self._direct = urllib3.PoolManager(**self._options)  # type: ignore[arg-type]
        self._proxied: dict[str, urllib3.ProxyManager] = {}

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Raises NoAnswer."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        proxy = self._proxy(parts.scheme, host)
        try:
            if proxy:
                response = self._by(proxy).urlopen(
                    method, url, body=body, headers=dict(headers), redirect=False, preload_content=False
                )
            else:
                address = _dialled(host, port)
                named = {} if address == host else {"assert_hostname": host, "server_hostname": host}
                pool = self._direct.connection_from_host(address, port, parts.scheme, named if parts.scheme == "https" else None)
                sent = {"Host": parts.netloc.rpartition("@")[2], **headers}
                response = pool.urlopen(method, target, body=body, headers=sent, redirect=False, preload_content=False)
            content = response.read(LONGEST_ANSWER + 1)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise NoAnswer(f"{host}: {_message(error)}") from error
        if len(content) > LONGEST_ANSWER:
            response.close()
            raise NoAnswer(f"{host}: the answer is longer than {LONGEST_ANSWER} bytes")
        response.release_conn()
        return HttpAnswer(response.status, dict(response.headers), content)

    def close(self) -> None:
        for manager in (self._direct, *self._proxied.values()):
            manager.clear()

    def _proxy(self, scheme: str, host: str) -> str:
        environ = self._surroundings.environ
        variables = {name: environ.get(f"{name}_proxy") or environ.get(f"{name.upper()}_PROXY", "") for name in (scheme, "no")}
        return "" if not variables[scheme] or proxy_bypass_environment(host, variables) else variables[scheme]

    def _by(self, proxy: str) -> urllib3.ProxyManager:
        parts = urlsplit(proxy)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        address = _dialled(host, port)
        proxy_address = f"{parts.scheme}://{f'[{address}]' if ':' in address else address}:{port}"
        if proxy_address not in self._proxied:
            who = f"{parts.username}:{parts.password or ''}" if parts.username else None
            headers = urllib3.make_headers(proxy_basic_auth=who)
            named = {"proxy_assert_hostname": host} if parts.scheme == "https" and address != host else {}
            self._proxied[proxy_address] = urllib3.ProxyManager(proxy_address, proxy_headers=headers, **named, **self._options)  # type: ignore[arg-type]
        return self._proxied[proxy_address]


def _trusting(process_env: ProcessEnv, bundle: str) -> ssl.SSLContext:
    """Raises NoAnswer."""
    try:
        authority = process_env.authority().decode("ascii", errors="replace")
        context = ssl.create_default_context(cadata=authority) if authority else ssl.create_default_context(cafile=bundle)
    except (OSError, ValueError) as error:
        # ssl.SSLError is an OSError. The location of a pod's files is not revealed.
        problem = getattr(error, "strerror", "") or str(error)
        raise NoAnswer(f"{CA_BUNDLE}: {process_env.environ.get(CA_BUNDLE) or bundle}: {problem}") from error
    # Private CAs often lack the key identifiers that strict verification requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _dialled(host: str, port: int) -> str:
    """The address to connect to: the name itself, or inside a confinement a permitted address of it. Raises OSError."""
    if confinement.current() is None:
        return host
    try:
        confinement.check_dial(host, str(ip_address(host)), port)
        return host
    except ValueError:
        pass
    refusal: OSError | None = None
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            confinement.check_dial(host, str(address[0]), port)
            return str(address[0])
        except OSError as error:
            refusal = error
    raise refusal or OSError(f"{host} has no address")


def _message(error: Exception) -> str:
    """Without URLs, which may be signed, and which urllib3 includes in some texts."""
    reason = getattr(error, "reason", None) if not isinstance(error, OSError) else error.strerror
    inner = getattr(reason, "reason", None) or reason
    return f"{type(error).__name__}: {inner}" if isinstance(inner, str) else type(error).__name__
