"""Cluster IPs and node ports for Services. Nothing runs behind them on an embedded cluster, but clients and charts expect them.

What is taken is read from the Services themselves; an address handed out to a write that is still under way is remembered until
its Service shows up or the reservation grows old.
"""

from __future__ import annotations

import ipaddress
import random
import time
from typing import Any

from muster.apiserver.cluster import Cluster

SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_RESERVED_SECONDS = 30.0
_GUESSES = 32
_SERVICES = "/services"


class ServiceAddresses:
    """Implements the registry's `Addresses` for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_at = -1
        self._ips: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        self._reserved: dict[Any, tuple[float, str]] = {}
        self._swept = 0.0

    def cluster_ip(self, wanted: str, owner: str) -> str:
        self._refresh()
        if wanted:
            if ipaddress.ip_address(wanted) not in SERVICE_NETWORK:
                known = f"The range of valid IPs is {SERVICE_NETWORK}"
                raise LookupError(f"the provided IP ({wanted}) is not in the valid range. {known}")
            self._claim(wanted, owner, self._ips, "provided IP is already allocated")
            return wanted
        first = int(SERVICE_NETWORK.network_address)
        for _ in range(4096):
            candidate = str(ipaddress.ip_address(first + random.randrange(257, SERVICE_NETWORK.num_addresses - 1)))
            if self._owner_of(candidate, self._ips) in (None, owner):
                self._reserve(candidate, owner)
                return candidate
        raise LookupError("failed to allocate a serviceIP: range is full")

    def node_port(self, wanted: int, owner: str) -> int:
        self._refresh()
        if wanted:
            if wanted not in NODE_PORTS:
                raise LookupError(
                    f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[-1]}"
                )
            self._claim(wanted, owner, self._ports, "provided port is already allocated")
            return wanted
        # A few at random first: beside each other, ports that are taken would be looked at again and again.
        candidates: list[int] = [*random.choices(NODE_PORTS, k=_GUESSES), *NODE_PORTS]
        for candidate in candidates:
            if self._owner_of(candidate, self._ports) is None:
                self._reserve(candidate, owner)
                return candidate
        raise LookupError("failed to allocate a nodePort: range is full")

    def _claim(self, wanted: Any, owner: str, taken: dict[Any, str], refusal: str) -> None:
        if self._owner_of(wanted, taken) not in (None, owner):
            raise LookupError(refusal)
        self._reserve(wanted, owner)

    def _owner_of(self, address: Any, taken: dict[Any, str]) -> str | None:
        found = taken.get(address)
        if found is not None:
            return found
        reserved = self._reserved.get(address)
        return reserved[1] if reserved is not None and reserved[0] > time.monotonic() else None

    def _reserve(self, address: Any, owner: str) -> None:
        now = time.monotonic()
        if now > self._swept + _RESERVED_SECONDS:
            self._swept = now
            self._reserved = {key: kept for key, kept in self._reserved.items() if kept[0] > now}
        self._reserved[address] = (now + _RESERVED_SECONDS, owner)

    def _refresh(self) -> None:
        generation = self._cluster.store.generation(self._cluster.name, _SERVICES)
        if generation == self._read_at:
            return
        self._read_at = generation
        self._ips, self._ports = {}, {}
        for service in self._cluster.scan(_SERVICES):
            owner = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
            spec = service.get("spec") or {}
            for address in spec.get("clusterIPs") or [spec.get("clusterIP", "")]:
                if address and address != "None":
                    self._ips[address] = owner
            for port in spec.get("ports") or ():
                if port.get("nodePort"):
                    self._ports[port["nodePort"]] = owner
