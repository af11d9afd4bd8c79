"""Permissions of one user for one state of RBAC: from the RBAC caches if they explain the result, from the cluster otherwise.

If RBAC allows, that is confirmed by one review per verb (read verbs count as one), resource, subresource and namespace, with the
name of the first object; a denial is always confirmed, with the object's own name. If the cluster disagrees, or its reason is not
RBAC's, another authorizer is involved: from then on every object is reviewed (`doubted`). Just after a change, either side may lag
behind, so a disagreement then is reviewed again before it counts. Errors are raised, never cached.

When anything changes that affects the user, this object is replaced by a new one, and reviews under way for the old one are
discarded: an answer from before a change is never used after it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision
from muster.machinery.clock import Clock, sleep
from muster.machinery.logs import get_logger
from muster.runtime.auth.delegation import AccessReviewer, TTLCache
from muster.runtime.auth.rbac import RbacAuthorizer
from muster.runtime.client.base import KubeClient

log = get_logger("muster.runtime.auth")

RBAC_REASON: Final = "RBAC: "
"""The prefix of the reason when RBAC allows a request."""
DISAGREEMENT_WINDOW: Final = 5.0
"""Seconds after a change in which a disagreement may be a delay."""
REVIEW_RETRY_DELAYS: Final = (0.05, 0.15, 0.4, 1.0)
"""Seconds between those reviews."""
_READING: Final = frozenset(("get", "list", "watch"))
"""No authorizer is known to distinguish these if RBAC does not: one of them is reviewed for all."""
CONFIRMED_TTL: Final = 1800.0
"""Seconds for which an answer is cached that RBAC explains: its changes are reported."""
REFUSED_TTL: Final = 60.0
MAX_CACHED_DECISIONS: Final = 100_000


class SubjectAccess:
    ALLOWED_TTL: Final = 300.0
    """Seconds for which an answer is cached that RBAC does not explain."""
    UNSYNCED_TTL: Final = 10.0
    """Seconds for which an answer is cached while changes of RBAC would not be noticed."""

    def __init__(
        self,
        client: KubeClient,
        rbac: RbacAuthorizer,
        who: UserInfo,
        clock: Clock,
        *,
        followed: bool,
        review_all: bool,
        doubt: Callable[[], None],
        limit: int = MAX_CACHED_DECISIONS,
    ) -> None:
        """`limit`: cached answers of each kind."""
        self.who = who
        self.followed = followed
        """Whether changes of RBAC are noticed: otherwise everything is reviewed by the cluster."""
        self.doubted = False
        self._rbac = rbac
        self._clock = clock
        self._review_all = review_all
        self._doubt = doubt
        allowed, refused = (self.ALLOWED_TTL, REFUSED_TTL) if followed else (self.UNSYNCED_TTL, self.UNSYNCED_TTL)
        self._reviewer = AccessReviewer(client, allowed_for=allowed, refused_for=refused, clock=clock, limit=limit)
        self._confirmed: TTLCache[AccessDecision] = TTLCache(
            lambda verdict: CONFIRMED_TTL if verdict.allowed else refused, clock, limit
        )

    def rbac_allows(self, action: AccessAttributes) -> bool | None:
        """The decision of RBAC, as far as it is known here."""
        return self._rbac.decide(self.who, action).allowed if self.followed else None

    async def authorize(self, action: AccessAttributes) -> AccessDecision:
        """Raises KubeError if the cluster cannot be reached."""
        if not self._reviews_everything:
            local = self._rbac.decide(self.who, action)
            question: Hashable = action
            if local.allowed:
                verb = "read" if action.verb in _READING else action.verb
                question = (verb, action.group, action.resource, action.subresource, action.namespace)
            verdict = await self._confirmed.get_or_load(question, lambda: self._confirm(action))
            if not self._reviews_everything:
                # Both agree; the cluster may add to RBAC's reason.
                return verdict if verdict.reason and not verdict.reason.startswith(RBAC_REASON) else local
        return await self._reviewer.authorize(self.who, action)

    async def should_retry(self, attempts: int) -> bool:
        """Whether to review once more after this number of attempts; returns after a pause in which the cluster may receive a
        change that is known here already."""
        if attempts > len(REVIEW_RETRY_DELAYS) or not self.followed or not self._rbac.changed_within(DISAGREEMENT_WINDOW):
            return False
        await sleep(self._clock, REVIEW_RETRY_DELAYS[attempts - 1])
        return True

    @property
    def _reviews_everything(self) -> bool:
        return self._review_all or self.doubted or not self.followed

    async def _confirm(self, action: AccessAttributes) -> AccessDecision:
        """The cluster's decision, once it agrees with the RBAC caches; otherwise `doubted` is set."""
        attempts = 0
        while not attempts or await self.should_retry(attempts):
            attempts += 1
            verdict = await self._reviewer.review(self.who, action)
            if _explained(verdict, self._rbac.decide(self.who, action)):
                return verdict
        if not self.doubted:
            self.doubted = True
            log.info(
                "more than RBAC decides what a user may: every object is reviewed by the cluster",
                user=self.who.name,
                verb=action.verb,
                resource=action.resource,
                namespace=action.namespace,
                allowed=verdict.allowed,
                reason=verdict.reason,
            )
            self._doubt()
        return verdict


def _explained(verdict: AccessDecision, local: AccessDecision) -> bool:
    return verdict.allowed == local.allowed and (not verdict.allowed or verdict.reason.startswith(RBAC_REASON))
