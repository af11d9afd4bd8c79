"""What the specs of both kinds have in common: feature gates and registration drivers.

Nothing in a spec is wrong beyond repair: an unknown gate is passed over and named, and for a field that nothing sensible can be
made of `BadSpec` is raised, so that one bad object gets a condition and nobody else notices.
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
    """A field that nothing sensible can be made of."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def installed_driver(auth_type: str, field: str) -> Driver:
    """Raises BadSpec where nobody answers to that name, naming those who are there."""
    try:
        return find(auth_type)
    except DriverError as error:
        raise BadSpec(field, str(error)) from None


def gate_flags(gates: Iterable[FeatureGate], known: Collection[str]) -> list[str]:
    """The flag that says how known gates are switched; none when none is."""
    switched = [f"{gate.feature}={str(gate.mode == 'Enable').lower()}" for gate in gates if gate.feature in known]
    return [f"--feature-gates={','.join(switched)}"] if switched else []


@dataclass(frozen=True)
class GateReview:
    """What is to be said of the gates of a spec, by component."""

    invalid: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Those that neither we nor upstream know."""
    without_effect: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Upstream's, which are on, and which nothing here looks at."""


def review_gates(switched: Mapping[str, tuple[Iterable[FeatureGate], Collection[str], Collection[str]]]) -> GateReview:
    """By component: its gates, those that are known, and those that are upstream's alone."""
    invalid, without_effect = {}, {}
    for component, (gates, known, unsupported) in switched.items():
        unheeded = {*unsupported, *OPERATOR_GATES}
        invalid[component] = [gate.feature for gate in gates if gate.feature not in known and gate.feature not in unheeded]
        without_effect[component] = [gate.feature for gate in gates if gate.feature in unheeded and gate.mode == "Enable"]
    return GateReview(*({component: names for component, names in found.items() if names} for found in (invalid, without_effect)))
