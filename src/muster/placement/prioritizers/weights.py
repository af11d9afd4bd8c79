"""The prioritizers of a placement, with their weights.

Mode Additive (the default) starts from the default weights; Exact from none. Configurations are applied in order: of one builtin
prioritizer the last is used, addon scores are all added, even if they are repeated. Weight 0 disables a prioritizer, and then its
coordinate is not validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api.cluster.v1beta1 import AddOnScore, PrioritizerPolicy
from muster.placement.misconfiguration import Misconfigured

BALANCE: Final = "Balance"
STEADY: Final = "Steady"
SPREAD: Final = "Spread"
ALLOCATABLE: Final = {"ResourceAllocatableCPU": "cpu", "ResourceAllocatableMemory": "memory"}
"""The resource of a builtin prioritizer."""
_BUILT_IN: Final = frozenset({BALANCE, STEADY, SPREAD, *ALLOCATABLE})
_DEFAULTS: Final = {BALANCE: 1, STEADY: 1, SPREAD: 2}


@dataclass(frozen=True)
class Weights:
    built_in: tuple[tuple[str, int], ...]
    """Names and weights, without Spread's."""
    addons: tuple[tuple[AddOnScore, int], ...]
    spread: int
    """The weight of spreading, if it is configured."""


def weights_of(policy: PrioritizerPolicy) -> Weights:
    """Raises Misconfigured."""
    if policy.mode not in ("", "Additive", "Exact"):
        raise Misconfigured("", f"incorrect prioritizer policy mode: {policy.mode}")
    built_in = {} if policy.mode == "Exact" else dict(_DEFAULTS)
    addons: list[tuple[AddOnScore | None, int]] = []
    for configuration in policy.configurations:
        coordinate = configuration.score_coordinate
        if coordinate.type == "BuiltIn":
            built_in[coordinate.built_in] = configuration.weight
        else:
            addons.append((coordinate.add_on, configuration.weight))
    for name, weight in built_in.items():
        if weight and name not in _BUILT_IN:
            raise Misconfigured("", f"incorrect builtin prioritizer: {name}")
    spread = built_in.pop(SPREAD, 0)
    counted = tuple((name, weight) for name, weight in built_in.items() if weight)
    return Weights(counted, tuple(_named(addons)), spread)


def _named(addons: Sequence[tuple[AddOnScore | None, int]]) -> Iterator[tuple[AddOnScore, int]]:
    for addon, weight in addons:
        if not weight:
            continue
        if addon is None:
            raise Misconfigured("", "addOn should not be empty")
        yield addon, weight
