"""What the specs of both kinds have in common: feature gates and registration drivers.

Nothing in a spec is wrong beyond repair: an unknown gate is passed over and named, and for a field that nothing sensible can be
made of `BadSpec` is raised, so that one bad object gets a condition and nobody else notices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from muster.api.operator.v1 import FeatureGate
from muster.registration.drivers import DriverError, find
from muster.registration.drivers.interfaces import Driver


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


def invalid_gates(gates: Iterable[FeatureGate], known: Collection[str], unsupported: Collection[str] = ()) -> list[str]:
    """What is switched but not known, or on but not supported."""
    return [gate.feature for gate in gates if not _valid(gate, known, unsupported)]


def _valid(gate: FeatureGate, known: Collection[str], unsupported: Collection[str]) -> bool:
    return gate.feature in known or (gate.feature in unsupported and gate.mode != "Enable")
