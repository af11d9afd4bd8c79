"""What the hub approves for addons on a real (embedded) API server, and what it leaves alone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from muster.api.agents import CSR_USER
from muster.machinery.authentication import UserInfo
from muster.runtime.client import StatusError
from muster.runtime.client.builtin import CLUSTER_ROLES, SIGNING_REQUESTS
from tests.support.addon_hub import ADDONS, CLUSTERS, OFFERED, AddonHub
from tests.support.addon_requests import CLUSTER, agent_of, content, request_of, subject_of
from tests.support.template_addons import template_of
from tests.unit.addon.requests.test_request import ATTACKS, GRPC

KUBE_CLIENT = {"type": "KubeClient"}
SIGNER = "example.com/own"
CUSTOM = {
    "type": "CustomSigner",
    "customSigner": {"signerName": SIGNER, "signingCA": {"name": "ca"}, "subject": {"user": "me", "groups": ["g"]}},
}


@pytest.fixture
async def hello(hub: AddonHub) -> AddonHub:
    """A hub with a template addon on cluster1."""
    hub.configs.put(template_of(registration=[KUBE_CLIENT, CUSTOM]))
    await hub.cluster()
    await hub.offer("hello", "hello-1")
    await hub.enable(template="hello-1")
    return hub


async def until_approved(hub: AddonHub, name: str) -> dict[str, Any]:
    async def look() -> bool:
        return await hub.verdict(name) == "Approved"

    await hub.until(look, f"{name} to be approved")
    return await hub.admin.get(SIGNING_REQUESTS, name)


async def left_alone(hub: AddonHub, *names: str) -> None:
    """A good request made after them is approved; those have been looked at by then, and are still pending."""
    await hub.ask("addon-marker")
    await until_approved(hub, "addon-marker")
    for name in names:
        assert await hub.verdict(name) == "", name


async def may_sign(hub: AddonHub, signer: str = SIGNER) -> None:
    """As an administrator lets the manager."""
    labels = {"open-cluster-management.io/aggregate-to-addon-manager": "true"}
    rules = [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [signer], "verbs": ["approve", "sign"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["ca"], "verbs": ["get"]},
    ]
    await hub.admin.create(CLUSTER_ROLES, {"metadata": {"name": signer.replace("/", "-"), "labels": labels}, "rules": rules})


async def test_an_addons_own_request_is_approved(hello: AddonHub) -> None:
    await hello.ask("addon-1")
    [condition] = (await until_approved(hello, "addon-1"))["status"]["conditions"]
    assert condition["reason"] == "AutoApprovedByHubCSRApprovingController"
    assert condition["message"] == "Auto approving addon agent certificate."


async def test_a_request_over_grpc_is_for_whom_the_server_names(hello: AddonHub) -> None:
    server = UserInfo(GRPC, groups=("system:serviceaccounts",))
    await hello.ask("addon-other", server, annotations={CSR_USER: agent_of("cluster2").name})
    await hello.ask("addon-own", server, annotations={CSR_USER: agent_of().name})
    await until_approved(hello, "addon-own")
    await left_alone(hello, "addon-other")


async def test_what_others_would_like_to_have_is_neither_approved_nor_denied(hello: AddonHub) -> None:
    """Defect 15."""
    names = []
    for number, csr in enumerate(ATTACKS.values()):
        spec, metadata = csr.get("spec") or {}, csr.get("metadata") or {}
        if not csr or not metadata.get("labels") or not spec:
            continue
        who = UserInfo(spec.get("username") or "nobody", groups=tuple(spec.get("groups") or ()))
        client = hello.client(UserInfo(who.name, groups=(*who.groups, "system:masters")))
        own = {key: value for key, value in spec.items() if key not in ("username", "groups")}
        name = metadata["name"] if not metadata["name"].startswith("addon-") else f"addon-{number}"
        # The API server refuses some by itself.
        with suppress(StatusError):
            await client.create(SIGNING_REQUESTS, {**csr, "metadata": {**metadata, "name": name}, "spec": own})
            names.append(name)
    assert len(names) >= 40
    await left_alone(hello, *names)


async def test_a_request_waits_for_its_cluster_its_addon_and_its_template(hub: AddonHub) -> None:
    await hub.ask("addon-early")
    hub.configs.put(template_of(registration=[KUBE_CLIENT]))
    await hub.cluster(accepted=False)
    await hub.offer("hello", "hello-1")
    await hub.enable()
    await hub.refer("hello-1")
    await hub.cluster("marker")
    assert await hub.verdict("addon-early") == ""
    await hub.admin.patch(CLUSTERS, CLUSTER, {"spec": {"hubAcceptsClient": True}})
    await until_approved(hub, "addon-early")


async def test_an_agent_cannot_have_another_template_than_administrators_chose(hello: AddonHub) -> None:
    foreign = {**CUSTOM, "customSigner": {**CUSTOM["customSigner"], "signerName": "example.com/foreign"}}  # type: ignore[dict-item]
    hello.configs.put(template_of(registration=[KUBE_CLIENT, foreign], name="foreign"))
    await may_sign(hello, "example.com/foreign")
    await hello.refer("foreign")
    await hello.ask("addon-foreign", pem=content(subject_of("me", ("g",))), signer="example.com/foreign")
    await hello.refer("hello-1")
    await left_alone(hello, "addon-foreign")
    await hello.admin.patch(ADDONS, "hello", {"spec": {"configs": [{**_template(), "name": "foreign"}]}}, CLUSTER)
    await hello.refer("foreign")
    await until_approved(hello, "addon-foreign")


def _template() -> dict[str, str]:
    return {"group": "addon.open-cluster-management.io", "resource": "addontemplates"}


@pytest.mark.parametrize(
    "status",
    [
        {"configReferences": [{**_template(), "name": "hello-1"}]},
        {"configReferences": [{**_template(), "name": "x", "desiredConfig": {"name": "x" * 253, "specHash": "{{"}}]},
        {"registrations": [{"signerName": "example.com/own", "subject": {"user": "system:admin", "groups": ["system:masters"]}}]},
    ],
)
async def test_hostile_status_of_one_cluster_harms_that_cluster_alone(hello: AddonHub, status: Any) -> None:
    await hello.cluster("cluster2")
    await hello.enable("cluster2")
    await hello.status(status, "cluster2")
    await hello.ask("addon-hostile", agent_of("cluster2"), cluster="cluster2")
    await left_alone(hello, "addon-hostile")


async def test_an_addon_that_another_process_serves_is_left_to_it(hello: AddonHub) -> None:
    await hello.offer("other", supports=False)
    await hello.enable(name="other")
    await hello.ask("addon-other", pem=content(), addon="other")
    await left_alone(hello, "addon-other")


async def test_an_addon_that_is_gone_gets_nothing(hello: AddonHub) -> None:
    await hello.cluster("cluster2")
    await hello.ask("addon-cluster2", agent_of("cluster2"), cluster="cluster2")
    await left_alone(hello, "addon-cluster2")
    await hello.admin.delete(ADDONS, "hello", CLUSTER)
    await hello.admin.delete(OFFERED, "hello")

    async def gone() -> bool:
        assert hello.registrations is not None
        return hello.registrations(CLUSTER, "hello") is None

    await hello.until(gone, "the addon to be gone")
    await hello.ask("addon-late")
    assert await hello.verdict("addon-late") == ""


async def test_a_template_that_cannot_be_rendered_holds_up_nobody_else(hello: AddonHub) -> None:
    hello.configs.put(template_of({}, registration=[KUBE_CLIENT], name="bad"))
    await hello.offer("broken", "bad")
    await hello.enable(name="broken", template="bad")
    await hello.ask("addon-broken", addon="broken")
    await left_alone(hello, "addon-broken")


async def test_without_the_right_to_approve_the_event_says_which_is_missing(hello: AddonHub) -> None:
    await hello.ask("addon-own", pem=content(subject_of("me", ("g",))), signer=SIGNER)
    [note] = await hello.until(lambda: hello.notes("ApprovalForbidden"), "an event")
    assert "open-cluster-management.io/aggregate-to-addon-manager=true" in note
    await may_sign(hello)

    async def look() -> bool:
        await hello.clock.advance(60)
        return await hello.verdict("addon-own") == "Approved"

    await hello.until(look, "the request to be approved")


async def test_a_decided_request_is_left_alone(hello: AddonHub) -> None:
    await hello.admin.create(SIGNING_REQUESTS, request_of(name="addon-denied"))
    denied = await hello.admin.get(SIGNING_REQUESTS, "addon-denied")
    denied["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "ByHand", "message": ""}]}
    await hello.admin.update(SIGNING_REQUESTS, denied, subresource="approval")
    await hello.ask("addon-marker")
    await until_approved(hello, "addon-marker")
    assert await hello.verdict("addon-denied") == "Denied"
