"""Access decisions of the hub, or the reason why there is none.

All decisions are made by one `Authorizer`: the hub's SubjectAccessReviews, or an external policy engine instead. Without a
decision there is no access: if the hub cannot be reached, the request is answered with 503, if it does not answer in time, with
504, and in both cases nothing is forwarded.

Every review contains the name of the object. A review without the name would allow one cached decision for many objects, but is
correct for RBAC alone: another authorizer may deny a single object, and that must win over a permission for all of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from muster.api.proxy.v1alpha1 import GROUP, VERSION
from muster.apiserver import errors
from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.names import PROXY, RESOURCE
from muster.gateway.request_decision import Refused
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision
from muster.machinery.logs import get_logger
from muster.runtime.auth import AccessReviewer, Authorizer
from muster.runtime.client import Forbidden, KubeError

log = get_logger(__name__)
REVIEW_TIMEOUT: Final = 10.0
ACCESS_REVIEW_FAILED: Final = "AccessReviewFailed"
"""Cause in a Status: the hub did not answer the access review."""


class HubAccess:
    def __init__(self, authorizer: Authorizer, *, timeout: float = REVIEW_TIMEOUT) -> None:
        self._authorizer = authorizer
        self._timeout = timeout
        self._reviewer = authorizer if isinstance(authorizer, AccessReviewer) else None

    def cached(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision | None:
        """The decision of `decide`, if it is cached; most are, and these need neither a deadline nor a coroutine."""
        return None if self._reviewer is None else self._reviewer.cached(who, attributes)

    async def decide(self, who: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        """Raises the ApiError for the client if there is no decision."""
        cached = self.cached(who, attributes)
        if cached is not None:
            return cached
        try:
            async with asyncio.timeout(self._timeout):
                return await self._authorizer.authorize(who, attributes)
        except TimeoutError:
            log.warning("access review timed out", user=who.name, verb=attributes.verb, seconds=self._timeout)
            text = f"the hub did not decide within {self._timeout:g} s whether {_question(who, attributes)}; nothing was forwarded"
            raise _unanswered(504, "Timeout", text) from None
        except KubeError as problem:
            log.warning("access review failed", user=who.name, verb=attributes.verb, error=str(problem))
            text = f"the hub could not be asked whether {_question(who, attributes)}; nothing was forwarded"
            if isinstance(problem, Forbidden):
                text = f"{text}. The gateway's own account lacks the ClusterRole system:auth-delegator on the hub"
            raise _unanswered(503, "ServiceUnavailable", text) from None
        except ApiError:
            raise
        except Exception as problem:
            # An external policy engine may raise any exception; none of them grants access.
            log.error("access review failed", user=who.name, verb=attributes.verb, error=type(problem).__name__)
            text = f"the hub could not be asked whether {_question(who, attributes)}; nothing was forwarded"
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
        """Whether a user may use the gateway of a cluster at all; None if so.

        The hub's API server has made the same review before it forwarded a request, but requests can reach the gateway directly
        too. `cluster_name` is empty for lists and watches of all clusters, `subresource` for the objects themselves.
        """
        attributes = AccessAttributes(verb, group, version, RESOURCE, subresource, "", cluster_name)
        decision = self.cached(who, attributes)
        if decision is None:
            try:
                decision = await self.decide(who, attributes)
            except ApiError as error:
                return Refused(refusals.answer(error), error.message)
        if decision.allowed:
            return None
        refusal = errors.access_denied(who, attributes, decision.reason)
        return Refused(refusals.answer(refusal), refusal.message)


def _question(who: UserInfo, attributes: AccessAttributes) -> str:
    return f'user "{who.name}" may {attributes}'


def _unanswered(code: int, reason: str, text: str) -> ApiError:
    return refusals.refusal(code, reason, "", ACCESS_REVIEW_FAILED, text, retry_after=1)
