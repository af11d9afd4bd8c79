"""Cluster IPs and node ports of one logical cluster's Services.

What is taken is read from the stored Services; what was handed out in the last moments and may not be stored yet is remembered, so
that two creates at once do not get the same address. Nothing else is kept: after a restart the stored Services say it all.
"""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import Callable, Iterable
from typing import Final

from muster.apiserver.registry.resource import Object

_REMEMBERED_SECONDS: Final = 30.0
_TRIES: Final = 64


class ServiceAddresses:
    """Allocator over one CIDR and one port range. `services` lists the stored Services."""

    def __init__(
        self,
        services: Callable[[], Iterable[Object]],
        cidr: str = "10.0.0.0/16",
        ports: range = range(30000, 32768),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._services = services
        self._network = ipaddress.ip_network(cidr)
        self._ports = ports
        self._clock = clock
        self._recent: dict[str | int, tuple[str, float]] = {}

    def _taken(self) -> dict[str | int, str]:
        now = self._clock()
        self._recent = {key: held for key, held in self._recent.items() if now - held[1] < _REMEMBERED_SECONDS}
        taken = {key: owner for key, (owner, _) in self._recent.items()}
        for service in self._services():
            meta, spec = service["metadata"], service.get("spec") or {}
            owner = f"{meta.get('namespace', '')}/{meta['name']}"
            taken.update(dict.fromkeys(spec.get("clusterIPs") or (), owner))
            taken.update({port["nodePort"]: owner for port in spec.get("ports") or () if port.get("nodePort")})
        return taken

    def cluster_ip(self, wanted: str, owner: str) -> str:
        taken = self._taken()
        if wanted:
            if ipaddress.ip_address(wanted) not in self._network:
                known = f"The range of valid IPs is {self._network}"
                raise LookupError(f"the provided IP ({wanted}) is not in the valid range. {known}")
            if taken.get(wanted, owner) != owner:
                raise LookupError("provided IP is already allocated")
            return wanted
        free = self._free_ip(taken)
        self._recent[free] = (owner, self._clock())
        return free

    def _free_ip(self, taken: dict[str | int, str]) -> str:
        size = self._network.num_addresses
        for offset in [random.randrange(2, size - 1) for _ in range(_TRIES)]:
            candidate = str(self._network[offset])
            if candidate not in taken:
                return candidate
        for offset in range(2, size - 1):
            if str(self._network[offset]) not in taken:
                return str(self._network[offset])
        raise LookupError("range is full")

    def node_port(self, wanted: int, owner: str) -> int:
        taken = self._taken()
        if wanted:
            if wanted not in self._ports:
                known = f"The range of valid ports is {self._ports.start}-{self._ports.stop - 1}"
                raise LookupError(f"provided port is not in the valid range. {known}")
            if taken.get(wanted, owner) != owner:
                raise LookupError("provided port is already allocated")
            return wanted
        free = [port for port in self._ports if port not in taken]
        if not free:
            raise LookupError("range is full")
        port = random.choice(free)
        self._recent[port] = (owner, self._clock())
        return port
