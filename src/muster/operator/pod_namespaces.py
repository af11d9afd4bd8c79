"""The settings of a Namespace for pods that run as tasks of a Muster process: whether they run, and which local addresses they may
dial.

Users who create pods control all their fields, so the settings are on the Namespace, which only administrators write. The label
permits pods of Muster's image; `clusteradm` and the operators set it for their own pods, an administrator for others. The
annotation lists addresses (`host:port`, separated by commas) of the machine itself that its pods may dial besides their fleet: the
hub that the cluster was joined to, a proxy.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from muster.http.upstream import host_port
from muster.machinery.confinement import is_guarded
from muster.machinery.objects import Object
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import NAMESPACES

MAY_RUN: Final = "open-cluster-management.io/pods-may-run"
MAY_DIAL: Final = "open-cluster-management.io/pods-may-dial"
RUN: Final = {MAY_RUN: "true"}
"""The label."""

HostPort = tuple[str, int]
"""A name or an address, and a port."""


def may_run(namespace: Object | None) -> bool:
    return ((namespace or {}).get("metadata", {}).get("labels") or {}).get(MAY_RUN) == RUN[MAY_RUN]


def not_running(namespace: str) -> str:
    """The reason why a pod does not run, and what to do."""
    label = f"{MAY_RUN}={RUN[MAY_RUN]}"
    return f"pods of namespace {namespace} do not run on this node; to let them, kubectl label namespace {namespace} {label}"


def dialled(namespace: Object | None) -> frozenset[HostPort]:
    """The addresses that the annotation permits; unreadable ones are ignored."""
    text = ((namespace or {}).get("metadata", {}).get("annotations") or {}).get(MAY_DIAL) or ""
    return frozenset(found for found in map(_host_port, text.split(",")) if found is not None)


def host_port_of(url: str) -> HostPort | None:
    """Host and port of a URL or of a `host:port`; None if it has none."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port or (443 if parts.scheme == "https" else 80)) if host else None


def on_this_machine(urls: Iterable[str]) -> list[HostPort]:
    """Those of the addresses that pods may dial only with permission."""
    found = (host_port_of(url) for url in urls if url)
    return list(dict.fromkeys(one for one in found if one is not None and _needs_leave(one[0])))


async def allow(client: KubeClient, namespace: str, host_ports: Iterable[HostPort]) -> None:
    """Permit these addresses too for pods of a namespace. A missing namespace is ignored: it has no pods."""
    wanted = frozenset(host_ports)
    try:
        known = dialled(await client.get(NAMESPACES, namespace)) if wanted else wanted
    except NotFound:
        return
    if not wanted <= known:
        text = ",".join(sorted(host_port(*one) for one in wanted | known))
        await client.patch(NAMESPACES, namespace, {"metadata": {"annotations": {MAY_DIAL: text}}})


def _needs_leave(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return is_guarded(ip_address(host))
    except ValueError:
        return False


def _host_port(text: str) -> HostPort | None:
    return host_port_of(text.strip()) if text.rpartition(":")[2].strip().isdecimal() else None
