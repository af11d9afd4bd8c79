"""Credentials that change while a client runs: files are read again when they change, plugins run again when their result expires.

`Credentials.headers()` and `Credentials.tls()` return what is valid now; the TLS context is a new one whenever its material
changes, so that connections of the former one can be closed. A changed file is detected by inode, size and times, which costs one
`stat` per request. While files are being replaced (certificate and key of different pairs, an empty token), the last valid material
remains in use.

The result of a plugin is kept until `expirationTimestamp`, or until the server answers 401. A plugin runs at most once at a time,
and is started in the background before the expiration, so that no request waits while the former result is valid. After a failure
it is not run for a while, with increasing delay; the same if the server refuses a fresh result too.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random as chance
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from muster.http.tls import HTTP_1_1, HTTP_2, client_context, load_chain
from muster.machinery import confinement
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.runtime.client.kubeconfig import ClientConfig, ExecPlugin, Material

log = get_logger("muster.runtime.client.credentials")

EXEC_PLUGIN_TIMEOUT = 60.0
RENEW_BEFORE_SHARE = 0.2
"""The share of the lifetime of a plugin's result that remains when the plugin is run again."""
MAX_RENEW_BEFORE = timedelta(minutes=5)
MIN_PLUGIN_RETRY_INTERVAL, MAX_PLUGIN_RETRY_INTERVAL = 1.0, 60.0
"""Seconds between two runs of a plugin that fails."""
_Stamp = tuple[int, int, int] | None


class CredentialError(Exception):
    """There is no usable credential; the message never contains one."""


@dataclass(frozen=True)
class ExecCredential:
    """The result of an exec plugin."""

    token: str = ""
    cert: bytes | None = None
    key: bytes | None = None
    expires: datetime | None = None


class ReloadedFile:
    """The content of a file, read again only when the file has changed."""

    def __init__(self, material: Material) -> None:
        self._path = material if isinstance(material, Path) else None
        self._content = material if isinstance(material, bytes) else b""
        self._stamp: _Stamp = None

    def read(self) -> bytes:
        if self._path is None:
            return self._content
        stamp = stamp_of(self._path)
        if stamp is not None and stamp != self._stamp:
            content = _content(self._path)
            if content.strip():
                self._content, self._stamp = content, stamp
        if not self._content:
            raise CredentialError(f"{confinement.shown(self._path)}: no such file, not readable or empty")
        return self._content


def _content(path: Path) -> bytes:
    try:
        return confinement.read(path)
    except confinement.Outside as error:
        raise CredentialError(f"{confinement.shown(path)}: {error.strerror}") from error
    except OSError as error:
        # It was readable before: it is being replaced.
        log.debug("cannot be read at present", path=str(path), error=error.strerror)
        return b""


def stamp_of(path: Path) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


_TlsMaterial = tuple[bytes | None, bytes | None, bytes | None]
"""CA, certificate and key."""


