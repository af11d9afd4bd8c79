"""The attributes of a request for authorization, and an authorizer's decision.

`AccessAttributes` are the terms of roles, reviews, admission and audit: a verb on a resource, or on a non-resource path. They are
made for every request, so they are a struct and not a dataclass. An `AccessDecision` allows, denies, or has no opinion: an
authorizer that does not allow leaves the decision to the next one unless it denies, and a request that none allows is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class AccessAttributes(msgspec.Struct, frozen=True, gc=False):
    """A resource request (`resource` set) or a non-resource one (`path` only). `verb` is lower case.

    The selectors are those of a list, watch or deletecollection, as in the query. They are for authorizers other than RBAC, which
    ignores them; they are included in reviews.
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @classmethod
    def decode(cls, spec: Mapping[str, Any]) -> AccessAttributes:
        """From the spec of an access review, which has one of the two kinds of attributes."""
        attributes = spec.get("resourceAttributes")
        if attributes is None:
            path = spec["nonResourceAttributes"]
            return cls(path.get("verb", ""), path=path.get("path", ""))
        return cls(**{name: attributes.get(name, "") for name in _OF_RESOURCE})

    def spec(self) -> dict[str, Any]:
        """As the spec of an access review."""
        if not self.resource:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        named = ((name, getattr(self, name)) for name in _OF_RESOURCE)
        attributes: dict[str, Any] = {name: value for name, value in named if value}
        if self.field_selector:
            attributes["fieldSelector"] = {"rawSelector": self.field_selector}
        if self.label_selector:
            attributes["labelSelector"] = {"rawSelector": self.label_selector}
        return {"resourceAttributes": attributes}

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    def __str__(self) -> str:
        return f"{self.verb} {self.full_resource or self.path}"


_OF_RESOURCE: Final = ("verb", "group", "version", "resource", "subresource", "namespace", "name")


class AccessDecision(msgspec.Struct, frozen=True, gc=False):
    allowed: bool
    reason: str = ""
    denied: bool = False
    """An authorizer denied; otherwise none allowed."""


ALLOWED: Final = AccessDecision(True)
NO_OPINION: Final = AccessDecision(False)
