"""What agents need that use tokens: made, told, kept right, and removed with the driver or the addon."""

from __future__ import annotations

from typing import Any

import pytest

from muster.addon.driver_changes import REMOVALS, WINDOW
from muster.api.addons import NAME_LABEL, TOKEN_INFRASTRUCTURE_LABEL
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.registration.names import CLIENT_SIGNER
from muster.runtime.auth import AccessReviewer
from muster.runtime.client import Forbidden
from muster.runtime.client.builtin import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from tests.support.addon_hub import ADDONS, AddonHub
from tests.support.addon_requests import CLUSTER, agent_of

READY = "TokenInfrastructureReady"
CLIENT = [{"signerName": CLIENT_SIGNER, "subject": {"user": "u"}}]
TOKEN = {"registrations": CLIENT, "kubeClientDriver": "token"}
LABELS = {NAME_LABEL: "hello", TOKEN_INFRASTRUCTURE_LABEL: "true"}
OBJECTS = ((SERVICE_ACCOUNTS, "hello-agent"), (ROLES, "hello-token-role"), (ROLE_BINDINGS, "hello-token-role"))
GROUP = "rbac.authorization.k8s.io"


async def condition(hub: AddonHub, name: str = "hello") -> dict[str, Any] | None:
    addon = await hub.admin.get(ADDONS, name, CLUSTER)
    conditions = (addon.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == READY), None)


async def until_ready(hub: AddonHub) -> str:
    """Gives the account's uid, as agents read it out of the message."""

    async def look() -> str:
        found = await condition(hub) or {}
        account = await hub.find(SERVICE_ACCOUNTS, "hello-agent", CLUSTER)
        uid = str(found.get("message")).partition("UID: ")[2].partition(")")[0]
        return uid if account is not None and account["metadata"]["uid"] == uid and found["status"] == "True" else ""

    return str(await hub.until(look, "the token infrastructure"))


async def none_left(hub: AddonHub) -> bool:
    return not any([await hub.find(kind, name, CLUSTER) for kind, name in OBJECTS])


async def another_is_ready(hub: AddonHub, name: str = "other") -> None:
    """So that whatever was there before has had its turn."""
    await hub.enable(name=name)
    await hub.status(TOKEN, name=name)

    async def look() -> bool:
        return (await condition(hub, name) or {}).get("status") == "True"

    await hub.until(look, "another addon's infrastructure")


@pytest.fixture
async def token(hub: AddonHub) -> AddonHub:
    """A hub with an addon whose agent uses tokens."""
    await hub.cluster()
    await hub.enable()
    await hub.status(TOKEN)
    await until_ready(hub)
    return hub


async def test_the_agents_of_the_cluster_may_create_the_token_of_this_account(token: AddonHub) -> None:
    uid = await until_ready(token)
    found = [await token.admin.get(kind, name, CLUSTER) for kind, name in OBJECTS]
    assert all(one["metadata"]["labels"] == LABELS for one in found)
    account, role, binding = found
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["hello-agent"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["subscribe"]},
    ]
    assert binding["roleRef"] == {"apiGroup": GROUP, "kind": "Role", "name": "hello-token-role"}
    assert binding["subjects"] == [
        {"kind": "Group", "apiGroup": GROUP, "name": "system:open-cluster-management:cluster1"},
        {"kind": "Group", "apiGroup": GROUP, "name": "open-cluster-management:cluster1"},
    ]
    assert account["metadata"]["uid"] == uid
    told = await condition(token)
    assert told is not None
    assert (told["status"], told["reason"]) == ("True", READY)
    assert told["message"] == f"ServiceAccount cluster1/hello-agent (UID: {uid}) is ready"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    agent = token.client(agent_of())
    await agent.create(SERVICE_ACCOUNTS, request, CLUSTER, name="hello-agent", subresource="token")
    with pytest.raises(Forbidden):
        await agent.create(SERVICE_ACCOUNTS, request, CLUSTER, name="default", subresource="token")
    other = token.client(agent_of("cluster2"))
    with pytest.raises(Forbidden):
        await other.create(SERVICE_ACCOUNTS, request, CLUSTER, name="hello-agent", subresource="token")


async def test_at_rest_nothing_is_written(token: AddonHub) -> None:
    before = [await token.admin.get(kind, name, CLUSTER) for kind, name in OBJECTS]
    addon = await token.admin.get(ADDONS, "hello", CLUSTER)
    await token.admin.patch(ADDONS, "hello", {"metadata": {"annotations": {"a": "b"}}}, CLUSTER)
    await another_is_ready(token)
    assert [await token.admin.get(kind, name, CLUSTER) for kind, name in OBJECTS] == before
    assert (await token.admin.get(ADDONS, "hello", CLUSTER))["status"] == addon["status"]


