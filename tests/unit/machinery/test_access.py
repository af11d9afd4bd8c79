"""User info and access attributes: equal by content, usable as keys, and the same in the documents that carry them."""

from __future__ import annotations

import pytest

from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision

JANE = UserInfo("jane", "7", ("devs", "ops"), {"scopes": ("a", "b"), "from": ("afar",)})


def test_a_user_is_the_same_whatever_the_order_of_what_is_extra() -> None:
    other = UserInfo("jane", "7", ("devs", "ops"), {"from": ("afar",), "scopes": ("a", "b")})
    assert other == JANE
    assert hash(JANE) == hash(other)
    assert UserInfo("jane", "7", ("devs", "ops"), {"from": ("near",)}) != JANE


def test_a_user_survives_the_documents_that_carry_it() -> None:
    assert UserInfo.decode(JANE.document()) == JANE
    assert UserInfo("x").document() == {"username": "x"}
    assert UserInfo.decode({}) == UserInfo("")
    assert UserInfo.decode({"username": None, "groups": None, "extra": {"k": None}}) == UserInfo("", extra={"k": ()})


@pytest.mark.parametrize(
    "attributes",
    [
        AccessAttributes("get", "apps", "v1", "deployments", "scale", "default", "web"),
        AccessAttributes("list", resource="nodes"),
        AccessAttributes("get", path="/healthz"),
    ],
)
def test_attributes_survive_an_access_review(attributes: AccessAttributes) -> None:
    assert AccessAttributes.decode(attributes.spec()) == attributes
    assert {attributes: 1}[AccessAttributes.decode(attributes.spec())] == 1


def test_a_resource_is_asked_about_without_its_path() -> None:
    asked = AccessAttributes("get", "", "v1", "pods", "log", "ns", "web", "/api/v1/namespaces/ns/pods/web/log")
    assert asked.spec() == {
        "resourceAttributes": {
            "verb": "get",
            "version": "v1",
            "resource": "pods",
            "subresource": "log",
            "namespace": "ns",
            "name": "web",
        }
    }
    assert str(asked) == "get pods/log"
    assert str(AccessAttributes("get", path="/metrics")) == "get /metrics"


def test_what_is_not_allowed_is_not_thereby_denied() -> None:
    assert not AccessDecision(False).denied
    with pytest.raises(AttributeError):
        AccessDecision(False).allowed = True  # type: ignore[misc]
