"""The addresses of the shared machine to which this node's pods may connect, computed for each connection.

These are the fleet's own API server, the addresses in the node's settings, ports on which a program of one of its pods listens (not
its other ports: a program of the machine that listens on all addresses would answer there), Services that the node relays, and what
the pod's Namespace allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from muster.fleet.attached import View
from muster.http.upstream import host_port
from muster.operator.pod_namespaces import MAY_DIAL, dialled, host_port_of
from muster.runtime.client.builtin import NAMESPACES


class LocalEndpoints:
    """The addresses on which programs of pods, and relays to them, listen."""

    def __init__(self) -> None:
        self._open: Counter[tuple[str, int]] = Counter()

    def opened(self, address: str, port: int) -> None:
        self._open[address, port] += 1

    def closed(self, address: str, port: int) -> None:
        self._open[address, port] -= 1
        if self._open[address, port] <= 0:
            del self._open[address, port]

    def vacated(self, address: str) -> None:
        """Forget an address whose pod was removed, including listeners that it did not close."""
        for one in [one for one in self._open if one[0] == address]:
            del self._open[one]

    def __contains__(self, endpoint: tuple[str, int]) -> bool:
        return endpoint in self._open


@dataclass(frozen=True, slots=True)
class PodNetwork:
    """The connections of one pod. `server` is the URL of its API server."""

    namespace: str
    view: View
    server: str
    local_endpoints: LocalEndpoints
    reachable: Collection[tuple[str, int]] = ()
    """Host and port of addresses that are open to every pod of the node."""

    def may_dial(self, name: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        wanted = {(name, port), (str(address), port)}
        if (
            (str(address), port) in self.local_endpoints
            or host_port_of(self.server) in wanted
            or not wanted.isdisjoint(self.reachable)
        ):
            return True
        return not wanted.isdisjoint(dialled(self.view.read(NAMESPACES, self.namespace)))

    def remedy(self, name: str, port: int) -> str:
        return f"kubectl annotate namespace {self.namespace} {MAY_DIAL}={host_port(name, port)}"

    def opened(self, address: str, port: int) -> None:
        self.local_endpoints.opened(address, port)

    def closed(self, address: str, port: int) -> None:
        self.local_endpoints.closed(address, port)
