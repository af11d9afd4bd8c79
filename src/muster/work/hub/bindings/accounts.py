"""Authorization by the cached bindings, managed service accounts and their addons.

A decision depends on these three collections only, so replicas agree once their caches do. Until all caches are synced there is no
decision: `NotKnown` is raised, which refuses the request and can be retried.
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
    """The caches are not synced yet."""


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
    """The owner of `informers` runs them."""

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
        """The service account of a managed service account on its cluster. Raises NotKnown."""
        if not self._addons.has_synced:
            raise NotKnown("addons are not known yet")
        addon = self._addons.cache.get(ObjectKey(account.namespace, ADDON))
        there = addon.status.namespace if addon is not None else ""
        return Executor(there or self._default_namespace, account.name)

    def allow(self, who: UserInfo, executor: Executor, cluster: str) -> bool:
        """Whether a binding permits a user to run works of a cluster as this executor. Raises NotKnown."""
        if not self.complete:
            raise NotKnown("bindings of managed service accounts are not known yet")
        account = ObjectKey(cluster, executor.name)
        if not self.exists(account) or self.executor(account) != executor:
            return False
        counting = (binding for binding in self.of_account(account) if not binding.metadata.deletion_timestamp)
        return any(is_subject(subject, who) for binding in counting for subject in binding.spec.subjects)
