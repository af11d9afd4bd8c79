"""The hub's word on what somebody may do, or the reason why there is none.

Everything the gateway asks goes through one `Authorizer`: SubjectAccessReviews of the hub, and whatever a central engine may be put
in its place. No answer is no permission: who cannot be asked makes a 503 of the request, who does not answer in time a 504, and in
both cases nothing is forwarded.

Every question has the name of the object in it. To ask first without it, which would make one remembered answer do for many
objects, is sound for RBAC alone: where another authorizer denies one object, that must win over a yes for all of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from muster.api.proxy.v1alpha1 import GROUP, VERSION
from muster.apiserver import errors
from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.names import PROXY, RESOURCE
from muster.gateway.verdict import Refused
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision
from muster.machinery.logs import get_logger
from muster.runtime.auth import AccessReviewer, Authorizer
from muster.runtime.client import Forbidden, KubeError

log = get_logger(__name__)
REVIEW_TIMEOUT: Final = 10.0
UNANSWERED: Final = "AccessReviewFailed"
"""The cause in a Status that says that the hub gave no answer."""


class HubAccess:
    def __init__(self, authorizer: Authorizer, *, timeout: float = REVIEW_TIMEOUT) -> None:
        self._authorizer = authorizer
        self._timeout = timeout
        self._reviewer = authorizer if isinstance(authorizer, AccessReviewer) else None

    def remembered(self, who: UserInfo, asked: AccessAttributes) -> AccessDecision | None:
        """What `decide` would say at once; most answers are remembered ones, and need neither a deadline nor a coroutine."""
        return None if self._reviewer is None else self._reviewer.cached(who, asked)

    async def decide(self, who: UserInfo, asked: AccessAttributes) -> AccessDecision:
        """Raises the ApiError to answer with where the hub has not decided."""
        remembered = self.remembered(who, asked)
        if remembered is not None:
            return remembered
        try:
            async with asyncio.timeout(self._timeout):
                return await self._authorizer.authorize(who, asked)
        except TimeoutError:
            log.warning("access review timed out", user=who.name, verb=asked.verb, seconds=self._timeout)
            text = f"the hub did not say within {self._timeout:g} seconds whether {_question(who, asked)}; nothing was forwarded"
            raise _unanswered(504, "Timeout", text) from None
        except KubeError as problem:
            log.warning("access review failed", user=who.name, verb=asked.verb, error=str(problem))
            text = f"the hub could not be asked whether {_question(who, asked)}; nothing was forwarded"
            if isinstance(problem, Forbidden):
                text = f"{text}. The gateway's own account lacks the ClusterRole system:auth-delegator on the hub"
            raise _unanswered(503, "ServiceUnavailable", text) from None
        except ApiError:
            raise
        except Exception as problem:
            # An engine in the authorizer's place may fail in ways of its own; whatever they are, they are no permission.
            log.error("access review failed", user=who.name, verb=asked.verb, error=type(problem).__name__)
            text = f"the hub could not be asked whether {_question(who, asked)}; nothing was forwarded"
            raise _unanswered(503, "ServiceUnavailable", text) from None

    async def may_use(
        self,
        who: UserInfo,
        cluster_name: str,
        verb: str,
        subresource: str = PROXY,
        *,
        group: str = GROUP,
        version: str = VERSION,
    ) -> Refused | None:
        """Whether the hub lets somebody at a cluster's gateway at all; None: yes.

        The hub's API server has asked the same before it forwarded a request, but requests come by other ways too. `cluster_name`
        is empty for lists and watches of all, `subresource` for the objects themselves.
        """
        asked = AccessAttributes(verb, group, version, RESOURCE, subresource, "", cluster_name)
        decision = self.remembered(who, asked)
        if decision is None:
            try:
                decision = await self.decide(who, asked)
            except ApiError as error:
                return Refused(refusals.answer(error), error.message)
        if decision.allowed:
            return None
        refusal = errors.refusal(who, asked, decision.reason)
        return Refused(refusals.answer(refusal), refusal.message)


def _question(who: UserInfo, asked: AccessAttributes) -> str:
    return f'user "{who.name}" may {asked}'


def _unanswered(code: int, reason: str, text: str) -> ApiError:
    return refusals.refusal(code, reason, "", UNANSWERED, text, retry_after=1)
