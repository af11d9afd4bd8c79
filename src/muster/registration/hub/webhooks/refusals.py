"""Refusals of a webhook for lack of a permission, worded as Kubernetes' own API errors, and the access reviews before them."""

from __future__ import annotations

from muster.api.cluster.v1 import GROUP
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.runtime.auth import Authorizer
from muster.runtime.webhook import Denied


def forbidden(resource: str, name: str, why: str) -> Denied:
    """A Denied for a resource or subresource of our API group."""
    return Denied(f'{resource}.{GROUP} "{name}" is forbidden: {why}', 403, "Forbidden")


async def may(authorizer: Authorizer, who: UserInfo, verb: str, group: str, subresource: str, name: str) -> bool:
    """Whether a user has one of the permissions that only webhooks check: managedclusters/accept and the like."""
    resource, _, part = subresource.partition("/")
    return (await authorizer.authorize(who, AccessAttributes(verb, group, "*", resource, part, name=name))).allowed
