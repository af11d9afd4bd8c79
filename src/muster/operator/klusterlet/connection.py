"""Checks whether the agents can work on the hub, by requests to the hub with the agents' own credential.

First the credential of the hub Secret is tried. If it does not work, the bootstrap kubeconfig is tried too, so that the reason,
"<bootstrap reason>,<hub reason>", shows which of the two needs attention. With several hubs, one working bootstrap kubeconfig is
sufficient. A credential that only the agent's own pod can produce (an exec plugin) is not tried, since the result would not be
about the agent: the condition is Unknown and refers to the ManagedCluster, unless the bootstrap kubeconfig shows that the hub does
not accept the cluster yet. The Klusterlet's driver knows the format of the hub configuration and the permissions to review.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.api import Condition
from muster.machinery.confinement import temporary_directory
from muster.operator.conditions import condition
from muster.operator.klusterlet.manifests import HUB_CONNECTION, HUB_KUBECONFIG_MISSING, HUB_SECRET_MISSING
from muster.operator.klusterlet.plan import KlusterletPlan
from muster.registration.agent.state.directory import mirror
from muster.registration.agent.state.hub_secret import CLUSTER_NAME
from muster.registration.drivers.endpoints import ClientSettings, EndpointError, EndpointFormat, HubEndpoint
from muster.registration.drivers.interfaces import Driver
from muster.registration.names import HUB_SECRET
from muster.runtime.client import KubeClient, KubeError

WITHIN: Final = 20.0
"""The timeout in seconds for a hub."""

HUB_REASONS: Final = ("HubKubeConfigError", "HubKubeConfigUnauthorized", "HubKubeConfigUnchecked")
AWAITED: Final = "ManagedClusterIncomplete"
"""An administrator has to act on the hub; the message has the action."""
BOOTSTRAP_REASONS: Final = ("BootstrapSecretError", "BootstrapSecretUnauthorized", "BootstrapSecretUnchecked")
"""The reasons for a kubeconfig that does not work, one that lacks permissions, and one that cannot be tried here."""

Contents = Mapping[str, bytes]
Open = Callable[[EndpointFormat, Contents, str, str], AbstractAsyncContextManager[KubeClient]]
"""A client for the hub configuration of a Secret, with its source for errors and a cluster name. Raises EndpointError."""
Probe = Callable[[KubeClient, str], Awaitable["Finding"]]
"""The hub's answer for a cluster."""


class ForeignCredential(Exception):
    """A hub configuration that only works in the agent's pod."""


@asynccontextmanager
async def open_secret(endpoints: EndpointFormat, contents: Contents, source: str, cluster: str = "") -> AsyncIterator[KubeClient]:
    """Raises EndpointError and ForeignCredential."""
    with temporary_directory("muster-hub-") as name:
        directory = Path(name)
        await asyncio.to_thread(mirror, directory, contents, endpoints.key)
        endpoint = endpoints.read(directory / endpoints.key, contents.get(endpoints.key, b""), source)
        if not endpoint.is_portable():
            raise ForeignCredential(endpoint.url)
        _refuse_foreign_files(endpoint, source, directory)
        client = endpoint.connect(ClientSettings("muster-operator", cluster=cluster))
        try:
            yield client
        finally:
            await client.close()


def _refuse_foreign_files(endpoint: HubEndpoint, source: str, directory: Path) -> None:
    """A configuration with paths of the operator's pod could send the operator's own token to any server."""
    for field, path in endpoint.files().items():
        if not path.resolve().is_relative_to(directory.resolve()):
            raise EndpointError(source, f"{field}: must be in the Secret itself, not in another file")


@dataclass(frozen=True)
class Finding:
    """`works` is None if that cannot be found out by the operator."""

    works: bool | None
    reason: str
    message: str


