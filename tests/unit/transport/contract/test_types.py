"""Types as text and text as types, as often as they come."""

from __future__ import annotations

import pytest

from muster.transport.contract import types
from muster.transport.contract.types import Action, DataType, EventType, InvalidType, Subresource

LEASES = DataType("coordination.k8s.io", "v1", "leases")


@pytest.mark.parametrize("subresource", Subresource)
@pytest.mark.parametrize("action", Action)
def test_a_type_reads_as_it_was_written(subresource: Subresource, action: Action) -> None:
    written = EventType(LEASES, subresource, action)
    for _ in range(2):
        assert str(written) == f"coordination.k8s.io.v1.leases.{subresource.value}.{action.value}"
        assert EventType.parse(str(written)) == written
    assert hash(EventType.parse(str(written))) == hash(EventType(DataType.parse(str(LEASES)), subresource, action))


@pytest.mark.parametrize(
    "text", ["", "spec.update_request", "a.v1.b.spec.hop", "a.v1.b.hop.update_request", ".v1.b.spec.update_request"]
)
def test_what_is_no_type_is_refused_every_time(text: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidType):
            EventType.parse(text)


def test_a_caller_that_makes_up_types_fills_no_memory() -> None:
    for number in range(5_000):
        EventType.parse(f"group{number}.v1.things.spec.update_request")
    kept = types._remembered.cache_info()
    assert kept.maxsize is not None
    assert kept.currsize <= kept.maxsize <= 1_000
    EventType.parse(f"{'g' * 100_000}.v1.things.spec.update_request")
    assert types._remembered.cache_info() == kept, "a long one is not even looked for"
