"""ManagedServiceAccountBindings as an authority on executors, on a hub that heeds them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object
from muster.registration.kinds import ADDONS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.cache.informer import Informers
from muster.runtime.client.errors import BadRequest, Forbidden
from muster.runtime.client.typed import served
from muster.runtime.webhook.server import Denied
from muster.work.hub.bindings.accounts import BINDINGS, BoundAccounts
from muster.work.hub.bindings.policy import ByBinding
from muster.work.hub.install import ACCOUNT
from muster.work.hub.manager import WorkHub
from muster.work.hub.options import ADDON_NAMESPACE, ExecutorAuthorization, WorkHubOptions
from muster.work.hub.webhooks.executors import Executor
from muster.work.kinds import MANIFEST_WORKS, REPLICA_SETS
from tests.unit.work.hub.conftest import Hub, replica_set, serving, spec, user_subject, work

ACCOUNTS = served(ManagedServiceAccount)

DEPLOYER = (ADDON_NAMESPACE, "deployer")
OPTIONS = WorkHubOptions(authorization=ExecutorAuthorization.BINDINGS)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with serving(OPTIONS) as hub:
        await hub.admin.create(ACCOUNTS, account())
        yield hub


def account(name: str = "deployer", namespace: str = "cluster1") -> Object:
    kind = {"apiVersion": ACCOUNTS.api_version, "kind": ACCOUNTS.kind}
    return {**kind, "metadata": {"name": name, "namespace": namespace}, "spec": {"rotation": {}}}


def binding(*subjects: Object, name: str = "b", account: str = "deployer", namespace: str = "cluster1") -> Object:
    kind = {"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind, "metadata": {"name": name}}
    return {**kind, "spec": {"ref": {"namespace": namespace, "name": account}, "subjects": list(subjects)}}


def user(name: str) -> Object:
    return {"kind": "User", "name": name}


async def accepted(client: InProcessClient, obj: Object) -> bool:
    """Whether a work may be created; it is not kept."""
    try:
        await client.create(MANIFEST_WORKS, obj, dry_run=True)
    except BadRequest as error:
        if "cannot manipulate the Manifestwork with executor" not in error.message:
            raise
        return False
    return True


async def until_accepted(hub: Hub, client: InProcessClient, obj: Object) -> None:
    await hub.until(lambda: accepted(client, obj))


async def until_refused(hub: Hub, client: InProcessClient, obj: Object) -> None:
    async def refused() -> bool:
        return not await accepted(client, obj)

    await hub.until(refused)


async def test_a_bound_user_may_and_others_may_not(hub: Hub) -> None:
    dave, bob = await hub.writer("dave"), await hub.writer("bob")
    await hub.admin.create(BINDINGS, binding(user("dave")))
    await until_accepted(hub, dave, work("w", spec(runs_as=DEPLOYER)))
    assert not await accepted(bob, work("w", spec(runs_as=DEPLOYER)))
    assert not await accepted(dave, work("w", spec(runs_as=("elsewhere", "deployer"))))
    assert not await accepted(dave, work("w", spec(runs_as=(ADDON_NAMESPACE, "other"))))
    assert not await accepted(dave, work("w", spec(runs_as=DEPLOYER), namespace="cluster2"))


async def test_groups_and_service_accounts_are_bound_too(hub: Hub) -> None:
    await hub.writer("carol")
    robot = "system:serviceaccount:robots:r2"
    await hub.writer(robot)
    carol, r2 = hub.user("carol", "team"), hub.user(robot)
    subjects = [{"kind": "Group", "name": "team"}, {"kind": "ServiceAccount", "namespace": "robots", "name": "r2"}]
    await hub.admin.create(BINDINGS, binding(*subjects))
    await until_accepted(hub, carol, work("w", spec(runs_as=DEPLOYER)))
    assert await accepted(r2, work("w", spec(runs_as=DEPLOYER)))
    assert not await accepted(hub.user("carol"), work("w", spec(runs_as=DEPLOYER)))


async def test_a_binding_that_goes_or_changes_no_longer_counts(hub: Hub) -> None:
    dave = await hub.writer("dave")
    wanted = work("w", spec(runs_as=DEPLOYER))
    await hub.admin.create(BINDINGS, binding(user("dave")))
    await until_accepted(hub, dave, wanted)
    await hub.admin.patch(BINDINGS, "b", {"spec": {"subjects": [user("bob")]}})
    await until_refused(hub, dave, wanted)
    await hub.admin.create(BINDINGS, binding(user("dave"), name="other"))
    await until_accepted(hub, dave, wanted)
    await hub.admin.delete(BINDINGS, "other")
    await until_refused(hub, dave, wanted)


async def test_without_the_managed_service_account_a_binding_does_not_count(hub: Hub) -> None:
    dave = await hub.writer("dave")
    await hub.admin.create(BINDINGS, binding(user("dave")))
    await until_accepted(hub, dave, work("w", spec(runs_as=DEPLOYER)))
    await hub.admin.delete(ACCOUNTS, "deployer", "cluster1")
    await until_refused(hub, dave, work("w", spec(runs_as=DEPLOYER)))


async def test_the_addon_says_where_the_account_is_on_its_cluster(hub: Hub) -> None:
    dave = await hub.writer("dave")
    await hub.admin.create(BINDINGS, binding(user("dave")))
    addon = {"apiVersion": ADDONS.api_version, "kind": ADDONS.kind, "spec": {}}
    await hub.admin.create(ADDONS, {**addon, "metadata": {"name": "managed-serviceaccount", "namespace": "cluster1"}})
    status = {"status": {"namespace": "msa"}}
    await hub.admin.patch(ADDONS, "managed-serviceaccount", status, "cluster1", subresource="status")
    await until_accepted(hub, dave, work("w", spec(runs_as=("msa", "deployer"))))
    assert not await accepted(dave, work("w", spec(runs_as=DEPLOYER)))


async def test_the_right_to_execute_does_not_count_where_only_bindings_do(hub: Hub) -> None:
    bob = await hub.writer("bob")
    await hub.let_execute("bob", DEPLOYER)
    assert not await accepted(bob, work("w", spec(runs_as=DEPLOYER)))


async def test_the_hubs_own_controller_is_known_by_its_right(hub: Hub) -> None:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HUB_NAMESPACE}")
    controller = hub.user(f"system:serviceaccount:{HUB_NAMESPACE}:{ACCOUNT}", *groups)
    await controller.create(MANIFEST_WORKS, work("w", spec(runs_as=("any", "account"))))


async def test_a_replica_set_needs_the_right_for_a_binding_speaks_of_one_cluster(hub: Hub) -> None:
    dave = await hub.writer("dave")
    await hub.admin.create(BINDINGS, binding(user("dave")))
    await until_accepted(hub, dave, work("w", spec(runs_as=DEPLOYER)))
    with pytest.raises(BadRequest, match="in all namespaces"):
        await dave.create(REPLICA_SETS, replica_set("r", spec(runs_as=DEPLOYER)))
    await hub.let_execute("dave", DEPLOYER, "")
    await dave.create(REPLICA_SETS, replica_set("r", spec(runs_as=DEPLOYER)))


async def test_either_is_enough_where_either_counts() -> None:
    async with serving(WorkHubOptions(authorization=ExecutorAuthorization.EITHER)) as hub:
        await hub.admin.create(ACCOUNTS, account())
        dave, bob, eve = [await hub.writer(name) for name in ("dave", "bob", "eve")]
        await hub.let_execute("bob", DEPLOYER)
        await hub.admin.create(BINDINGS, binding(user("dave")))
        wanted = work("w", spec(runs_as=DEPLOYER))
        await until_accepted(hub, dave, wanted)
        assert await accepted(bob, wanted)
        assert not await accepted(eve, wanted)


BINDS: list[Object] = [
    {
        "apiGroups": ["authentication.open-cluster-management.io"],
        "resources": ["managedserviceaccountbindings"],
        "verbs": ["create", "get", "update", "patch"],
    }
]


async def test_binding_an_account_takes_the_right_to_execute_as_it(hub: Hub) -> None:
    await hub.let("binds", user_subject("eve"), BINDS)
    eve = hub.user("eve")
    await hub.admin.create(BINDINGS, binding(user("eve"), name="eves"))
    with pytest.raises(Forbidden) as refused:
        await eve.create(BINDINGS, binding(user("eve")))
    assert (
        'user "eve" cannot execute as system:serviceaccount:open-cluster-management-agent-addon:deployer' in refused.value.message
    )
    await hub.let_execute("eve", DEPLOYER)
    await eve.create(BINDINGS, binding(user("friend")))
    with pytest.raises(Forbidden, match=":other in namespace cluster1"):
        await eve.patch(BINDINGS, "b", {"spec": {"ref": {"name": "other"}}})
    await hub.admin.patch(BINDINGS, "b", {"spec": {"ref": {"name": "other"}}})
    with pytest.raises(Forbidden, match=":other in namespace cluster1"):
        await eve.patch(BINDINGS, "b", {"spec": {"ref": {"name": "deployer"}}})
    await eve.patch(BINDINGS, "b", {"metadata": {"labels": {"a": "b"}}})


async def test_before_the_caches_are_complete_nobody_is_let_in(hub: Hub) -> None:
    class NoReviews:
        async def allows(self, who: UserInfo, executor: Executor, namespace: str) -> bool:
            return False

    policy = ByBinding(BoundAccounts(Informers(hub.own), ADDON_NAMESPACE), NoReviews(), "controller", either=True)
    with pytest.raises(Denied) as refused:
        await policy.allows(UserInfo("dave"), Executor(*DEPLOYER), "cluster1")
    assert (refused.value.code, refused.value.reason) == (503, "ServiceUnavailable")


@asynccontextmanager
async def controllers(hub: Hub) -> AsyncIterator[WorkHub]:
    running = WorkHub(hub.own, OPTIONS)
    task = asyncio.create_task(running.run())
    try:
        yield running
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_binding_says_whether_it_counts(hub: Hub) -> None:
    async def says(*expected: tuple[str, str, str]) -> bool:
        found = await hub.admin.get(BINDINGS, "b")
        conditions: list[Any] = (found.get("status") or {}).get("conditions") or []
        return [(one["type"], one["status"], one["reason"]) for one in conditions] == list(expected)

    await hub.admin.create(BINDINGS, binding(user("dave"), account="late"))
    missing = "ManagedServiceAccountNotFound"
    async with controllers(hub):
        await hub.until(lambda: says(("RefFound", "False", missing), ("Accepted", "False", missing)))
        await hub.admin.create(ACCOUNTS, account("late"))
        await hub.until(lambda: says(("RefFound", "True", "ManagedServiceAccountFound"), ("Accepted", "True", "Bound")))
        await hub.admin.patch(BINDINGS, "b", {"spec": {"subjects": []}})
        await hub.until(lambda: says(("RefFound", "True", "ManagedServiceAccountFound"), ("Accepted", "False", "NoSubjects")))
        await hub.admin.delete(ACCOUNTS, "late", "cluster1")
        await hub.until(lambda: says(("RefFound", "False", missing), ("Accepted", "False", missing)))
