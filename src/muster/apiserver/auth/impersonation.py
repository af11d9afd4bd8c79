"""Impersonation: `Impersonate-*` headers, each of which needs the verb `impersonate` on what it names."""

from __future__ import annotations

from collections.abc import Callable

from muster.apiserver import errors
from muster.http import Request
from muster.kube.impersonation import PREFIX, BadImpersonation, refusal_text, wanted_impersonation
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision

Authorize = Callable[[UserInfo, AccessAttributes], AccessDecision]


def impersonated(user: UserInfo, request: Request, authorize: Authorize) -> UserInfo:
    if not request.headers.any_starts(PREFIX):
        return user
    try:
        impersonation = wanted_impersonation(request.headers.items())
    except BadImpersonation as problem:
        raise errors.bad_request(str(problem)) from None
    if impersonation is None:
        return user
    for needed in impersonation.needed:
        if not authorize(user, needed).allowed:
            raise errors.forbidden(needed.group, needed.resource, needed.name, refusal_text(user, needed))
    return impersonation.user
