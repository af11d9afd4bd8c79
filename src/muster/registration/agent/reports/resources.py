"""How much the managed cluster's nodes have together.

Only what is added up is kept of a node: a large cluster's nodes are megabytes, their capacities a few hundred bytes each. Every
node counts towards the capacity; those that take no new pods do not count towards what can be allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from muster.machinery.golang.quantities import Quantity, QuantityError, parse_quantity

Quantities = Mapping[str, str]
Reported = Mapping[str, int | str]


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: str
    uid: str = ""
    resourceVersion: str = ""


class _Spec(msgspec.Struct, omit_defaults=True):
    unschedulable: bool | None = None


class _Status(msgspec.Struct, omit_defaults=True):
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None


class Node(msgspec.Struct, omit_defaults=True):
    """What is kept of a Node."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


decode_node = msgspec.json.Decoder(Node).decode


def reduced_node(raw: bytes) -> bytes:
    return msgspec.json.encode(decode_node(raw))


class Resources(NamedTuple):
    capacity: dict[str, str]
    allocatable: dict[str, str]


def resources_of(nodes: Iterable[Node]) -> Resources:
    nodes = sorted(nodes, key=lambda node: node.metadata.name)
    usable = [node for node in nodes if node.spec is None or not node.spec.unschedulable]
    return Resources(
        _sum(node.status.capacity or {} for node in nodes if node.status is not None),
        _sum(node.status.allocatable or {} for node in usable if node.status is not None),
    )


def _sum(parts: Iterable[Quantities]) -> dict[str, str]:
    total: dict[str, Quantity] = {}
    for part in parts:
        for name, text in part.items():
            try:
                quantity = parse_quantity(text)
            except QuantityError:
                continue
            total[name] = total[name] + quantity if name in total else quantity
    return {name: str(total[name]) for name in sorted(total)}


def merged_capacity(reported: Reported, allocatable: Reported, ours: Quantities) -> dict[str, int | str]:
    """Others report capacities too, and theirs stay. What was allocatable was ours, and goes when no node has it any more."""
    return {**{name: value for name, value in reported.items() if name not in allocatable}, **ours}