@dataclass(frozen=True)
class ConnectionCheck:
    """`read` returns a Secret of the agent namespace; None if it does not exist."""

    plan: KlusterletPlan
    read: Callable[[str], Contents | None]
    open: Open = open_secret

    async def run(self) -> Condition:
        hub = await self._hub()
        if hub.works:
            return condition(HUB_CONNECTION, False, hub.reason, hub.message)
        bootstrap = await self._bootstrap()
        if hub.works is None and bootstrap.reason != AWAITED:
            return condition(HUB_CONNECTION, None, hub.reason, hub.message)
        message = f"{bootstrap.message}\n{hub.message}"
        return condition(HUB_CONNECTION, True, f"{bootstrap.reason},{hub.reason}", message)

    @property
    def _endpoints(self) -> EndpointFormat:
        return self.plan.endpoints

    @property
    def _driver(self) -> Driver:
        return self.plan.driver

    def _cluster(self) -> str:
        """The cluster's name; empty until the agent has stored the one it generated."""
        stored = self.read(HUB_SECRET) or {}
        return self.plan.klusterlet.spec.cluster_name or stored.get(CLUSTER_NAME, b"").decode(errors="replace")

    def _source(self, secret: str) -> str:
        return f"Secret {self.plan.agent_namespace}/{secret}"

    async def _hub(self) -> Finding:
        where = self._source(HUB_SECRET)
        contents = self.read(HUB_SECRET)
        if contents is None:
            text = f"{where} is missing: on the hub, an administrator has to accept the cluster and its request"
            return Finding(False, HUB_SECRET_MISSING, text)
        if not contents.get(self._endpoints.key):
            text = f"{where} has no {self._endpoints.key}: the agent writes it whole, once the hub has given it a credential"
            return Finding(False, HUB_KUBECONFIG_MISSING, text)
        cluster = self._cluster()
        if not cluster:
            return Finding(False, "ClusterNameMissing", f"{where} has no {CLUSTER_NAME}, which the agent puts there")

        async def probe(hub: KubeClient, cluster: str) -> Finding:
            missing = await self._driver.missing_to_serve(hub, cluster)
            return _unpermitted(where, missing, HUB_REASONS) or Finding(True, "HubConnectionFunctional", f"{where} works")

        return await self._try(contents, where, probe, HUB_REASONS)

    async def _bootstrap(self) -> Finding:
        findings = [await self._bootstrap_by(secret) for secret in self.plan.bootstrap_secrets]
        return next((finding for finding in findings if finding.works is not False), findings[0])

    async def _bootstrap_by(self, secret: str) -> Finding:
        where = self._source(secret)
        contents = self.read(secret)
        if contents is None:
            return Finding(False, "BootstrapSecretMissing", f"{where} is missing")

        async def probe(hub: KubeClient, cluster: str) -> Finding:
            refused = _unpermitted(where, await self._driver.missing_to_register(hub, cluster), BOOTSTRAP_REASONS)
            if refused is not None:
                return refused
            awaited = await self._driver.awaits(hub, cluster, self.plan.registration) if cluster else ""
            return Finding(False, AWAITED, awaited) if awaited else Finding(True, "BootstrapSecretFunctional", f"{where} works")

        return await self._try(contents, where, probe, BOOTSTRAP_REASONS)

    async def _try(self, contents: Contents, where: str, probe: Probe, reasons: tuple[str, str, str]) -> Finding:
        failed, _, unchecked = reasons
        cluster = self._cluster()
        try:
            async with asyncio.timeout(WITHIN), self.open(self._endpoints, contents, where, cluster) as hub:
                return await probe(hub, cluster)
        except ForeignCredential as error:
            text = (
                f"{where} can be used by the agent only; whether it works on {error} is reported by the ManagedCluster's conditions"
            )
            return Finding(None, unchecked, text)
        except TimeoutError:
            return Finding(False, failed, f"{where}: no answer from the hub within {WITHIN:g} s")
        except EndpointError as error:
            return Finding(False, failed, f"{where}: {error.problem}")
        except (KubeError, OSError) as error:
            return Finding(False, failed, f"{where}: {error}")


def _unpermitted(where: str, missing: tuple[str, ...], reasons: tuple[str, str, str]) -> Finding | None:
    return Finding(False, reasons[1], f"{where}: the hub does not permit {', '.join(missing)}") if missing else None


def contents_of(secret: Mapping[str, object]) -> Contents:
    """The data of a Secret."""
    data = secret.get("data")
    if not isinstance(data, Mapping):
        return {}
    return {str(key): base64.b64decode(str(value)) for key, value in data.items()}
