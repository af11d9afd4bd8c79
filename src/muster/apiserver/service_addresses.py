"""Allocation of cluster IPs and node ports for Services, as `pkg/registry/core/service/ipallocator` and `portallocator` of
Kubernetes. Nothing listens on them in an embedded cluster, but clients and charts expect them.

Allocated addresses are read from the Services and from IPAddresses of other owners. An address for a write in progress is reserved
until its Service is stored or the reservation expires. Addresses are taken from the ranges of ready ServiceCIDRs, the default one
first.
"""

from __future__ import annotations

import ipaddress
import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

from muster.apiserver.cluster import Cluster
from muster.apiserver.kubernetes_service import CIDRS, IP_ADDRESSES, NAME, SERVICE_NETWORK, SERVICES, Network, is_ready, networks_of

NODE_PORTS = range(30000, 32768)
_RESERVATION_TTL = 30.0
_RANDOM_ATTEMPTS = 32
_MAX_SEARCH = 1 << 16
"""Maximum number of addresses of one range that are tried in order after the random ones."""


class ServiceAddresses:
    """The `ServiceAllocator` of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._generations: list[int] = []
        self._networks: list[Network] = []
        self._ips: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        self._reserved: dict[Any, tuple[float, str]] = {}
        self._swept = 0.0

    def cluster_ip(self, requested: str, owner: str) -> str:
        self._refresh()
        if requested:
            address = ipaddress.ip_address(requested)
            if not any(int(address) in _usable(network) for network in self._networks if network.version == address.version):
                raise LookupError("the provided network does not match the current range")
            self._allocate_requested(requested, owner, self._ips, "provided IP is already allocated")
            return requested
        for network in self._networks:
            for candidate in _candidates(network):
                if self._owner_of(candidate, self._ips) in (None, owner):
                    self._reserve(candidate, owner)
                    return candidate
        raise LookupError("range is full")

    def node_port(self, requested: int, owner: str) -> int:
        self._refresh()
        if requested:
            if requested not in NODE_PORTS:
                raise LookupError(
                    f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[-1]}"
                )
            self._allocate_requested(requested, owner, self._ports, "provided port is already allocated")
            return requested
        # Random ones first: allocated ports are often adjacent and would be tried again and again.
        candidates: list[int] = [*random.choices(NODE_PORTS, k=_RANDOM_ATTEMPTS), *NODE_PORTS]
        for candidate in candidates:
            if self._owner_of(candidate, self._ports) is None:
                self._reserve(candidate, owner)
                return candidate
        raise LookupError("range is full")

    def _allocate_requested(self, requested: Any, owner: str, allocated: dict[Any, str], message: str) -> None:
        if self._owner_of(requested, allocated) not in (None, owner):
            raise LookupError(message)
        self._reserve(requested, owner)

    def _owner_of(self, address: Any, allocated: dict[Any, str]) -> str | None:
        found = allocated.get(address)
        if found is not None:
            return found
        reserved = self._reserved.get(address)
        return reserved[1] if reserved is not None and reserved[0] > time.monotonic() else None

    def _reserve(self, address: Any, owner: str) -> None:
        now = time.monotonic()
        if now > self._swept + _RESERVATION_TTL:
            self._swept = now
            self._reserved = {key: reservation for key, reservation in self._reserved.items() if reservation[0] > now}
        self._reserved[address] = (now + _RESERVATION_TTL, owner)

    def _refresh(self) -> None:
        generation = [self._cluster.store.generation(self._cluster.name, each) for each in (SERVICES, CIDRS, IP_ADDRESSES)]
        if generation == self._generations:
            return
        self._generations = generation
        self._ips, self._ports = {}, {}
        cidrs = [cidr for cidr in self._cluster.scan(CIDRS) if is_ready(cidr)]
        named = [network for cidr in cidrs if cidr["metadata"]["name"] != NAME for network in networks_of(cidr)]
        default = [SERVICE_NETWORK] if any(cidr["metadata"]["name"] == NAME for cidr in cidrs) else []
        self._networks = [network for network in (*default, *named) if network.version == SERVICE_NETWORK.version]
        for address in self._cluster.scan(IP_ADDRESSES):
            parent = address["spec"].get("parentRef") or {}
            if parent.get("resource") != "services" or parent.get("group"):
                self._ips[address["metadata"]["name"]] = f"{parent.get('resource')}/{parent.get('namespace')}/{parent.get('name')}"
        for service in self._cluster.scan(SERVICES):
            owner = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
            spec = service.get("spec") or {}
            for address in spec.get("clusterIPs") or [spec.get("clusterIP", "")]:
                if address and address != "None":
                    self._ips[address] = owner
            for port in spec.get("ports") or ():
                if port.get("nodePort"):
                    self._ports[port["nodePort"]] = owner


def _usable(network: Network) -> range:
    """The addresses of a range as numbers, without the network address and, in IPv4, the broadcast address."""
    first = int(network.network_address)
    return range(first + 1, first + network.num_addresses - (network.version == 4))


def _candidates(network: Network) -> Iterator[str]:
    """Addresses to try: random ones first, because allocated ones are often adjacent. The beginning of a large range comes last: it
    is reserved for Services that request an address."""
    usable = _usable(network)
    reserved = min(max(16, len(usable) // 16), 256) if len(usable) >= 16 else 0
    upper = usable[reserved:]
    for _ in range(min(_RANDOM_ATTEMPTS, len(upper))):
        yield str(ipaddress.ip_address(random.choice(upper)))
    for number in itertools.islice(itertools.chain(upper, usable[:reserved]), _MAX_SEARCH):
        yield str(ipaddress.ip_address(number))
