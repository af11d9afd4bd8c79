"""The gateway's authorizer: hub RBAC by virtual verbs, with exemptions, denials, and reviews that the gateway answers itself.

The order is: requests that an administrator denied are refused; reviews of the caller's own access are answered here, because a
cluster would answer them for the gateway's account; discovery is granted to every user of the cluster's gateway; every other
request requires `<cluster>/<verb>` on the hub. A granted request is sent as the gateway's account, or as the user that
`impersonation` maps the caller to.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster.apiserver import errors
from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.authorization.attributes import NoVirtualVerb, hub_attributes, inner_attributes
from muster.gateway.authorization.denials import Denial, find_denial
from muster.gateway.authorization.discovery import is_discovery
from muster.gateway.authorization.hub_access import HubAccess
from muster.gateway.authorization.impersonation import SHARED_FOR_ALL, Impersonation, NotImpersonated
from muster.gateway.authorization.self_reviews import SelfReviews, is_self_review
from muster.gateway.request_decision import Answered, Granted, Refused, RequestDecision
from muster.http import Request
from muster.kube.request_info import RequestInfo
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision

FORBIDDEN: Final = "VirtualVerbForbidden"
DENIED: Final = "GatewayDenied"
IDENTITY_NOT_MAPPED: Final = "ImpersonationForbidden"
"""Causes in the gateway's own refusals, by which clients can tell who refused."""
EVERY_VERB: Final = "*"
"""The verb of an access review for all verbs; no request has it."""


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    exempt_discovery: bool = True
    hub_namespaces: bool = True
    """RoleBindings in a namespace of the hub count for the namespace of that name on clusters."""
    denials: tuple[Denial, ...] = ()


DEFAULTS: Final = AuthorizationOptions()


class _Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str
    refusal: ApiError | None = None
    notes: dict[str, str] = {}  # msgspec copies the default


class GatewayAuthorizer:
    """A `RequestAuthorizer`."""

    def __init__(
        self,
        hub: HubAccess,
        options: AuthorizationOptions = DEFAULTS,
        impersonation: Impersonation = SHARED_FOR_ALL,
    ) -> None:
        self._hub = hub
        self._options = options
        self._impersonation = impersonation
        self._reviews = SelfReviews(self._review, exempt_discovery=options.exempt_discovery)

    async def authorize(self, who: UserInfo, cluster: str, inner: RequestInfo, request: Request) -> RequestDecision:
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
        """Raises NoVirtualVerb when called, before there is anything to await."""
        attributes = inner_attributes(inner, upgrade)
        return self._decide_by(
            who, cluster, inner, attributes, hub_attributes(cluster, attributes, in_namespaces=self._options.hub_namespaces)
        )

    async def _decide_by(
        self, who: UserInfo, cluster: str, inner: RequestInfo, attributes: AccessAttributes, virtual: AccessAttributes
    ) -> _Decision:
        denial = find_denial(self._options.denials, cluster, attributes) if self._options.denials else None
        if denial is not None:
            return _refused(who, cluster, attributes, f"the cluster gateway forwards no requests for {denial.what}", DENIED)
        if self._options.exempt_discovery and is_discovery(inner) and await self._hub.may_use(who, cluster, "get") is None:
            return _Decision(True, "discovery")
        decision = self._hub.cached(who, virtual) or await self._hub.decide(who, virtual)
        if not decision.allowed:
            needed = f'the cluster gateway requires the verb "{virtual.verb}" for this on the hub'
            return _refused(who, cluster, attributes, f"{needed}: {decision.reason}" if decision.reason else needed, FORBIDDEN)
        return _Decision(True, decision.reason, notes={"verb": virtual.verb})

    async def _review(self, who: UserInfo, cluster: str, wanted: RequestInfo) -> AccessDecision:
        """The decision of `authorize`, for a review."""
        try:
            if wanted.verb == EVERY_VERB:
                # Only a rule for all verbs covers `*`; a rule for `foo/*` grants nothing and must not appear to.
                attributes = inner_attributes(wanted, upgrade=False)
                decision = await self._decide_by(who, cluster, wanted, attributes, attributes)
            else:
                decision = await self._decide(who, cluster, wanted, upgrade=False)
        except NoVirtualVerb as problem:
            return AccessDecision(False, str(problem))
        return AccessDecision(decision.allowed, decision.reason)

    def _granted(self, who: UserInfo, cluster: str, decision: _Decision) -> RequestDecision:
        try:
            impersonated = self._impersonation.map_user(who, cluster)
        except NotImpersonated as problem:
            text = f'user "{who.name}" cannot be impersonated there: {problem}'
            code, reason = (503, "ServiceUnavailable") if problem.misconfigured else (403, "Forbidden")
            error = refusals.refusal(code, reason, cluster, IDENTITY_NOT_MAPPED, text)
            return Refused(refusals.answer(error), error.message)
        return Granted(decision.reason, impersonated, decision.notes)


def leaves_http(request: Request) -> bool:
    """Whether the request may become an upgrade; every sign of one counts."""
    return request.upgrade or "upgrade" in request.headers or "upgrade" in (request.headers.get("connection") or "").lower()


def _refused(who: UserInfo, cluster: str, attributes: AccessAttributes, why: str, cause: str) -> _Decision:
    if attributes.is_resource:
        where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
        what = f'resource "{attributes.full_resource}" in API group "{attributes.group}" {where}'
        text = f'User "{who.name}" cannot {attributes.verb} {what} of cluster "{cluster}"'
        causes = [{"reason": cause, "message": why}]
        error = errors.forbidden(attributes.group, attributes.resource, attributes.name, f"{text}: {why}", causes)
    else:
        text = f'forbidden: User "{who.name}" cannot {attributes.verb} path "{attributes.path}" of cluster "{cluster}": {why}'
        error = ApiError(403, "Forbidden", text, {"causes": [{"reason": cause, "message": why}]})
    return _Decision(False, why, error)
