"""The gate against brute force: every verb of every object reviewed, and every role tried out in the executor's own name."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from random import Random
from typing import Any

from muster.api.work.v1 import ExecutorServiceAccount
from muster.kube.rbac import API_GROUP
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import GVR, Object
from muster.runtime.auth.delegation import AccessReviewer
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import Forbidden
from muster.work.agent.executor import ExecutorOptions
from muster.work.agent.interfaces import Manifest
from tests.support.gates import LoneGate
from tests.support.manifests import manifest
from tests.support.rbac_truth import ACCOUNTS, NAMES, World, account

VERBS = ("create", "update", "patch", "get", "delete")
DEPLOYMENTS = GVR("apps/v1", "deployments", "Deployment")
GROUP = API_GROUP


def understood(ordinal: int, resource: GVR, namespace: str, name: str, **content: Any) -> Manifest:
    metadata = {"name": name, **({"namespace": namespace} if resource.namespaced else {})}
    return replace(
        manifest({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}), ordinal=ordinal
    )


async def reviewed(reviewer: AccessReviewer, who: UserInfo, manifest: Manifest) -> bool:
    """Whether the cluster allows every verb."""
    ref = manifest.ref
    actions = [
        AccessAttributes(verb, ref.resource.group, "*", ref.resource.plural, namespace=ref.namespace, name=ref.name)
        for verb in VERBS
    ]
    return all(verdict.allowed for verdict in await asyncio.gather(*(reviewer.review(who, action) for action in actions)))


async def compare_permissions(client: KubeClient, world: World, gate: LoneGate, rounds: int) -> tuple[int, int]:
    """Changes permissions and has the gate judge works each time; gives how many manifests were allowed and refused."""
    reviewer = AccessReviewer(client)
    manifests = [
        understood(0, resource, namespace, name)
        for resource in (CONFIG_MAPS, DEPLOYMENTS)
        for namespace in world.namespaces
        for name in NAMES
    ]
    manifests = [replace(one, ordinal=ordinal) for ordinal, one in enumerate(manifests)]
    counts = [0, 0]
    for _ in range(rounds):
        for _ in range(3):
            await world.change()
        home, name = world.random.choice(ACCOUNTS)
        executor = ExecutorServiceAccount(namespace=f"{world.prefix}-{home}", name=name)
        who = account(executor.namespace, name)
        end = time.monotonic() + 10
        while True:
            refused = set(await gate.check(executor, manifests, []))
            expected = {one.ordinal for one in manifests if not await reviewed(reviewer, who, one)}
            if refused == expected:
                break
            assert time.monotonic() < end, (who, refused ^ expected)
            await asyncio.sleep(0.05)
        counts[0] += len(manifests) - len(refused)
        counts[1] += len(refused)
    return counts[0], counts[1]


RULES = (
    {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
    {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]},
    {"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]},
    {"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]},
    {"verbs": ["get", "update"], "apiGroups": ["apps", ""], "resources": ["deployments", "pods"], "resourceNames": ["a", "b"]},
    {"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"]},
    {"verbs": ["create"], "apiGroups": ["apps"], "resources": ["deployments"]},
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
)


PATHS = (
    {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    {"verbs": ["get"], "nonResourceURLs": ["/metrics/*", "/healthz"]},
    {"verbs": ["get"], "nonResourceURLs": ["/metrics**"]},
)
"""Only roles for the whole cluster may have these."""


async def compare_escalation(client: KubeClient, random: Random, namespace: str, rounds: int) -> tuple[int, int]:
    """Random executors with random roles to write and to bind, for a namespace and for the whole cluster: the gate calls escalation
    what the server refuses to them, and only that."""
    gate = LoneGate(client, ExecutorOptions(strict=False))
    running = asyncio.create_task(gate.run())
    wide = [f"{namespace}-{number}" for number in range(len(RULES) + len(PATHS))]
    made: list[tuple[GVR, str]] = []

    async def create(resource: GVR, document: Object) -> None:
        await client.create(resource, document)
        if not resource.namespaced:
            made.append((resource, document["metadata"]["name"]))

    counts = [0, 0]
    try:
        for name, rule in zip(wide, (*RULES, *PATHS), strict=True):
            await create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]})
        for number in range(rounds):
            executor = ExecutorServiceAccount(namespace=namespace, name=f"writer{number}")
            everywhere = bool(number % 2)
            rules = _holdings(random, wide, everywhere)
            metadata = {"name": f"{namespace}-{executor.name}", **({} if everywhere else {"namespace": namespace})}
            reference = {"apiGroup": GROUP, "kind": "ClusterRole" if everywhere else "Role", "name": metadata["name"]}
            subject = {"kind": "ServiceAccount", "namespace": namespace, "name": executor.name}
            await create(CLUSTER_ROLES if everywhere else ROLES, {"metadata": metadata, "rules": rules})
            await create(
                CLUSTER_ROLE_BINDINGS if everywhere else ROLE_BINDINGS,
                {"metadata": metadata, "roleRef": reference, "subjects": [subject]},
            )
            manifests = _granting(random, f"new{number}", namespace, wide, everywhere)
            refusals = await _steady(gate, executor, manifests)
            # By now both the agent and the server know the executor's role.
            robot = client.as_user(account(namespace, executor.name).name)
            for one in manifests:
                refused = await _refuses(robot, one)
                told = refusals.get(one.ordinal)
                assert (told is not None) is refused, (rules, one.document, told)
                assert told is None or "permission escalation" in told.message, told
                counts[refused] += 1
    finally:
        for resource, name in made:
            await client.delete(resource, name)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return counts[0], counts[1]


def _holdings(random: Random, wide: list[str], everywhere: bool) -> list[Object]:
    """What an executor may: to write roles and bindings, and some more."""
    plurals = ["roles", "rolebindings", *(["clusterroles", "clusterrolebindings"] if everywhere else [])]
    rules: list[Object] = [{"verbs": list(VERBS), "apiGroups": [GROUP], "resources": plurals}]
    rules += random.sample(RULES[:-1], random.randint(1, 4))
    if everywhere:
        rules += random.sample(PATHS, random.randint(0, 2))
    if random.random() < 0.5:
        rules.append(
            {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": random.sample(wide, 2)}
        )
    return rules


def _granting(random: Random, prefix: str, namespace: str, wide: list[str], everywhere: bool) -> list[Manifest]:
    """Roles and bindings to write."""
    manifests: list[Manifest] = []
    for number in range(12):
        name, scope = f"{prefix}-{number}", random.choice(("", namespace)) if everywhere else namespace
        if number % 2:
            subject = {"kind": "ServiceAccount", "namespace": namespace, "name": "anybody"}
            reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": random.choice(wide)}
            kind, content = ROLE_BINDINGS if scope else CLUSTER_ROLE_BINDINGS, {"roleRef": reference, "subjects": [subject]}
        else:
            rules = random.sample(RULES if scope else (*RULES, *PATHS), random.randint(1, 2))
            kind, content = ROLES if scope else CLUSTER_ROLES, {"rules": rules}
        manifests.append(understood(number, kind, scope, name, **content))
    return manifests


async def _steady(gate: LoneGate, executor: ExecutorServiceAccount, manifests: list[Manifest]) -> Any:
    end = time.monotonic() + 10
    probe = understood(99, ROLES, executor.namespace, "probe", rules=[])
    while await gate.check(executor, [probe], []):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)
    return await gate.check(executor, manifests, [])


async def _refuses(robot: KubeClient, manifest: Manifest) -> bool:
    try:
        await robot.apply(manifest.ref.resource, manifest.document, manager="tests", dry_run=True)
    except Forbidden:
        return True
    return False