@pytest.mark.parametrize("verdict", ["True", "False"])
async def test_an_account_stays_until_the_certificate_is_there(token: AddonHub, verdict: str) -> None:
    uid = await until_ready(token)
    ready, since = await condition(token), {"reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    refreshed = {"type": "TokenRefreshed", "status": verdict, **since}
    await token.status({"kubeClientDriver": "csr", "conditions": [ready, refreshed]})
    await another_is_ready(token)
    assert await until_ready(token) == uid
    rotated = {"type": "ClusterCertificateRotated", "status": "True", **since}
    await token.status({"conditions": [ready, refreshed, rotated]})
    await token.until(lambda: none_left(token), "account, role and binding to be gone")


@pytest.mark.parametrize(("kind", "name"), OBJECTS)
async def test_what_is_deleted_comes_back(token: AddonHub, kind: Any, name: str) -> None:
    before = await until_ready(token)
    await token.admin.delete(kind, name, CLUSTER)
    await token.until(lambda: token.find(kind, name, CLUSTER), f"{name} to be back")
    after = await until_ready(token)
    assert (after != before) == (kind == SERVICE_ACCOUNTS)


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        (ROLES, "hello-token-role", {"rules": []}),
        (ROLES, "hello-token-role", {"metadata": {"labels": None}}),
        (ROLE_BINDINGS, "hello-token-role", {"subjects": [{"kind": "User", "apiGroup": GROUP, "name": "mallory"}]}),
        (ROLE_BINDINGS, "hello-token-role", {"metadata": {"labels": {NAME_LABEL: "other"}}}),
        (SERVICE_ACCOUNTS, "hello-agent", {"metadata": {"labels": {TOKEN_INFRASTRUCTURE_LABEL: None}}}),
    ],
)
async def test_what_drifts_is_put_right(token: AddonHub, kind: Any, name: str, change: Any) -> None:
    before = await token.admin.get(kind, name, CLUSTER)
    await token.admin.patch(kind, name, change, CLUSTER)
    said = ("rules", "subjects", "roleRef")

    async def look() -> bool:
        found = await token.admin.get(kind, name, CLUSTER)
        same = all(found.get(field) == before.get(field) for field in said)
        return same and found["metadata"].get("labels") == LABELS and found["metadata"]["uid"] == before["metadata"]["uid"]

    await token.until(look, f"{name} to be put right")


async def test_a_binding_to_another_role_is_made_anew(token: AddonHub) -> None:
    await token.admin.delete(ROLE_BINDINGS, "hello-token-role", CLUSTER)
    foreign = {"metadata": {"name": "hello-token-role", "namespace": CLUSTER, "labels": LABELS}}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
    await token.admin.apply(ROLE_BINDINGS, {**foreign, "roleRef": reference, "subjects": []}, manager="test")

    async def look() -> bool:
        found = await token.find(ROLE_BINDINGS, "hello-token-role", CLUSTER) or {}
        return (found.get("roleRef") or {}).get("kind") == "Role"

    await token.until(look, "the binding to be made anew")


async def test_with_certificates_again_everything_goes_and_so_does_the_condition(token: AddonHub) -> None:
    await token.status({"kubeClientDriver": "csr"})
    await token.until(lambda: none_left(token), "the objects to be gone")

    async def look() -> bool:
        return await condition(token) is None

    await token.until(look, "the condition to be gone")


async def test_an_agent_that_goes_to_and_fro_has_it_made_and_removed_a_bounded_number_of_times(idle: AddonHub) -> None:
    """And none of its turns to tokens waits for anything."""
    await idle.cluster()
    await idle.enable()
    accounts: set[str] = set()
    async with idle.running() as life:
        for number in range(2 * REMOVALS):
            await idle.status(TOKEN)
            accounts.add(await until_ready(idle))
            await idle.status({"kubeClientDriver": "csr"})
            await another_is_ready(idle, f"other{number}")
        removed = [path for method, path in life.writes if method == "DELETE"]
        assert (len(accounts), len(removed)) == (REMOVALS + 1, REMOVALS * len(OBJECTS))
        told = await condition(idle)
        assert told is not None, "as long as it is there"
        await idle.until(lambda: none_left(idle), "what stayed to go in the end", moving=WINDOW / 100)


