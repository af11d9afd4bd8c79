"""Impersonation, with an authorizer that sends requests, such as the hub's."""

from __future__ import annotations

from muster.kube.identity_headers import HeaderPairs
from muster.kube.impersonation import refusal_text, wanted_impersonation
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.runtime.auth.delegation import Authorizer


class ImpersonationForbidden(Exception):
    """The user lacks a permission (`needed`) to impersonate the user of the request."""

    def __init__(self, user: UserInfo, needed: AccessAttributes) -> None:
        super().__init__(refusal_text(user, needed))
        self.needed = needed


async def impersonated(user: UserInfo, headers: HeaderPairs, authorizer: Authorizer) -> UserInfo:
    """The effective user of a request; `headers` are those of the request, names in lower case. Raises ImpersonationForbidden,
    BadImpersonation (`muster.kube.impersonation`) for invalid headers, and the errors of the authorizer."""
    wanted = wanted_impersonation(headers)
    if wanted is None:
        return user
    for needed in wanted.needed:
        if not (await authorizer.authorize(user, needed)).allowed:
            raise ImpersonationForbidden(user, needed)
    return wanted.user
