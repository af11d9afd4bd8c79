"""Cluster IPs and node ports for Services. Nothing runs behind them on an embedded cluster, but clients and charts expect them.

What is taken is read from the Services themselves, and from IPAddresses that somebody else made; an address handed out to a write
that is still under way is remembered until its Service shows up or the reservation grows old. Addresses come from the ranges of the
ServiceCIDRs that are ready, of the default one first.
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
_RESERVED_SECONDS = 30.0
_GUESSES = 32
_MAX_SEARCH = 1 << 16
"""Addresses of one range that are looked at in order when those tried at random are taken."""


class ServiceAddresses:
    """Implements the registry's `Addresses` for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_at: list[int] = []
        self._networks: list[Network] = []
        self._ips: dict[str, str] = {}
        self._ports: dict[int, str] = {}
        self._reserved: dict[Any, tuple[float, str]] = {}
        self._swept = 0.0

    def cluster_ip(self, wanted: str, owner: str) -> str:
        self._refresh()
        if wanted:
            address = ipaddress.ip_address(wanted)
            if not any(int(address) in _usable(network) for network in self._networks if network.version == address.version):
                raise LookupError("the provided network does not match the current range")
            self._claim(wanted, owner, self._ips, "provided IP is already allocated")
            return wanted
        for network in self._networks:
            for candidate in _candidates(network):
                if self._owner_of(candidate, self._ips) in (None, owner):
                    self._reserve(candidate, owner)
                    return candidate
        raise LookupError("range is full")

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
        raise LookupError("range is full")

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
        generation = [self._cluster.store.generation(self._cluster.name, each) for each in (SERVICES, CIDRS, IP_ADDRESSES)]
        if generation == self._read_at:
            return
        self._read_at = generation
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
    """Addresses of a range as numbers, without the network's own and, in IPv4, the broadcast address."""
    first = int(network.network_address)
    return range(first + 1, first + network.num_addresses - (network.version == 4))


def _candidates(network: Network) -> Iterator[str]:
    """Addresses to try, at random; those at the beginning of a large range are left to Services that ask for theirs. Beside each
    other, addresses that are taken would be looked at again and again."""
    usable = _usable(network)
    reserved = min(max(16, len(usable) // 16), 256) if len(usable) >= 16 else 0
    upper = usable[reserved:]
    for _ in range(min(_GUESSES, len(upper))):
        yield str(ipaddress.ip_address(random.choice(upper)))
    for number in itertools.islice(itertools.chain(upper, usable[:reserved]), _MAX_SEARCH):
        yield str(ipaddress.ip_address(number))
