"""How a webhook says no: in the words and codes of Kubernetes' own API errors, and what is asked before it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from muster.api.cluster.v1 import GROUP
from muster.api.resource import MalformedObject, Resource
from muster.runtime.delegation import Action, Authorizer, Identity
from muster.runtime.resource import Object
from muster.runtime.webhookserver import Denied

R = TypeVar("R", bound=Resource)


def bad_request(message: str) -> Denied:
    return Denied(message, 400, "BadRequest")


def forbidden(resource: str, name: str, why: str) -> Denied:
    """Of a (sub)resource of our group."""
    return Denied(f'{resource}.{GROUP} "{name}" is forbidden: {why}', 403, "Forbidden")


def read(kind: type[R], document: Object | None) -> R:
    """The object of a review; one that does not have the shape of its kind is refused, and the refusal names the field."""
    if not isinstance(document, Mapping):
        raise bad_request(f"the review carries no {kind.resource.kind}")
    try:
        return kind.decode(dict(document))
    except MalformedObject as error:
        raise bad_request(str(error)) from error


async def may(authorizer: Authorizer, who: Identity, verb: str, group: str, subresource: str, name: str) -> bool:
    """Whether somebody holds one of the rights that exist only to be asked for: managedclusters/accept and the like."""
    resource, _, part = subresource.partition("/")
    return (await authorizer.authorize(who, Action(verb, group, resource, name=name, subresource=part))).allowed
