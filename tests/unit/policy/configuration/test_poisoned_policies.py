"""One policy that is wrong, or whose cluster fails it, keeps no other from being evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.runtime.client import Forbidden, ServerFailure, StatusError
from tests.support.mortal_hub import Life
from tests.support.policy_site import CLUSTER, POLICIES, PolicySite, config_map, policy, template

POISON = {
    "no kind": {"metadata": {"name": "x"}},
    "no version": {"kind": "ConfigMap", "metadata": {"name": "x"}},
    "name is a list": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": ["x"], "namespace": "app"}},
    "metadata is text": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"},
    "labels are numbers": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "app", "labels": {"a": 1}},
    },
    "version is a path": {"apiVersion": "../../v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "app"}},
    "name is a path": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "..", "namespace": "app"}},
    "namespace is a path": config_map("x", "..", color="red"),
    "hub template of a namespace that is a path": config_map("x", color='{{hub fromConfigMap ".." "a" "b" hub}}'),
    "hub template of a name that is a path": config_map("x", color='{{hub fromConfigMap "app" ".." "b" hub}}'),
    "template of a namespace that is a path": config_map("x", color='{{ fromConfigMap ".." "a" "b" }}'),
    "template of a name that is a path": config_map("x", color='{{ fromConfigMap "app" ".." "b" }}'),
    "unknown kind": {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x", "namespace": "app"}},
    "unknown field": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "app"}, "color": "red"},
    "namespace that is not there": config_map("x", "nowhere", color="red"),
    "data is deep": config_map("x") | {"data": {"a": {"b": {"c": {}}}}},
}


@pytest.mark.parametrize("seconds", ["", "10s"], ids=["watching", "at intervals"])
@pytest.mark.parametrize("definition", POISON.values(), ids=POISON.keys())
async def test_a_policy_that_is_wrong_says_so_and_harms_no_other(site: PolicySite, definition: Object, seconds: str) -> None:
    interval: dict[str, Any] = {"evaluationInterval": {"compliant": seconds, "noncompliant": seconds}} if seconds else {}
    async with site.controller(hub=site.hub):
        await site.create(policy("bad", template(definition), **interval))
        await site.create(policy("good", template(config_map("settings", color="red"))))
        await site.reported("good", "Compliant")
        status = await site.reported("bad", "NonCompliant")
    assert "ValueError" not in str(status)


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), ServerFailure(500, "InternalError", "broken")])
async def test_a_policy_whose_object_is_refused_says_so_and_is_tried_again(site: PolicySite, error: StatusError) -> None:
    life = Life()
    life.refuse = lambda method, path: error if method == "POST" and "/namespaces/app/configmaps" in path else None
    async with site.controller(life):
        await site.create(policy("bad", template(config_map("settings", color="red"))))
        await site.create(policy("good", template(config_map("settings", CLUSTER, color="red"))))
        await site.reported("good", "Compliant")
        await site.reported("bad", "NonCompliant", str(error))
        life.refuse = lambda method, path: None
        await site.reported("bad", "Compliant", moving=1)


async def test_a_status_that_cannot_be_written_is_written_later(site: PolicySite) -> None:
    life = Life()
    life.refuse = lambda method, path: ServerFailure(500, "InternalError", "broken") if path.endswith("/status") else None
    async with site.controller(life):
        await site.create(policy("p", template(config_map("settings", color="red"))))

        async def is_enforced() -> bool:
            return await site.data("settings") == {"color": "red"}

        await site.until(is_enforced, "the object")
        assert await site.status("p") == {}
        life.refuse = lambda method, path: None
        await site.reported("p", "Compliant", moving=1)


async def test_somebody_elses_write_in_between_does_not_stop_the_status(site: PolicySite) -> None:
    life = Life()
    written = 0

    def meanwhile(method: str, path: str) -> Exception | None:
        nonlocal written
        if path.endswith("/p/status") and written < 2:
            written += 1
            return _conflict()
        return None

    life.refuse = meanwhile
    async with site.controller(life):
        await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant")
    assert written == 2


async def test_the_status_of_a_policy_is_not_written_into_another_of_its_name(site: PolicySite) -> None:
    """The first is replaced while it is evaluated: the second is evaluated for itself."""
    async with site.controller() as life:
        created = await site.create(policy("p", template(config_map("settings", color="red"))))
        await site.reported("p", "Compliant")
        await site.at_rest(life)
        await site.spoke.delete(POLICIES, "p", CLUSTER)
        await site.create(policy("p", template(config_map("others", color="red")), action="inform"))
        status = await site.reported("p", "NonCompliant", "[others] not found")
    assert (await site.get("p") or {})["metadata"]["uid"] != created["metadata"]["uid"]
    assert len(status["history"]) == 1


def _conflict() -> Exception:
    from muster.runtime.client import Conflict

    return Conflict(409, "Conflict", "somebody wrote in between")
