"""What the way of a request asks of a cluster about its callers, and the answers where somebody else has judged them before."""

from __future__ import annotations

from typing import Protocol

from muster.apiserver.errors import unauthorized
from muster.http import Request
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import ALLOWED, AccessAttributes, AccessDecision


class AccessRules(Protocol):
    async def authenticate(self, request: Request, warnings: list[str]) -> UserInfo:
        """Who sends the request; what is odd about its credentials is added to `warnings`. Raises ApiError."""
        ...

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision: ...

    def impersonate(self, user: UserInfo, request: Request) -> UserInfo:
        """As whom the user acts with this request. Raises ApiError."""
        ...

    def forget_tokens(self) -> None:
        """What tokens were found to stand for may no longer be so."""
        ...


class JudgedBefore:
    """Requests come with a user who was authenticated and allowed to send them; a request that comes without one is nobody's."""

    async def authenticate(self, request: Request, warnings: list[str]) -> UserInfo:
        raise unauthorized()

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        return ALLOWED

    def impersonate(self, user: UserInfo, request: Request) -> UserInfo:
        return user

    def forget_tokens(self) -> None:
        return
