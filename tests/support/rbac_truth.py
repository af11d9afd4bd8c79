"""Random roles, bindings and questions, for comparing who answers what: RBAC decided here against a server's reviews.

A `World` keeps a handful of roles and bindings on a cluster and changes some of them each round: wildcards, names of objects,
subresources, groups, paths, bindings to roles that do not exist, and a role that aggregates others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from random import Random
from typing import Any

from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import GVR, Object
from muster.runtime.auth.delegation import AccessReviewer
from muster.runtime.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, RbacAuthorizer
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import AlreadyExists, NotFound

VERBS = ("get", "create", "delete", "execute-as", "*")
GROUPS = ("", "apps", "example.com", "*")
RESOURCES = ("configmaps", "pods", "pods/log", "pods/*", "*", "*/log", "deployments", "deployments/scale")
NAMES = ("a", "b", "c")
PATHS = ("/metrics", "/logs/*", "/logs**", "*")
ACCOUNTS = (("one", "robot"), ("two", "robot"), ("one", "other"))
ROLE_NAMES = ("r1", "r2", "missing")
BINDING_NAMES = ("b1", "b2", "b3", "b4", "b5")
AGGREGATE = "truth.example.com/aggregate"


def account(namespace: str, name: str) -> UserInfo:
    groups = ("system:serviceaccounts", "system:authenticated", f"system:serviceaccounts:{namespace}")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)


class World:
    def __init__(self, client: KubeClient, random: Random, prefix: str) -> None:
        self.client = client
        self.random = random
        self.prefix = prefix
        self.namespaces = (f"{prefix}-one", f"{prefix}-two")
        self.made: dict[tuple[GVR, str, str], Object] = {}

    async def prepare(self) -> None:
        for namespace in self.namespaces:
            await self.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        selector = {"matchLabels": {AGGREGATE: self.prefix}}
        role = {"metadata": {"name": self._wide("sum")}, "aggregationRule": {"clusterRoleSelectors": [selector]}}
        await self.client.create(CLUSTER_ROLES, role)
        for _ in range(40):
            await self.change()

    async def remove(self) -> None:
        for resource, namespace, name in list(self.made):
            await self.client.delete(resource, name, namespace)
        await self.client.delete(CLUSTER_ROLES, self._wide("sum"))
        for namespace in self.namespaces:
            await self.client.delete(NAMESPACES, namespace)

    async def change(self) -> None:
        """One role or binding comes, is replaced, or goes."""
        random = self.random
        obj, resource = random.choice((self._role, self._cluster_role, self._binding, self._cluster_binding))()
        meta = obj["metadata"]
        key = (resource, meta.get("namespace", ""), meta["name"])
        known = self.made.pop(key, None)
        if known is not None and random.random() < 0.15:
            await self.client.delete(resource, key[2], key[1])
            return
        if known is not None and known.get("roleRef") != obj.get("roleRef"):
            await self.client.delete(resource, key[2], key[1])
            known = None
        if known is not None:
            meta["resourceVersion"] = known["metadata"]["resourceVersion"]
            self.made[key] = await self.client.update(resource, obj)
            return
        try:
            self.made[key] = await self.client.create(resource, obj)
        except (AlreadyExists, NotFound) as error:
            raise AssertionError(f"{key}: {error}") from error

    def question(self) -> tuple[UserInfo, AccessAttributes]:
        random = self.random
        namespace, name = random.choice(ACCOUNTS)
        who = account(self._home(namespace), name)
        if random.random() < 0.1:
            return who, AccessAttributes(random.choice(("get", "post")), path=random.choice(("/metrics", "/logs/x", "/healthy")))
        return who, AccessAttributes(
            random.choice(VERBS[:-1]),
            group=random.choice(GROUPS[:-1]),
            version="*",
            resource=random.choice(("configmaps", "pods", "deployments")),
            subresource=random.choice(("", "", "", "log", "scale")),
            namespace=random.choice((*self.namespaces, "")),
            name=random.choice(("", *NAMES)),
        )

    def _wide(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def _home(self, namespace: str) -> str:
        return f"{self.prefix}-{namespace}"

    def _some(self, values: Iterable[str], most: int = 2) -> list[str]:
        return self.random.sample(list(values), self.random.randint(1, most))

    def _rule(self) -> Object:
        rule: Object = {"verbs": self._some(VERBS, 3), "apiGroups": self._some(GROUPS), "resources": self._some(RESOURCES, 3)}
        if self.random.random() < 0.4:
            rule["resourceNames"] = self._some(NAMES)
        return rule

    def _rules(self) -> list[Object]:
        return [self._rule() for _ in range(self.random.randint(0, 4))]

    def _role(self) -> tuple[Object, GVR]:
        namespace = self.random.choice(self.namespaces)
        return {"metadata": {"name": self.random.choice(ROLE_NAMES[:2]), "namespace": namespace}, "rules": self._rules()}, ROLES

    def _cluster_role(self) -> tuple[Object, GVR]:
        rules = self._rules()
        if self.random.random() < 0.3:
            rules.append({"verbs": ["get"], "nonResourceURLs": self._some(PATHS)})
        metadata: Object = {"name": self._wide(self.random.choice(ROLE_NAMES[:2]))}
        if self.random.random() < 0.3:
            metadata["labels"] = {AGGREGATE: self.prefix}
        return {"metadata": metadata, "rules": rules}, CLUSTER_ROLES

    def _subjects(self) -> list[Object]:
        def one() -> Object:
            namespace, name = self.random.choice(ACCOUNTS)
            home = self._home(namespace)
            group = "rbac.authorization.k8s.io"
            return self.random.choice(
                (
                    {"kind": "ServiceAccount", "name": name, "namespace": home},
                    {"kind": "User", "apiGroup": group, "name": account(home, name).name},
                    {"kind": "Group", "apiGroup": group, "name": self.random.choice(account(home, name).groups)},
                )
            )

        return [one() for _ in range(self.random.randint(0, 3))]

    def _wide_ref(self) -> Object:
        name = self._wide(self.random.choice((*ROLE_NAMES, "r1", "r2", "sum")))
        return {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}

    def _binding(self) -> tuple[Object, GVR]:
        namespace = self.random.choice(self.namespaces)
        own = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": self.random.choice(ROLE_NAMES)}
        ref = own if self.random.random() < 0.5 else self._wide_ref()
        metadata = {"name": self.random.choice(BINDING_NAMES), "namespace": namespace}
        return {"metadata": metadata, "roleRef": ref, "subjects": self._subjects()}, ROLE_BINDINGS

    def _cluster_binding(self) -> tuple[Object, GVR]:
        metadata = {"name": self._wide(self.random.choice(BINDING_NAMES))}
        return {"metadata": metadata, "roleRef": self._wide_ref(), "subjects": self._subjects()}, CLUSTER_ROLE_BINDINGS


async def differences(
    authorizer: RbacAuthorizer, reviewer: AccessReviewer, asked: list[tuple[UserInfo, AccessAttributes]], patience: float
) -> list[Any]:
    """Where the two keep answering differently; either may take a moment to hear of the last change."""
    end = time.monotonic() + patience
    while True:
        verdicts = await asyncio.gather(*(reviewer.review(who, action) for who, action in asked))
        different = [
            (question, authorizer.decide(*question), verdict)
            for question, verdict in zip(asked, verdicts, strict=True)
            if authorizer.decide(*question).allowed != verdict.allowed
        ]
        if not different or time.monotonic() > end:
            return different
        asked = [question for question, _, _ in different]
        await asyncio.sleep(0.02)
