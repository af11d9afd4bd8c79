"""RBAC evaluated in this process, with four informers and the result of kube-apiserver's RBAC authorizer: no request per check.

It serves callers with many checks that must know when results change: `on_change` reports the binding subjects (users, groups)
whose permissions changed, because of a binding's subjects (removed ones too), its role, or the rules of a role, including
aggregated ones. Only RBAC is evaluated: another authorizer (webhook, node) may allow more, so a denial is not final. `followed` is
whether the caches are synced and current, so that the results can be relied on.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from muster.kube.rbac import EVERYTHING, Grants, RawRule, RbacRef, Rule, Subject
from muster.machinery.authentication import MASTERS, UserInfo
from muster.machinery.authorization import ALLOWED, AccessAttributes, AccessDecision
from muster.machinery.clock import SYSTEM, Clock, Random, within
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.cache.informer import Informer
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.base import KubeClient

_VERSION: Final = "rbac.authorization.k8s.io/v1"
ROLES: Final = GVR(_VERSION, "roles", "Role")
ROLE_BINDINGS: Final = GVR(_VERSION, "rolebindings", "RoleBinding")
CLUSTER_ROLES: Final = GVR(_VERSION, "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = GVR(_VERSION, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
KINDS: Final = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)

ChangeHandler = Callable[[frozenset[Subject]], None]


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


_NOTHING: Final = msgspec.Raw(b"null")


class _Kept(msgspec.Struct):
    """The fields of a role or binding that affect authorization."""

    metadata: _Metadata
    rules: msgspec.Raw = _NOTHING
    aggregationRule: msgspec.Raw = _NOTHING
    roleRef: msgspec.Raw = _NOTHING
    subjects: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(_Kept).decode
_encode = msgspec.json.Encoder().encode


def _reduced(raw: bytes) -> bytes:
    return _encode(_decode(raw))


class RbacAuthorizer:
    """An `Authorizer` that sends no requests. Its owner runs `run` as a task."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self._clock = clock
        self._informers: dict[str, Informer[Snapshot]] = {
            resource.kind: Informer(client, resource, reduce=_reduced, clock=clock, random=random) for resource in KINDS
        }
        self._grants = Grants(self.read)
        self._handlers: list[ChangeHandler] = []
        self._changed_at = float("-inf")
        for kind, informer in self._informers.items():
            informer.on_change(partial(self._changed, kind))

    @property
    def followed(self) -> bool:
        return all(informer.has_synced and not informer.outage for informer in self._informers.values())

    @property
    def outage(self) -> str:
        """Why the caches are not current, if that is known."""
        return next((informer.outage for informer in self._informers.values() if informer.outage), "")

    async def synced(self, timeout: float) -> bool:
        """Whether the caches synced within the timeout."""
        try:
            await within(self._clock, timeout, asyncio.gather(*(informer.synced() for informer in self._informers.values())))
        except TimeoutError:
            return False
        return True

    def changed_within(self, seconds: float) -> bool:
        """Whether RBAC changed that recently: the server's authorizer may not have seen it yet."""
        return self._clock.monotonic() - self._changed_at < seconds

    def decide(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        if MASTERS in who.groups:
            return ALLOWED
        return self._grants.decide(who, attributes)

    async def authorize(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        return self.decide(who, attributes)

    def rules_for(self, who: UserInfo, namespace: str) -> list[Rule]:
        """Every rule that a user has in a namespace, including cluster-wide rules; "" for only those."""
        if MASTERS in who.groups:
            return list(EVERYTHING)
        return self._grants.rules_for(who, namespace)

    def role_rules(self, kind: str, namespace: str, name: str) -> list[RawRule] | None:
        """The rules of a (Cluster)Role, or None if there is no such role."""
        return self._grants.role_rules(kind, namespace, name)

    def read(self, ref: RbacRef) -> Mapping[str, Any] | None:
        """A role or binding, with only the fields that affect authorization, or None if it does not exist."""
        found = self._informers[ref.kind].cache.snapshot(ObjectKey(ref.namespace, ref.name))
        return None if found is None else found.decode()

    def on_change(self, handler: ChangeHandler) -> None:
        """Called for every change after the first sync; handlers must be quick."""
        self._handlers.append(handler)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    def _changed(self, kind: str, old: Snapshot | None, new: Snapshot | None) -> None:
        either = new or old
        assert either is not None
        touched = self._grants.changed(RbacRef(kind, either.namespace, either.name))
        if not touched:
            return
        self._changed_at = self._clock.monotonic()
        if all(informer.has_synced for informer in self._informers.values()):
            for handler in self._handlers:
                handler(frozenset(touched))
