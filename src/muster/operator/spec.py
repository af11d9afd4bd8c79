"""The common parts of both specs: feature gates and registration drivers.

Unknown gates are ignored and reported, and invalid values raise `BadSpec`, so that one invalid object gets a condition and others
are not affected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.api.operator.v1 import FeatureGate
from muster.registration.drivers import DriverError, find
from muster.registration.drivers.interfaces import Driver

OPERATOR_GATES: Final = ("NetworkPolicies",)
"""Gates of upstream's operators, which may be listed for any component."""


class BadSpec(Exception):
    """An invalid field."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def installed_driver(auth_type: str, field: str) -> Driver:
    """Raises BadSpec if there is no such driver, with the names of those that are installed."""
    try:
        return find(auth_type)
    except DriverError as error:
        raise BadSpec(field, str(error)) from None


def gate_flags(gates: Iterable[FeatureGate], known: Collection[str]) -> list[str]:
    """The `--feature-gates` flag for the known gates; empty if none is set."""
    switched = [f"{gate.feature}={str(gate.mode == 'Enable').lower()}" for gate in gates if gate.feature in known]
    return [f"--feature-gates={','.join(switched)}"] if switched else []


@dataclass(frozen=True)
class GateReview:
    """The gates of a spec to be reported, by component."""

    invalid: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Gates that neither Muster nor upstream has."""
    without_effect: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Upstream's gates that are enabled, but have no effect here."""


def review_gates(switched: Mapping[str, tuple[Iterable[FeatureGate], Collection[str], Collection[str]]]) -> GateReview:
    """By component: its gates, the known ones, and those that only upstream has."""
    invalid, without_effect = {}, {}
    for component, (gates, known, unsupported) in switched.items():
        unheeded = {*unsupported, *OPERATOR_GATES}
        invalid[component] = [gate.feature for gate in gates if gate.feature not in known and gate.feature not in unheeded]
        without_effect[component] = [gate.feature for gate in gates if gate.feature in unheeded and gate.mode == "Enable"]
    return GateReview(*({component: names for component, names in found.items() if names} for found in (invalid, without_effect)))
