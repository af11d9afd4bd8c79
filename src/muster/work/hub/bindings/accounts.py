"""What bindings, managed service accounts and their addons say, from caches.

A verdict is a function of these three collections and nothing else, so replicas agree as soon as their caches do. While a cache is
incomplete there is no verdict: `NotKnown` is raised, which refuses and is worth trying again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.authentication.v1alpha1 import BindingSubject, ManagedServiceAccountBinding
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informers
from muster.runtime.client import served
from muster.work.hub.webhooks.executors import Executor, user_name

BINDINGS: Final = served(ManagedServiceAccountBinding)
ADDON: Final = "managed-serviceaccount"
BY_ACCOUNT: Final = "account"


class NotKnown(Exception):
    """The caches are not complete yet."""


def is_subject(subject: BindingSubject, who: UserInfo) -> bool:
    match subject.kind:
        case "User":
            return subject.name == who.name
        case "Group":
            return subject.name in who.groups
        case "ServiceAccount":
            return user_name(subject.namespace, subject.name) == who.name
    return False


def account_key(binding: ManagedServiceAccountBinding) -> ObjectKey:
    return ObjectKey(binding.spec.ref.namespace, binding.spec.ref.name)


class BoundAccounts:
    """`informers` run elsewhere."""

    def __init__(self, informers: Informers, default_namespace: str) -> None:
        self.bindings = informers.of(ManagedServiceAccountBinding)
        self.accounts = informers.of(ManagedServiceAccount)
        self._addons = informers.of(ManagedClusterAddOn, field_selector=f"metadata.name={ADDON}")
        self._default_namespace = default_namespace
        self.bindings.cache.add_index(BY_ACCOUNT, lambda binding: [str(account_key(binding))])

    @property
    def complete(self) -> bool:
        return all(informer.has_synced for informer in (self.bindings, self.accounts, self._addons))

    def exists(self, account: ObjectKey) -> bool:
        found = self.accounts.cache.get(account)
        return found is not None and not found.metadata.deletion_timestamp

    def of_account(self, account: ObjectKey) -> Iterator[ManagedServiceAccountBinding]:
        yield from self.bindings.cache.by_index(BY_ACCOUNT, str(account))

    def executor(self, account: ObjectKey) -> Executor:
        """What a managed service account is on its cluster. Raises NotKnown."""
        if not self._addons.has_synced:
            raise NotKnown("addons are not known yet")
        addon = self._addons.cache.get(ObjectKey(account.namespace, ADDON))
        there = addon.status.namespace if addon is not None else ""
        return Executor(there or self._default_namespace, account.name)

    def allow(self, who: UserInfo, executor: Executor, cluster: str) -> bool:
        """Whether a binding lets somebody have works of a cluster run as this. Raises NotKnown."""
        if not self.complete:
            raise NotKnown("bindings of managed service accounts are not known yet")
        account = ObjectKey(cluster, executor.name)
        if not self.exists(account) or self.executor(account) != executor:
            return False
        counting = (binding for binding in self.of_account(account) if not binding.metadata.deletion_timestamp)
        return any(is_subject(subject, who) for binding in counting for subject in binding.spec.subjects)
