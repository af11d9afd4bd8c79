"""Checks before a hub is installed: is its address usable for agents, is its CA published for new clusters, does it sign
certificates?

A check returns warnings, which stop nothing, and errors, which do.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from muster.administration.dryrun import is_dry_run
from muster.administration.errors import AdministrationError
from muster.administration.hub.probe import WITHIN, Answer, probe_signing
from muster.administration.hubs import (
    CLUSTER_INFO,
    CLUSTERADM,
    MADE_BY,
    PUBLIC_NAMESPACE,
    HubAddress,
    cluster_info,
    has_cluster_info,
)
from muster.administration.progress import Progress
from muster.machinery.clock import SYSTEM, Clock
from muster.runtime.client import Forbidden, KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.install import apply_all

ALTERNATIVES: Final = "choose another driver (--registration-drivers) if clusters cannot get certificates"


@dataclass(frozen=True)
class Check:
    name: str
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        outcome = "Failed" if self.errors else "Passed"
        return f"Preflight check: {self.name} {outcome} with {len(self.warnings)} warnings and {len(self.errors)} errors"


async def run_checks(
    client: KubeClient,
    address: HubAddress,
    progress: Progress,
    *,
    signing: bool = True,
    same_machine: bool = False,
    probe_within: float = WITHIN,
    clock: Clock = SYSTEM,
) -> list[Check]:
    """Raises AdministrationError if one has errors.

    `signing`: whether clusters are to get certificates from this hub; `same_machine`: whether all of them are on the hub's machine.
    """
    checks = [check_address(address, same_machine=same_machine), await _cluster_info(client, address)]
    if signing and not is_dry_run(client):
        checks.append(await _signing(client, probe_within, clock))
    settle(checks, progress, "mend this, or go on without checks with --force")
    return checks


def settle(checks: Sequence[Check], progress: Progress, remedy: str = "") -> None:
    """Report the results. Raises AdministrationError with all errors."""
    for check in checks:
        progress.note(check.verdict)
        for warning in check.warnings:
            progress.warn(warning)
    failed = [error for check in checks for error in check.errors]
    if failed:
        raise AdministrationError("; ".join(failed), remedy)


def check_address(address: HubAddress, *, same_machine: bool = False) -> Check:
    parts = urlsplit(address.server)
    name, host = "HubApiServer check", parts.hostname or ""
    if parts.scheme != "https":
        return Check(name, errors=(f"the hub's address {address.server} is not https: tokens would be sent in the clear",))
    if _is_loopback(host) and not same_machine:
        return Check(name, (f"the hub's address {address.server} means something else on every machine but this one",))
    return Check(name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _cluster_info(client: KubeClient, address: HubAddress) -> Check:
    name = "cluster-info check"
    try:
        if not await has_cluster_info(client) or await _is_outdated(client, address):
            await apply_all(client, cluster_info(address), CLUSTERADM)
    except Forbidden as error:
        return Check(name, (f"cannot publish the hub's CA for joining clusters: {error}; join with --ca-file",))
    return Check(name)


async def _is_outdated(client: KubeClient, address: HubAddress) -> bool:
    """Whether `clusteradm` wrote the cluster-info and it has another address than the hub's: the hub has moved.

    Others' are not changed.
    """
    found = await client.get(CONFIG_MAPS, CLUSTER_INFO, PUBLIC_NAMESPACE)
    if (found["metadata"].get("labels") or {}).get(MADE_BY) != CLUSTERADM:
        return False
    (_, wanted), *_ = cluster_info(address)
    return bool(found.get("data") != wanted["data"])


async def _signing(client: KubeClient, within: float, clock: Clock) -> Check:
    found = await probe_signing(client, within=within, clock=clock)
    name = "CSR support check"
    if found.answer is Answer.ISSUED:
        return Check(name)
    if found.answer is Answer.UNKNOWN:
        return Check(name, (f"could not verify that this hub issues certificates: {found.detail}",))
    return Check(name, (f"this hub does not issue client certificates: {found.detail}; {ALTERNATIVES}",))
