"""The gateway's judge: hub RBAC by virtual verbs, with what is exempt, what is denied, and what the gateway answers by itself.

In this order, and each step ends it: what an administrator denied is refused; reviews of the caller's own access are answered here,
because a cluster would answer them for the gateway's account; what a cluster shows to everybody is granted to whoever may use its
gateway; everything else needs `<cluster>/<verb>` on the hub. A granted request is sent as the gateway's account, or as the user
that `impersonation` maps the caller to.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster.apiserver import errors
from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.authorization.attributes import NoVirtualVerb, inner_attributes, on_hub
from muster.gateway.authorization.denials import Denial, denied
from muster.gateway.authorization.discovery import is_discovery
from muster.gateway.authorization.hub_access import HubAccess
from muster.gateway.authorization.impersonation import SHARED_FOR_ALL, Impersonation, NotImpersonated
from muster.gateway.authorization.reviews import SelfReviews, is_self_review
from muster.gateway.verdict import Answered, Granted, Refused, Verdict
from muster.http import Request
from muster.kube.request_info import RequestInfo
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision

FORBIDDEN: Final = "VirtualVerbForbidden"
DENIED: Final = "GatewayDenied"
NOT_MAPPED: Final = "ImpersonationForbidden"
"""Causes in the gateway's own refusals, by which clients tell who refused."""
EVERY_VERB: Final = "*"
"""What a review may ask for; no request has it."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    exempt_discovery: bool = True
    hub_namespaces: bool = True
    """RoleBindings in a namespace of the hub count for the namespace of that name on clusters."""
    denials: tuple[Denial, ...] = ()


DEFAULTS: Final = JudgeOptions()


class _Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str
    refusal: ApiError | None = None
    notes: dict[str, str] = {}  # each has one of its own


class GatewayJudge:
    """A `Judge`."""

    def __init__(
        self,
        hub: HubAccess,
        options: JudgeOptions = DEFAULTS,
        impersonation: Impersonation = SHARED_FOR_ALL,
    ) -> None:
        self._hub = hub
        self._options = options
        self._impersonation = impersonation
        self._reviews = SelfReviews(self._review, exempt_discovery=options.exempt_discovery)

    async def judge(self, who: UserInfo, cluster: str, inner: RequestInfo, request: Request) -> Verdict:
        try:
            if is_self_review(inner):
                refused = await self._hub.may_use(who, cluster, "create")
                return refused or Answered(await self._reviews.answer(who, cluster, inner, request), "self review")
            decision = await self._decide(who, cluster, inner, leaves_http(request))
            if decision.refusal is not None:
                return Refused(refusals.answer(decision.refusal), decision.reason)
            return self._granted(who, cluster, decision)
        except NoVirtualVerb as problem:
            error = refusals.refusal(405, "MethodNotAllowed", cluster, refusals.BAD_REQUEST, str(problem))
            return Refused(refusals.answer(error), error.message)
        except ApiError as error:
            return Refused(refusals.answer(error), error.message)

    def _decide(self, who: UserInfo, cluster: str, inner: RequestInfo, upgrade: bool) -> Coroutine[Any, Any, _Decision]:
        """Raises NoVirtualVerb before there is anything to wait for."""
        asked = inner_attributes(inner, upgrade)
        return self._decide_by(who, cluster, inner, asked, on_hub(cluster, asked, in_namespaces=self._options.hub_namespaces))

    async def _decide_by(
        self, who: UserInfo, cluster: str, inner: RequestInfo, asked: AccessAttributes, virtual: AccessAttributes
    ) -> _Decision:
        denial = denied(self._options.denials, cluster, asked) if self._options.denials else None
        if denial is not None:
            return _refused(who, cluster, asked, f"the cluster gateway forwards no requests for {denial.what}", DENIED)
        if self._options.exempt_discovery and is_discovery(inner) and await self._hub.may_use(who, cluster, "get") is None:
            return _Decision(True, "discovery")
        decision = self._hub.remembered(who, virtual) or await self._hub.decide(who, virtual)
        if not decision.allowed:
            needed = f'the cluster gateway requires the verb "{virtual.verb}" for this on the hub'
            return _refused(who, cluster, asked, f"{needed}: {decision.reason}" if decision.reason else needed, FORBIDDEN)
        return _Decision(True, decision.reason, notes={"verb": virtual.verb})

    async def _review(self, who: UserInfo, cluster: str, wanted: RequestInfo) -> AccessDecision:
        """What `judge` would decide, for somebody who only wants to know."""
        try:
            if wanted.verb == EVERY_VERB:
                # Only a rule for every verb covers "every verb"; one that says `foo/*` covers none and must not seem to.
                asked = inner_attributes(wanted, upgrade=False)
                decision = await self._decide_by(who, cluster, wanted, asked, asked)
            else:
                decision = await self._decide(who, cluster, wanted, upgrade=False)
        except NoVirtualVerb as problem:
            return AccessDecision(False, str(problem))
        return AccessDecision(decision.allowed, decision.reason)

    def _granted(self, who: UserInfo, cluster: str, decision: _Decision) -> Verdict:
        try:
            impersonated = self._impersonation.mapped(who, cluster)
        except NotImpersonated as problem:
            text = f'user "{who.name}" cannot be impersonated there: {problem}'
            code, reason = (503, "ServiceUnavailable") if problem.misconfigured else (403, "Forbidden")
            error = refusals.refusal(code, reason, cluster, NOT_MAPPED, text)
            return Refused(refusals.answer(error), error.message)
        return Granted(decision.reason, impersonated, decision.notes)


def leaves_http(request: Request) -> bool:
    """Whether the request may end up as an upgrade, generously: what asks for one in any way counts."""
    return request.upgrade or "upgrade" in request.headers or "upgrade" in (request.headers.get("connection") or "").lower()


def _refused(who: UserInfo, cluster: str, asked: AccessAttributes, why: str, cause: str) -> _Decision:
    if asked.is_resource:
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        what = f'resource "{asked.full_resource}" in API group "{asked.group}" {where}'
        text = f'User "{who.name}" cannot {asked.verb} {what} of cluster "{cluster}"'
        causes = [{"reason": cause, "message": why}]
        error = errors.forbidden(asked.group, asked.resource, asked.name, f"{text}: {why}", causes)
    else:
        text = f'forbidden: User "{who.name}" cannot {asked.verb} path "{asked.path}" of cluster "{cluster}": {why}'
        error = ApiError(403, "Forbidden", text, {"causes": [{"reason": cause, "message": why}]})
    return _Decision(False, why, error)
