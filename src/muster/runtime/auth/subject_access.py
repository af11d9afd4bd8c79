"""What somebody may, as of one state of RBAC: decided here where RBAC explains it, asked of the cluster where it does not.

A "yes" of RBAC's rules is confirmed by one review per verb (reading counts as one), resource, subresource and namespace, with
the name of the first object; a "no" is always confirmed, with the object's own name. When the cluster disagrees, or allows for
a reason that is not RBAC's, another authorizer has a say: from then on every object is reviewed (`doubted`). Just after a
change either side may be a moment behind the other, so a disagreement then is asked about again before it counts. Failures to
ask are raised, never remembered.

When anything changes that touches the user, its standing is thrown away for a new one, and what is still being asked for the
old one with it: an answer from before a change can never be taken for one from after it.
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
"""With this begins why RBAC allows something."""
DISAGREEMENT_WINDOW: Final = 5.0
"""Seconds after a change in which a disagreement may be a delay."""
REVIEW_RETRY_DELAYS: Final = (0.05, 0.15, 0.4, 1.0)
"""Between asking again then."""
_READING: Final = frozenset(("get", "list", "watch"))
"""No authorizer tells these apart that RBAC does not: one of them is reviewed for all."""
CONFIRMED_TTL: Final = 1800.0
"""Seconds an answer is remembered that RBAC explains: its changes are told."""
REFUSED_TTL: Final = 60.0
MAX_CACHED_DECISIONS: Final = 100_000


class SubjectAccess:
    ALLOWED_TTL: Final = 300.0
    """Seconds an answer is remembered that RBAC does not explain."""
    UNSYNCED_TTL: Final = 10.0
    """Seconds an answer is remembered where no change of RBAC would be noticed."""

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
        """`limit`: answers that are remembered of each kind."""
        self.who = who
        self.followed = followed
        """Whether RBAC's changes are noticed: otherwise everything is asked."""
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
        """What RBAC says, as far as is known here."""
        return self._rbac.decide(self.who, action).allowed if self.followed else None

    async def authorize(self, action: AccessAttributes) -> AccessDecision:
        """Raises KubeError where the cluster cannot be asked."""
        if not self._reviews_everything:
            local = self._rbac.decide(self.who, action)
            question: Hashable = action
            if local.allowed:
                verb = "read" if action.verb in _READING else action.verb
                question = (verb, action.group, action.resource, action.subresource, action.namespace)
            verdict = await self._confirmed.get_or_load(question, lambda: self._confirm(action))
            if not self._reviews_everything:
                # They agree; what the cluster adds to RBAC's reason is worth telling.
                return verdict if verdict.reason and not verdict.reason.startswith(RBAC_REASON) else local
        return await self._reviewer.authorize(self.who, action)

    async def should_retry(self, attempts: int) -> bool:
        """Whether to ask once more after so many times; answered after a pause in which the cluster may have heard of a change that
        is known here already."""
        if attempts > len(REVIEW_RETRY_DELAYS) or not self.followed or not self._rbac.changed_within(DISAGREEMENT_WINDOW):
            return False
        await sleep(self._clock, REVIEW_RETRY_DELAYS[attempts - 1])
        return True

    @property
    def _reviews_everything(self) -> bool:
        return self._review_all or self.doubted or not self.followed

    async def _confirm(self, action: AccessAttributes) -> AccessDecision:
        """The cluster's answer, once it agrees with RBAC's rules as they are known here; otherwise there is doubt."""
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
