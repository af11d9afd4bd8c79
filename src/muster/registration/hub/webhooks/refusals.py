"""How a webhook says that somebody lacks a right: in the words of Kubernetes' own API errors, and what is asked before it does."""

from __future__ import annotations

from muster.api.cluster.v1 import GROUP
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.runtime.auth import Authorizer
from muster.runtime.webhook import Denied


def forbidden(resource: str, name: str, why: str) -> Denied:
    """Of a (sub)resource of our group."""
    return Denied(f'{resource}.{GROUP} "{name}" is forbidden: {why}', 403, "Forbidden")


async def may(authorizer: Authorizer, who: UserInfo, verb: str, group: str, subresource: str, name: str) -> bool:
    """Whether somebody holds one of the rights that exist only to be asked for: managedclusters/accept and the like."""
    resource, _, part = subresource.partition("/")
    return (await authorizer.authorize(who, AccessAttributes(verb, group, "*", resource, part, name=name))).allowed
