"""What is said of the objects of a template, by what was found of them."""

from __future__ import annotations

import pytest

from muster.policy.configuration import results
from muster.policy.configuration.aggregation import Batch, ObjectKey, batches
from muster.policy.configuration.results import ObjectEvent, ObjectResult

HAVE = "K8s does not have a `must have` object"
MESSAGES = [
    (results.FOUND, True, "K8s `must have` object already exists", "pods [a] found as specified in namespace x"),
    (results.CREATED, True, "K8s creation success", "pods [a] was created successfully in namespace x"),
    (results.UPDATED, True, "K8s update success", "pods [a] was updated successfully in namespace x"),
    (results.DELETED, True, "K8s deletion success", "pods [a] was deleted successfully in namespace x"),
    (results.NOT_FOUND, False, HAVE, "pods [a] not found in namespace x"),
    (results.NO_MATCH, False, HAVE, "pods [a] found but not as specified in namespace x"),
    (results.UNWANTED, False, "K8s has a `must not have` object", "pods [a] found in namespace x"),
    (results.ABSENT, True, "K8s `must not have` object already missing", "pods [a] missing as expected in namespace x"),
]


def result(*events: ObjectEvent, names: tuple[str, ...] = ()) -> ObjectResult:
    return ObjectResult(events, names)


@pytest.mark.parametrize(("reason", "compliant", "condition", "message"), MESSAGES)
def test_every_reason_has_its_words(reason: str, compliant: bool, condition: str, message: str) -> None:
    found = batches("pods", {ObjectKey("x", "a"): result(ObjectEvent(compliant, reason))})
    assert found == [Batch(compliant, condition, message)]


def test_names_and_namespaces_are_joined() -> None:
    event = ObjectEvent(True, results.FOUND)
    keys = [ObjectKey(namespace, name) for namespace in ("y", "x") for name in ("b", "a")]
    [found] = batches("pods", {key: result(event) for key in keys})
    assert found.message == "pods [a, b] found as specified in namespaces: x, y"


def test_names_in_other_namespaces_are_told_apart() -> None:
    event = ObjectEvent(True, results.FOUND)
    [found] = batches("pods", {ObjectKey("x", ""): result(event, names=("a",)), ObjectKey("y", ""): result(event, names=("b",))})
    assert found.message == "pods [a] found as specified in namespace x; pods [b] found as specified in namespace y"


def test_kinds_without_namespaces_and_names() -> None:
    [found] = batches("nodes", {ObjectKey("", ""): result(ObjectEvent(False, results.NOT_FOUND))})
    assert found.message == "nodes not found"


def test_what_is_not_compliant_hides_what_is() -> None:
    good, bad = ObjectEvent(True, results.FOUND), ObjectEvent(False, results.NOT_FOUND)
    [found] = batches("pods", {ObjectKey("x", "a"): result(good), ObjectKey("y", "a"): result(bad)})
    assert found == Batch(False, HAVE, "pods [a] not found in namespace y")


def test_errors_speak_for_themselves_after_the_rest() -> None:
    one, other = ObjectEvent(False, "z error", "it broke"), ObjectEvent(False, results.NO_MATCH)
    [found] = batches("pods", {ObjectKey("x", "a"): result(one), ObjectKey("y", "a"): result(other)})
    assert found == Batch(False, f"{HAVE}; z error", "pods [a] found but not as specified in namespace y; it broke")


def test_what_happened_to_one_object_is_told_before_the_last_state_of_all() -> None:
    before, after, still = (
        ObjectEvent(False, results.NO_MATCH),
        ObjectEvent(True, results.UPDATED),
        ObjectEvent(True, results.FOUND),
    )
    first, last = batches("pods", {ObjectKey("x", "a"): result(before, after), ObjectKey("y", "a"): result(still)})
    assert first.message == "pods [a] found but not as specified in namespace x"
    assert last.message == "pods [a] found as specified in namespace y; pods [a] was updated successfully in namespace x"
