"""Who makes a request: the user info that authenticators hand on and that authorization, admission and audit read.

The same facts travel as the `UserInfo` of TokenReviews, admission requests and audit events; `decode` and `document` are that form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
"""Whoever is in this group may do everything, whatever the rules say."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Everything in it is proved by a credential, or by the word of whoever checked one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> UserInfo:
        extra = {str(key): tuple(values or ()) for key, values in (document.get("extra") or {}).items()}
        return cls(str(document.get("username") or ""), str(document.get("uid") or ""), tuple(document.get("groups") or ()), extra)

    def document(self) -> dict[str, object]:
        document: dict[str, object] = {"username": self.name}
        if self.uid:
            document["uid"] = self.uid
        if self.groups:
            document["groups"] = list(self.groups)
        if self.extra:
            document["extra"] = {key: list(values) for key, values in self.extra.items()}
        return document


ANONYMOUS: Final = UserInfo("system:anonymous", groups=(UNAUTHENTICATED,))
"""Whoever shows no credential at all."""


def authenticated(user: UserInfo) -> UserInfo:
    """The identity that every successful authenticator hands on: `system:authenticated` added once."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)
