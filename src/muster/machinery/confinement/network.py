"""Addresses of the machine that a pod shares: which of them are guarded, and who may dial and listen there.

Guarded is what no network can reach, or should: the loopback interface, this machine's own addresses, link-local ones, and where
clouds tell machines their credentials. Everything else a pod may dial as pods do. What counts is the address that is about to be
connected to, never the name: a name may lead anywhere, and elsewhere the next time.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from muster.machinery.confinement.boundary import Outside, current

METADATA: Final = tuple(
    ip_network(one) for one in ("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32", "0.0.0.0/8")
)
"""Of clouds, beyond the link-local ones; and the network of which every address leads to this machine."""


def is_guarded(address: IPv4Address | IPv6Address) -> bool:
    plain = _plain(address)
    if plain.is_loopback or plain.is_unspecified or plain.is_link_local:
        return True
    return any(plain in network for network in METADATA if network.version == plain.version) or _is_this_machine(plain)


def check_dial(name: str, address: str, port: int) -> None:
    """Before a connection to `address`, which is one of `name`'s. Raises Outside, or what a pod's own silent port would."""
    confinement = current()
    if confinement is None:
        return
    plain = _plain(ip_address(address))
    if not is_guarded(plain) or confinement.network.may_dial(name, plain, port):
        return
    if str(plain) == confinement.ip:
        # What else of the machine listens on all of its addresses is not the pod's.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    reason = f"{name} is on this machine, where a pod may dial its fleet and what an administrator has allowed"
    raise Outside(errno.EPERM, f"{reason}: {confinement.network.remedy(name, port)}")


def may_listen(host: str) -> None:
    """Raises OSError for an address that is not the pod's own."""
    confinement = current()
    if confinement is not None and host != confinement.ip:
        raise OSError(errno.EADDRNOTAVAIL, f"a pod listens on its own address, {confinement.ip}, and not on {host!r}")


def listening(address: str, port: int) -> Callable[[], None]:
    """Tell that the program listens there; what is returned tells that it no longer does."""
    confinement = current()
    if confinement is None:
        return lambda: None
    network = confinement.network
    network.opened(address, port)
    return lambda: network.closed(address, port)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """An IPv4 address is the same in IPv6's clothes."""
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _is_this_machine(address: IPv4Address | IPv6Address) -> bool:
    """Whoever would speak to himself has the same address at both ends. Nothing is sent."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
            return bool(ip_address(probe.getsockname()[0]) == address)
        except OSError:
            return False
