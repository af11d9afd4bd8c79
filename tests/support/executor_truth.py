"""The gate against brute force: every verb of every object reviewed, and every role tried out in the executor's own name."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from random import Random
from typing import Any

from muster.api.work.v1 import ExecutorServiceAccount
from muster.kube.rbac import API_GROUP
from muster.runtime.delegation import AccessReviewer, Action, Identity
from muster.runtime.errors import Forbidden
from muster.runtime.rbac import ROLE_BINDINGS, ROLES
from muster.runtime.resource import CONFIG_MAPS, Resource
from muster.runtime.verbs import KubeClient
from muster.work.agent.executor import ExecutorGate, ExecutorOptions
from muster.work.agent.seam import Manifest
from tests.support.manifests import manifest
from tests.support.rbac_truth import ACCOUNTS, NAMES, World, account

VERBS = ("create", "update", "patch", "get", "delete")
DEPLOYMENTS = Resource("apps/v1", "deployments", "Deployment")
GROUP = API_GROUP


def understood(ordinal: int, resource: Resource, namespace: str, name: str, **content: Any) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    return replace(
        manifest({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}), ordinal=ordinal
    )


async def reviewed(reviewer: AccessReviewer, who: Identity, manifest: Manifest) -> bool:
    """Whether the cluster allows every verb."""
    ref = manifest.ref
    actions = [Action(verb, ref.resource.group, ref.resource.plural, ref.namespace, ref.name) for verb in VERBS]
    return all(verdict.allowed for verdict in await asyncio.gather(*(reviewer.review(who, action) for action in actions)))


async def compare_permissions(client: KubeClient, world: World, gate: ExecutorGate, rounds: int) -> tuple[int, int]:
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


async def compare_escalation(client: KubeClient, random: Random, namespace: str, rounds: int) -> tuple[int, int]:
    """Random executors with random roles to write: the gate calls escalation what the server refuses to them, and only that."""
    gate = ExecutorGate(client, ExecutorOptions(strict=False))
    running = asyncio.create_task(gate.run())
    managing = {"verbs": list(VERBS), "apiGroups": [GROUP], "resources": ["roles"]}
    counts = [0, 0]
    try:
        for number in range(rounds):
            executor = ExecutorServiceAccount(namespace=namespace, name=f"writer{number}")
            rules = [managing, *random.sample(RULES[:-1], random.randint(1, 4))]
            metadata = {"name": executor.name, "namespace": namespace}
            reference = {"apiGroup": GROUP, "kind": "Role", "name": executor.name}
            subject = {"kind": "ServiceAccount", "namespace": namespace, "name": executor.name}
            await client.create(ROLES, {"metadata": metadata, "rules": rules})
            await client.create(ROLE_BINDINGS, {"metadata": metadata, "roleRef": reference, "subjects": [subject]})
            wanted = [random.sample(RULES, random.randint(1, 2)) for _ in range(8)]
            manifests = [understood(i, ROLES, namespace, f"new{number}-{i}", rules=rules) for i, rules in enumerate(wanted)]
            refusals = await _steady(gate, executor, manifests)
            # By now both the agent and the server know the executor's role.
            robot = client.as_user(account(namespace, executor.name).name)
            for one in manifests:
                refused = await _refuses(robot, one)
                told = refusals.get(one.ordinal)
                assert (told is not None) is refused, (rules, one.document["rules"], told)
                assert told is None or "permission escalation" in told.message, told
                counts[refused] += 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return counts[0], counts[1]


async def _steady(gate: ExecutorGate, executor: ExecutorServiceAccount, manifests: list[Manifest]) -> Any:
    end = time.monotonic() + 10
    probe = understood(99, ROLES, manifests[0].ref.namespace, "probe", rules=[])
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
