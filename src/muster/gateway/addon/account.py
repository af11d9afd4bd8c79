"""The gateway's account on each cluster, and whether the gateway can use it.

Where the addon is enabled, a ManagedServiceAccount of its name is created. The ManagedClusterAddOn owns it, so it is deleted
together with the addon. An existing one is used as it is, and an administrator's changes to it stay. The addon is available when
the account's permissions are applied and its token is stored on the hub and has not expired. The condition names what is missing,
and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from muster.accounts.names import ADDON as ACCOUNTS_ADDON
from muster.addon.framework.status_draft import LONGEST_MESSAGE, MANIFEST_APPLIED
from muster.api import Condition, condition_of
from muster.api.addon.v1alpha1 import AVAILABLE, ManagedClusterAddOn
from muster.api.authentication.v1beta1 import TOKEN_REPORTED, ManagedServiceAccount
from muster.api.cluster.v1 import AVAILABLE as CLUSTER_AVAILABLE
from muster.api.cluster.v1 import ManagedCluster
from muster.gateway.names import COMPONENT
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.client import AlreadyExists, served
from muster.runtime.controller import ControllerContext, set_condition

log = get_logger("muster.gateway.addon")

NAME: Final = "gateway-accounts"
VALIDITY: Final = "168h0m0s"
"""Requested lifetime of the token, which is replaced after four fifths of it: an agent may be away for a day, and a leaked token
expires within a week."""
MAX_REQUEUE_DELAY: Final = 86400.0


class GatewayAccounts:
    """One controller; its keys are names of clusters."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._addons = context.informers.of(ManagedClusterAddOn)
        self._accounts = context.informers.of(ManagedServiceAccount)
        self._clusters = context.informers.of(ManagedCluster)
        self._controller = context.controller(NAME, self.reconcile)
        self._controller.watch(self._addons, _cluster_of_addon)
        self._controller.watch(self._accounts, lambda one: [one.metadata.namespace] if one.metadata.name == COMPONENT else [])
        self._controller.watch(self._clusters, lambda one: [one.metadata.name])

    async def run(self) -> None:
        await self._controller.run()

    async def reconcile(self, cluster: str) -> float | None:
        key = ObjectKey(cluster, COMPONENT)
        addon = self._addons.cache.get(key)
        if addon is None or addon.metadata.deletion_timestamp:
            return None
        account = self._accounts.cache.get(key)
        if account is None and key not in self._accounts.malformed:
            await self._create(addon)
        now = self._clock.now()
        known = self._clusters.cache.named(cluster)
        seen = None if known is None else condition_of(known.status.conditions, CLUSTER_AVAILABLE)
        if seen is None or seen.status == "Unknown":
            # The hub reports an unreachable cluster on all its addons.
            return None
        condition = availability(addon, self._addons.cache.named(ACCOUNTS_ADDON, cluster), account, now)
        await set_condition(self._client, addon, condition, now)
        expires = _expiration(account)
        if condition.status != "True" or expires is None:
            return None
        return min((expires - now).total_seconds(), MAX_REQUEUE_DELAY)

    async def _create(self, addon: ManagedClusterAddOn) -> None:
        try:
            await self._client.create(served(ManagedServiceAccount), account_of(addon), addon.metadata.namespace)
        except AlreadyExists:
            # The cache does not have it yet; its event triggers the next reconcile.
            return
        log.info("gateway account created", cluster=addon.metadata.namespace)


def account_of(addon: ManagedClusterAddOn) -> Object:
    resource, owner = ManagedServiceAccount.resource, addon.resource
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": addon.metadata.name, "uid": addon.metadata.uid}
    metadata = {"name": COMPONENT, "namespace": addon.metadata.namespace, "ownerReferences": [reference]}
    spec = {"rotation": {"enabled": True, "validity": VALIDITY}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def availability(
    addon: ManagedClusterAddOn, accounts: ManagedClusterAddOn | None, account: ManagedServiceAccount | None, now: datetime
) -> Condition:
    """`accounts` is the addon `managed-serviceaccount` of the same cluster."""
    cluster = addon.metadata.namespace
    rights = condition_of(addon.status.conditions, MANIFEST_APPLIED)
    token = None if account is None else condition_of(account.status.conditions, TOKEN_REPORTED)
    expires = _expiration(account)
    if accounts is None:
        remedy = f"clusteradm addon enable --names {ACCOUNTS_ADDON} --clusters {cluster}"
        return _available(False, "AccountsNotEnabled", f"The addon {ACCOUNTS_ADDON}, which issues tokens, is not enabled: {remedy}")
    if accounts.status.namespace and addon.status.namespace and accounts.status.namespace != addon.status.namespace:
        there = (
            f"{ACCOUNTS_ADDON} creates accounts in {accounts.status.namespace}, permissions are granted in {addon.status.namespace}"
        )
        return _available(False, "NamespacesDiffer", f"{there}; let both addons have the same agentInstallNamespace")
    if rights is None or rights.status != "True":
        why = "not yet" if rights is None else rights.message
        return _available(False, "RightsNotApplied", f"The account's permissions are not applied on the cluster: {why}")
    if token is None:
        return _available(None, "TokenNotReported", f"The agent of {ACCOUNTS_ADDON} has not reported a token yet")
    if token.status != "True":
        return _available(False, "TokenNotReported", f"ManagedServiceAccount {cluster}/{COMPONENT}: {token.message}")
    if expires is not None and expires <= now:
        return _available(False, "TokenExpired", f"The account's token has expired; does the agent of {ACCOUNTS_ADDON} run?")
    return _available(True, "TokenReported", "The account has its permissions, and its token is stored on the hub")


def _available(status: bool | None, reason: str, message: str) -> Condition:
    value = "Unknown" if status is None else str(status)
    return Condition(type=AVAILABLE, status=value, reason=reason, message=message[:LONGEST_MESSAGE])


def _expiration(account: ManagedServiceAccount | None) -> datetime | None:
    """None if the status has no time of expiry, or one that cannot be parsed."""
    try:
        return None if account is None else parse_time(account.status.expiration_timestamp)
    except GoError:
        return None


def _cluster_of_addon(addon: ManagedClusterAddOn) -> Iterable[str]:
    return [addon.metadata.namespace] if addon.metadata.name in (COMPONENT, ACCOUNTS_ADDON) else []