async def test_until_the_certificate_is_there_the_account_stays(token: AddonHub) -> None:
    refreshed = {"type": "TokenRefreshed", "status": "True", "reason": "Refreshed", "lastTransitionTime": "2026-11-18T00:00:00Z"}
    kept = await condition(token)
    await token.status({"kubeClientDriver": "csr", "conditions": [kept, {**refreshed, "message": ""}]})
    await another_is_ready(token)
    assert await token.find(SERVICE_ACCOUNTS, "hello-agent", CLUSTER) is not None
    await token.status({"conditions": [kept, {**refreshed, "type": "ClusterCertificateRotated", "message": ""}]})
    await token.until(lambda: none_left(token), "the objects to be gone")


async def test_with_the_addon_everything_goes(token: AddonHub) -> None:
    await token.admin.delete(ADDONS, "hello", CLUSTER)
    await token.until(lambda: none_left(token), "the objects to be gone")


async def test_while_the_addon_is_being_deleted_its_agent_keeps_its_account(token: AddonHub) -> None:
    await token.admin.patch(ADDONS, "hello", {"metadata": {"finalizers": ["example.com/hook"]}}, CLUSTER)
    await token.admin.delete(ADDONS, "hello", CLUSTER)
    await token.enable(name="other")
    await token.status(TOKEN, name="other")
    await token.until(lambda: token.find(ROLE_BINDINGS, "other-token-role", CLUSTER), "another addon's infrastructure")
    assert all([await token.find(kind, name, CLUSTER) for kind, name in OBJECTS])
    await token.admin.patch(ADDONS, "hello", {"metadata": {"finalizers": None}}, CLUSTER)
    await token.until(lambda: none_left(token), "the objects to be gone")


async def test_an_addon_that_went_while_nobody_looked_leaves_nothing(idle: AddonHub) -> None:
    await idle.cluster()
    await idle.enable()
    await idle.status(TOKEN)
    async with idle.running():
        await until_ready(idle)
    await idle.admin.delete(ADDONS, "hello", CLUSTER)
    async with idle.running():
        await idle.until(lambda: none_left(idle), "the objects to be gone")


async def test_an_account_that_somebody_else_made_is_not_given_away(hub: AddonHub) -> None:
    await hub.cluster()
    own = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "hello-agent", "namespace": CLUSTER}}
    await hub.admin.create(SERVICE_ACCOUNTS, own)
    await hub.enable()
    await hub.status(TOKEN)
    told = await hub.until(lambda: condition(hub), "a condition")
    assert (told["status"], told["reason"]) == ("False", "TokenInfrastructureApplyFailed")
    assert told["message"].startswith("Failed to apply token infrastructure: ServiceAccount cluster1/hello-agent was created by")
    assert await hub.find(ROLE_BINDINGS, "hello-token-role", CLUSTER) is None
    await hub.admin.patch(SERVICE_ACCOUNTS, "hello-agent", {"metadata": {"labels": LABELS}}, CLUSTER)
    await until_ready(hub)


async def test_a_name_that_no_label_can_hold_is_said_and_harms_nobody(hub: AddonHub) -> None:
    await hub.cluster()
    await hub.enable(name="a" * 100)
    await hub.status(TOKEN, name="a" * 100)
    told = await hub.until(lambda: condition(hub, "a" * 100), "a condition")
    assert told["reason"] == "TokenInfrastructureApplyFailed"
    await hub.enable()
    await hub.status(TOKEN)
    await until_ready(hub)


@pytest.mark.parametrize(
    "status",
    [
        {"kubeClientDriver": "token"},
        {"registrations": CLIENT},
        {"registrations": [{"signerName": "example.com/own"}], "kubeClientDriver": "token"},
    ],
)
async def test_without_a_client_that_uses_tokens_there_is_nothing(hub: AddonHub, status: Any) -> None:
    await hub.cluster()
    await hub.enable()
    await hub.status(status)
    await hub.enable(name="other")
    await hub.status(TOKEN, name="other")
    await hub.until(lambda: hub.find(ROLE_BINDINGS, "other-token-role", CLUSTER), "another addon's infrastructure")
    assert await none_left(hub)


async def test_the_manager_approves_for_kubernetes_clients_only_and_signs_for_nobody(hub: AddonHub) -> None:
    """Defect 16."""
    reviewer = AccessReviewer(hub.admin)
    who = UserInfo("system:serviceaccount:open-cluster-management-hub:addon-manager-controller-sa")
    for verb, signer, allowed in (
        ("approve", CLIENT_SIGNER, True),
        ("approve", "kubernetes.io/kubelet-serving", False),
        ("sign", CLIENT_SIGNER, False),
        ("sign", "example.com/own", False),
        ("approve", "example.com/own", False),
    ):
        asked = AccessAttributes(verb, "certificates.k8s.io", resource="signers", name=signer)
        assert (await reviewer.authorize(who, asked)).allowed == allowed, (verb, signer)
