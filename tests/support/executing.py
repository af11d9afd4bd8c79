"""The managed cluster's administrator in tests of executors: gives and takes permissions, and counts what an agent asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from muster.machinery.objects import GVR, Object
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import NotFound
from tests.support.working import Running, Workplace, condition

GROUP = "rbac.authorization.k8s.io"
FULL = ("create", "update", "patch", "get", "delete")


def rule(verbs: Sequence[str] = FULL, resources: str = "configmaps", group: str = "", names: Sequence[str] = ()) -> Object:
    made: Object = {"verbs": list(verbs), "apiGroups": [group], "resources": resources.split(",")}
    return {**made, "resourceNames": list(names)} if names else made


def role(name: str, namespace: str, *rules: Object) -> Object:
    """As a manifest."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)}


def binding(name: str, namespace: str, ref: str, *subjects: Object, kind: str = "Role") -> Object:
    """As a manifest."""
    metadata = {"name": name, "namespace": namespace}
    reference = {"apiGroup": GROUP, "kind": kind, "name": ref}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": reference,
        "subjects": list(subjects),
    }


def sars(agent: Running) -> int:
    """How many reviews it has asked for."""
    return sum(path.endswith("/subjectaccessreviews") for _, path in agent.spoke.asked)


class Keeper:
    """Keeps permissions on the managed cluster of a `Workplace`. What it makes for the whole cluster it takes away in `close`."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.admin = place.admin
        self.home = f"sa-{place.name}"
        """The namespace of the executors' accounts; neither it nor they need exist."""
        self._wide: list[tuple[GVR, str]] = []

    async def close(self) -> None:
        for resource, name in self._wide:
            try:
                await self.admin.delete(resource, name)
            except NotFound:
                continue

    def executor(self, name: str = "exec1") -> Object:
        account = {"namespace": self.home, "name": name}
        return {"subject": {"type": "ServiceAccount", "serviceAccount": account}}

    def user(self, name: str = "exec1") -> str:
        return f"system:serviceaccount:{self.home}:{name}"

    def account(self, name: str = "exec1") -> Object:
        return {"kind": "ServiceAccount", "namespace": self.home, "name": name}

    def group(self, name: str) -> Object:
        return {"kind": "Group", "apiGroup": GROUP, "name": name}

    def wide(self, name: str) -> str:
        return f"{self.place.name}-{name}"

    async def namespace(self, name: str) -> str:
        made = self.wide(name)
        await self.admin.create(NAMESPACES, {"metadata": {"name": made}})
        self._wide.append((NAMESPACES, made))
        return made

    async def role(self, name: str, *rules: Object, namespace: str | None = None) -> None:
        """In the namespace of works, or for the whole cluster where the namespace is empty."""
        where = self.place.namespace if namespace is None else namespace
        await self._apply(ROLES if where else CLUSTER_ROLES, name, where, {"rules": list(rules)})

    async def bind(self, name: str, *subjects: Object, kind: str = "", ref: str = "", namespace: str | None = None) -> None:
        where = self.place.namespace if namespace is None else namespace
        kind = kind or ("Role" if where else "ClusterRole")
        reference = {"apiGroup": GROUP, "kind": kind, "name": ref or (name if where else self.wide(name))}
        await self._apply(
            ROLE_BINDINGS if where else CLUSTER_ROLE_BINDINGS,
            name,
            where,
            {"roleRef": reference, "subjects": list(subjects or (self.account(),))},
        )

    async def grant(self, name: str, *rules: Object, to: Object | None = None, namespace: str | None = None) -> None:
        await self.role(name, *rules, namespace=namespace)
        await self.bind(name, to or self.account(), namespace=namespace)

    async def revoke(self, name: str, namespace: str | None = None) -> None:
        where = self.place.namespace if namespace is None else namespace
        await self.admin.delete(ROLE_BINDINGS if where else CLUSTER_ROLE_BINDINGS, name if where else self.wide(name), where)

    async def _apply(self, resource: GVR, name: str, namespace: str, content: Object) -> None:
        metadata = {"name": name, "namespace": namespace}
        if not namespace:
            metadata = {"name": self.wide(name)}
            self._wide.append((resource, metadata["name"]))
        await self.admin.apply(resource, {"metadata": metadata, **content}, manager="tests")

    # What people on the hub see.

    async def wait_refused(self, work: str, *texts: str, timeout: float = 40.0) -> list[str]:
        """The messages of the manifests, once the work is refused for its current generation with these texts, in their order."""

        async def look() -> list[str]:
            found = await self.place.work(work)
            assert found is not None
            status = found.get("status") or {}
            applied = condition(status, "Applied")
            manifests = (status.get("resourceStatus") or {}).get("manifests") or []
            messages = [condition(one, "Applied").get("message", "") for one in manifests]
            current = applied.get("observedGeneration") == found["metadata"]["generation"]
            right = len(messages) >= len(texts) and all(text in message for text, message in zip(texts, messages, strict=False))
            return messages if current and applied.get("status") == "False" and right else []

        found: list[str] = await self.place.wait(look, f"{work} to be refused with {texts}", timeout)
        return found

    async def never(self, look: Any, what: str, seconds: float = 0.5) -> None:
        """That the coroutine of `look` gives nothing true for so long: for what must not happen."""
        for _ in range(5):
            assert not await look(), what
            await asyncio.sleep(seconds / 5)