class Credentials:
    """The client credential and trusted CAs of one `ClientConfig`, always current."""

    def __init__(self, config: ClientConfig, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        identity = config.identity
        self._config = config
        self._clock = clock
        self._secure = urlsplit(config.server).scheme == "https"
        self._ca = ReloadedFile(config.ca) if config.ca is not None else None
        self._pair = (
            (ReloadedFile(identity.cert), ReloadedFile(identity.key))
            if identity.cert is not None and identity.key is not None
            else None
        )
        self._token_file = ReloadedFile(identity.token_file) if identity.token_file is not None else None
        self._plugin = (
            ExecCredentialPlugin(config, identity.exec_plugin, clock, random) if identity.exec_plugin is not None else None
        )
        self._material: _TlsMaterial | None = None
        """The material that was read last."""
        self._loaded: _TlsMaterial = (None, None, None)
        """The material of the current TLS contexts."""
        self._tls: ssl.SSLContext | None = None
        self._shared_tls: ssl.SSLContext | None = None

    async def headers(self) -> list[tuple[str, str]]:
        identity = self._config.identity
        headers = list(identity.impersonate)
        token = identity.token
        if self._token_file is not None:
            token = self._token_file.read().decode("ascii", errors="replace").strip()
        if self._plugin is not None:
            token = (await self._plugin.credential()).token
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
        elif identity.username:
            pair = base64.b64encode(f"{identity.username}:{identity.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {pair}"))
        return headers

    async def tls(self) -> ssl.SSLContext | None:
        """The current TLS context: the same one as long as its material is the same. None for plain http."""
        if not self._secure:
            return None
        issued = ExecCredential() if self._plugin is None else await self._plugin.credential()
        cert, key = issued.cert, issued.key
        if cert is None and self._pair is not None:
            cert, key = self._pair[0].read(), self._pair[1].read()
        material = (self._ca.read() if self._ca else None, cert, key)
        if self._tls is None or material != self._material:
            try:
                self._tls, self._shared_tls, self._loaded = self._context(*material), None, material
            except (ssl.SSLError, ValueError) as error:
                if self._tls is None:
                    raise CredentialError(f"unusable certificate, key or CA for {self._config.server}: {error}") from error
                log.warning("new TLS material is unusable so far; keeping the old", server=self._config.server, error=str(error))
            self._material = material
        return self._tls

    async def shared_tls(self) -> ssl.SSLContext | None:
        """As `tls`, for connections that offer HTTP/2."""
        if await self.tls() is not None and self._shared_tls is None:
            self._shared_tls = self._context(*self._loaded)
            self._shared_tls.set_alpn_protocols([HTTP_2, HTTP_1_1])
        return self._shared_tls

    def refused(self) -> bool:
        """The server answered 401: whether a retry may succeed, because a fresh credential is available."""
        return self._plugin is not None and self._plugin.refused()

    async def close(self) -> None:
        if self._plugin is not None:
            await self._plugin.close()

    def _context(self, ca: bytes | None, cert: bytes | None, key: bytes | None) -> ssl.SSLContext:
        context = client_context(ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols([HTTP_1_1])
        # CAs of Kubernetes often lack the key identifiers that strict verification requires.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self._config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if cert is not None and key is not None:
            load_chain(context, cert, key)
        return context


class ExecCredentialPlugin:
    """The credential of one exec plugin, which is run when necessary."""

    def __init__(self, config: ClientConfig, plugin: ExecPlugin, clock: Clock, random: Random) -> None:
        self._config = config
        self._program = plugin
        self._clock = clock
        self._backoff = Backoff(MIN_PLUGIN_RETRY_INTERVAL, MAX_PLUGIN_RETRY_INTERVAL, random=random)
        self._running = asyncio.Lock()
        self._held: ExecCredential | None = None
        self._ahead = timedelta()
        self._is_refused = False
        self._not_before = 0.0
        self._failure = ""
        self._renewal: asyncio.Task[None] | None = None

    async def credential(self) -> ExecCredential:
        """Raises CredentialError."""
        held = self._good
        if held is None:
            return await self._fresh()
        if self._is_due(held) and self._may_run and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.create_task(self._renew())
        return held

    def refused(self) -> bool:
        """The current credential was refused. False if another one was obtained, or could not be obtained, a moment ago."""
        if not self._may_run:
            return False
        self._is_refused = True
        self._not_before = self._clock.monotonic() + self._backoff.next()
        return True

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    @property
    def _good(self) -> ExecCredential | None:
        held = self._held
        if held is None or self._is_refused:
            return None
        return held if held.expires is None or held.expires > self._clock.now() else None

    def _is_due(self, held: ExecCredential) -> bool:
        return held.expires is not None and held.expires - self._ahead <= self._clock.now()

    @property
    def _may_run(self) -> bool:
        return self._clock.monotonic() >= self._not_before

    async def _fresh(self) -> ExecCredential:
        async with self._running:
            held = self._good
            if held is not None:
                return held
            if self._failure and not self._may_run:
                raise CredentialError(self._failure)
            return await self._run()

    async def _renew(self) -> None:
        """Run the plugin in the background while the credential is still valid."""
        async with self._running:
            held = self._good
            if held is not None and not self._is_due(held):
                return
            try:
                await self._run()
            except CredentialError as error:
                write = log.warning if self._backoff.failures == 1 else log.debug
                write("cannot renew the credential yet", server=self._config.server, error=str(error))

    async def _run(self) -> ExecCredential:
        refused = self._is_refused
        try:
            issued = _issued(self._program, await _run(self._program, self._config))
        except CredentialError as error:
            self._failure = str(error)
            self._not_before = self._clock.monotonic() + self._backoff.next()
            raise
        self._held, self._failure, self._is_refused = issued, "", False
        if not refused:
            # After a refusal only the next response shows whether the new credential is accepted.
            self._backoff.reset()
        if issued.expires is not None:
            self._ahead = min(max(issued.expires - self._clock.now(), timedelta()) * RENEW_BEFORE_SHARE, MAX_RENEW_BEFORE)
        return issued


async def _run(plugin: ExecPlugin, config: ClientConfig) -> bytes:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = _cluster_info(config)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environ = {**confinement.environ(), **plugin.env, "KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}
    pod = confinement.current()
    if pod is not None:
        return await _run_offered(pod, plugin, environ)
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environ,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise CredentialError(f"exec plugin {plugin.command}: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(EXEC_PLUGIN_TIMEOUT):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise CredentialError(f"exec plugin {plugin.command}: no answer within {EXEC_PLUGIN_TIMEOUT:.0f} s") from error
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        message = complaint.decode(errors="replace").strip()[-300:]
        raise CredentialError(f"exec plugin {plugin.command}: exit code {process.returncode}: {message}")
    return output


async def _run_offered(pod: confinement.Confinement, plugin: ExecPlugin, environ: Mapping[str, str]) -> bytes:
    program = _offered(pod, plugin)
    try:
        async with asyncio.timeout(EXEC_PLUGIN_TIMEOUT):
            return await program(plugin.args, environ)
    except TimeoutError as error:
        raise CredentialError(f"exec plugin {plugin.command}: no answer within {EXEC_PLUGIN_TIMEOUT:.0f} s") from error
    except confinement.ProgramFailed as error:
        raise CredentialError(f"exec plugin {plugin.command}: {error}") from error


def _offered(pod: confinement.Confinement, plugin: ExecPlugin) -> confinement.CredentialProgram:
    """The credential program that the node offers in place of a command."""
    offered = pod.plugins.get(plugin.command.rpartition("/")[2])
    if offered is None:
        known = f"only {', '.join(sorted(pod.plugins))}" if pod.plugins else "none"
        raise CredentialError(
            f"exec plugin {plugin.command}: a pod runs no programs of the machine, and its node offers {known}; "
            "give the kubeconfig a token or a client certificate instead"
        )
    return offered


def _cluster_info(config: ClientConfig) -> dict[str, Any]:
    info: dict[str, Any] = {"server": config.server}
    if config.ca is not None:
        info["certificate-authority-data"] = base64.b64encode(ReloadedFile(config.ca).read()).decode()
    optional = {
        "tls-server-name": config.tls_server_name,
        "insecure-skip-tls-verify": config.insecure,
        "proxy-url": config.proxy_url,
        "config": config.extensions.get("client.authentication.k8s.io/exec"),
    }
    return info | {name: value for name, value in optional.items() if value}


def _issued(plugin: ExecPlugin, output: bytes) -> ExecCredential:
    def refuse(problem: str) -> CredentialError:
        return CredentialError(f"exec plugin {plugin.command}: {problem}")

    try:
        answer = orjson.loads(output)
    except orjson.JSONDecodeError:
        raise refuse("its output is not JSON") from None
    if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
        raise refuse("its output is not an ExecCredential")
    if answer.get("apiVersion") != plugin.api_version:
        raise refuse(f"answered {answer.get('apiVersion')!r}, expected {plugin.api_version!r}")
    status = answer.get("status")
    if not isinstance(status, Mapping):
        raise refuse("its ExecCredential has no status")
    token, cert, key = (str(status.get(name) or "") for name in ("token", "clientCertificateData", "clientKeyData"))
    if bool(cert) != bool(key):
        raise refuse("clientCertificateData and clientKeyData must come together")
    if not token and not cert:
        raise refuse("neither token nor client certificate in its status")
    try:
        expires = datetime.fromisoformat(str(status["expirationTimestamp"])) if status.get("expirationTimestamp") else None
    except ValueError:
        raise refuse("expirationTimestamp is not an RFC 3339 time") from None
    if expires is not None and expires.tzinfo is None:
        raise refuse("expirationTimestamp has no time zone")
    return ExecCredential(token, cert.encode() or None, key.encode() or None, expires)
