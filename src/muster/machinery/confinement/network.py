"""The machine's addresses that pods share: which of them are guarded, and which pods may dial and listen there.

Guarded are addresses that no other host can reach, or should: the loopback interface, this machine's own addresses, link-local
ones, and metadata services of clouds. Pods may dial all others. The address of the connection is checked, never the name: a name
may have another address the next time.
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
"""Of clouds, besides the link-local ones; and the network whose addresses all lead to this machine."""


def is_guarded(address: IPv4Address | IPv6Address) -> bool:
    plain = _plain(address)
    if plain.is_loopback or plain.is_unspecified or plain.is_link_local:
        return True
    return any(plain in network for network in METADATA if network.version == plain.version) or _is_this_machine(plain)


def check_dial(name: str, address: str, port: int) -> None:
    """To be called before a connection to `address`, which is one of `name`'s. Raises Outside, or ConnectionRefusedError for a
    pod's own port without listener."""
    confinement = current()
    if confinement is None:
        return
    plain = _plain(ip_address(address))
    if not is_guarded(plain) or confinement.network.may_dial(name, plain, port):
        return
    if str(plain) == confinement.ip:
        # Other listeners on all addresses of the machine are not the pod's.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    reason = f"{name} is on this machine, where a pod may dial its fleet and what an administrator has allowed"
    raise Outside(errno.EPERM, f"{reason}: {confinement.network.remedy(name, port)}")


def may_listen(host: str) -> None:
    """Raises OSError for an address that is not the pod's own."""
    confinement = current()
    if confinement is not None and host != confinement.ip:
        raise OSError(errno.EADDRNOTAVAIL, f"a pod listens on its own address, {confinement.ip}, and not on {host!r}")


def listening(address: str, port: int) -> Callable[[], None]:
    """Report that the program listens there; call the result when it no longer does."""
    confinement = current()
    if confinement is None:
        return lambda: None
    network = confinement.network
    network.opened(address, port)
    return lambda: network.closed(address, port)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """IPv4-mapped IPv6 addresses as IPv4."""
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _is_this_machine(address: IPv4Address | IPv6Address) -> bool:
    """A connection to this machine has the same address on both sides. Nothing is sent."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
            return bool(ip_address(probe.getsockname()[0]) == address)
        except OSError:
            return False
