"""The interface between the request pipeline and the authentication and authorization of a cluster, and its implementation for
requests that were authorized before."""

from __future__ import annotations

from typing import Protocol

from muster.apiserver.errors import unauthorized
from muster.http import Request
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import ALLOWED, AccessAttributes, AccessDecision


class AccessRules(Protocol):
    async def authenticate(self, request: Request, warnings: list[str]) -> UserInfo:
        """The user who sends the request; warnings about its credentials are added to `warnings`. Raises ApiError."""
        ...

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision: ...

    def impersonate(self, user: UserInfo, request: Request) -> UserInfo:
        """The user that the request impersonates, else `user`. Raises ApiError."""
        ...

    def invalidate_tokens(self) -> None:
        """Drop cached results of token authentication."""
        ...


class PreauthorizedRules:
    """For requests whose user is passed along, already authenticated and authorized. A request without one is rejected."""

    async def authenticate(self, request: Request, warnings: list[str]) -> UserInfo:
        raise unauthorized()

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> AccessDecision:
        return ALLOWED

    def impersonate(self, user: UserInfo, request: Request) -> UserInfo:
        return user

    def invalidate_tokens(self) -> None:
        return
