"""Authorization of callers: first the cluster that they may act for, then the hub's authorizers.

An agent may act for the cluster in its user name only. Any other user is a bootstrap identity: it may only use the kinds that
joining needs, and only for a cluster whose ManagedCluster it may create, so that `resourceNames` in a role limit a token to one
name. Then the hub's authorizers are asked, with the verb for the data type and action, as in OCM's server.

Decisions come from the RBAC caches, confirmed by reviews (`muster.runtime.auth.SubjectAccess`), so that repeated calls of an agent
cost no requests. When a role or binding of a caller changes, its cached permissions are dropped at once, and handlers (`on_change`)
are called, to check open streams again.

It fails closed: if the cluster cannot be reached, the caller gets a retriable error. A refusal names kind and cluster, but no
rules.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from muster.api.agents import is_cluster_name
from muster.kube.rbac import Subject, subjects_of
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.runtime.auth import RbacAuthorizer, SubjectAccess
from muster.runtime.client import KubeClient, KubeError, TooManyRequests
from muster.transport.contract.rows import CLUSTERS, TOKENS, Row
from muster.transport.contract.types import Action, EventType, Subresource
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.authentication import Identity

log = get_logger("muster.transport.server")

MOST_REMEMBERED: Final = 20_000
"""Callers with cached permissions."""
ANSWERS_EACH: Final = 256
"""Cached decisions per caller: an agent needs a dozen, and one caller must not exhaust memory."""
ATTEMPTS: Final = 10
"""How often a check begins anew because permissions changed while it ran."""
_VERBS: Final = {Action.CREATE: "create", Action.UPDATE: "update", Action.RESYNC: "list"}
SUBSCRIBE: Final = "subscribe"
"""The verb for subscriptions to tokens, which cannot be watched."""

ChangeHandler = Callable[[frozenset[Subject]], None]


class Authorization:
    """Also a general `Authorizer`, for services that check what an agent writes."""

    def __init__(self, client: KubeClient, rbac: RbacAuthorizer, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._rbac = rbac
        self._clock = clock
        self._accesses: OrderedDict[UserInfo, SubjectAccess] = OrderedDict()
        self._by_subject: dict[Subject, set[UserInfo]] = {}
        self._handlers: list[ChangeHandler] = []
        rbac.on_change(self._changed)

    def on_change(self, handler: ChangeHandler) -> None:
        """Called with the subjects whose permissions changed; must be quick."""
        self._handlers.append(handler)

    async def subscription(self, who: Identity, row: Row, cluster: str) -> None:
        """Raises RpcError unless the caller may subscribe to the kind's objects of a cluster."""
        verb = SUBSCRIBE if row is TOKENS else "watch"
        await self._check(who, row, cluster, _attributes(row, verb, cluster))

    async def publication(self, who: Identity, row: Row, event_type: EventType, cluster: str, name: str) -> None:
        """Raises RpcError unless the caller may publish this action for a cluster's objects. `name` is the object's."""
        # Tokens cannot be listed: a resync has no answers, and needs the permission to subscribe.
        verb = SUBSCRIBE if row is TOKENS and event_type.action is Action.RESYNC else _VERBS[event_type.action]
        status = event_type.subresource is Subresource.STATUS
        attributes = _attributes(row, verb, cluster, "status" if status else "", name if row is TOKENS else "")
        await self._check(who, row, cluster, attributes)

    async def _check(self, who: Identity, row: Row, cluster: str, attributes: AccessAttributes) -> None:
        if not is_cluster_name(cluster):
            raise _refused(row, cluster)
        if who.is_agent:
            if who.cluster != cluster:
                raise self._denied(who, row, cluster, attributes)
        elif not row.bootstrap or not await self.may(who.user, _attributes(CLUSTERS, "create", cluster)):
            raise self._denied(who, row, cluster, attributes)
        if not await self.may(who.user, attributes):
            raise self._denied(who, row, cluster, attributes)

    def _denied(self, who: Identity, row: Row, cluster: str, attributes: AccessAttributes) -> RpcError:
        log.info("call denied", user=who.user.name, cluster=cluster, verb=attributes.verb, resource=attributes.full_resource)
        return _refused(row, cluster)

    async def may(self, user: UserInfo, attributes: AccessAttributes) -> bool:
        """Raises RpcError if the cluster cannot be reached."""
        try:
            return (await self.authorize(user, attributes)).allowed
        except KubeError as error:
            log.warning("cannot review access", user=user.name, error=str(error))
            raise RpcError(Code.UNAVAILABLE, "the hub cannot find out what the caller may; try again") from None

    async def authorize(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        """For `Authorizer`. Raises KubeError if the cluster cannot be reached."""
        for _ in range(ATTEMPTS):
            access = self._access(who)
            decision = await access.authorize(attributes)
            if self._accesses.get(who) is access:
                return decision
        raise TooManyRequests(429, "TooManyRequests", f"what {who.name} may does not stop changing; try again")

    def follows_rights_of(self, user: UserInfo) -> bool:
        """Whether `on_change` reports all changes of a user's permissions: RBAC is watched, and decides alone."""
        access = self._accesses.get(user)
        return self._rbac.followed and access is not None and access.followed and not access.doubted

    def _access(self, user: UserInfo) -> SubjectAccess:
        access, followed = self._accesses.get(user), self._rbac.followed
        if access is None or access.followed != followed:
            access = self._accesses[user] = SubjectAccess(
                self._client,
                self._rbac,
                user,
                self._clock,
                followed=followed,
                review_all=False,
                doubt=lambda: None,
                limit=ANSWERS_EACH,
            )
            for subject in subjects_of(user):
                self._by_subject.setdefault(subject, set()).add(user)
            if len(self._accesses) > MOST_REMEMBERED:
                self._forget(next(iter(self._accesses)))
        self._accesses.move_to_end(user)
        return access

    def _forget(self, user: UserInfo) -> None:
        if self._accesses.pop(user, None) is None:
            return
        for subject in subjects_of(user):
            users = self._by_subject[subject]
            users.discard(user)
            if not users:
                del self._by_subject[subject]

    def _changed(self, subjects: frozenset[Subject]) -> None:
        for subject in subjects:
            for user in list(self._by_subject.get(subject, ())):
                self._forget(user)
        for handler in self._handlers:
            handler(subjects)


def _attributes(row: Row, verb: str, cluster: str, subresource: str = "", name: str = "") -> AccessAttributes:
    if row.reviewed is not None:
        group, resource, subresource = row.reviewed
    else:
        group, resource = row.resource.group, row.resource.plural
    return AccessAttributes(verb, group, "", resource, subresource, cluster, cluster if row.named else name)


def _refused(row: Row, cluster: str) -> RpcError:
    return RpcError(Code.PERMISSION_DENIED, f"not allowed for {row.data_type} of cluster {cluster[:63]!r}")
