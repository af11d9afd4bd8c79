"""A loopback address for every pod, so that programs on one machine can all listen on the ports in their manifests.

All of 127.0.0.0/8 is local on Linux without any setup. Pods get addresses of 127.64.0.0/10, starting at a random one, so that two
fleets on one machine hardly ever collide. Where other loopback addresses cannot be bound (macOS), all pods share 127.0.0.1 and
their ports have to differ.
"""

from __future__ import annotations

import ipaddress
import random as chance
import socket

from muster.machinery.clock import Random

NODE_IP = "127.0.0.1"
_RANGE = ipaddress.IPv4Network("127.64.0.0/10")


class LoopbackAddresses:
    def __init__(self, random: Random = chance.random, *, keep: bool = True) -> None:
        """`keep`: whether pods get their previous address."""
        self._keep = keep
        self._used: set[str] = set()
        self._next = int(random() * _RANGE.num_addresses)
        self._own = _can_bind(str(_RANGE[1]))

    def take(self, wanted: str = "") -> str:
        """`wanted` (the pod's previous address) if it is free, else another one."""
        if not self._own:
            return NODE_IP
        if self._keep and wanted and wanted not in self._used and _is_in_range(wanted):
            self._used.add(wanted)
            return wanted
        while True:
            self._next = (self._next + 1) % _RANGE.num_addresses
            address = str(_RANGE[self._next])
            if address not in self._used and self._next & 0xFF not in (0, 255):
                self._used.add(address)
                return address

    def give_back(self, address: str) -> None:
        self._used.discard(address)


def _is_in_range(address: str) -> bool:
    try:
        return ipaddress.IPv4Address(address) in _RANGE
    except ValueError:
        return False


def _can_bind(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
