"""The user of a request: the result of authentication, used by authorization, admission and audit.

The same fields are the `UserInfo` of TokenReviews, admission requests and audit events; `decode` and `document` convert it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
"""Members of this group may do everything, independent of authorizers."""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """All fields are proven by a credential, or by a trusted server that verified one."""

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
"""The user of a request without credentials."""


def authenticated(user: UserInfo) -> UserInfo:
    """The user that every successful authenticator returns: with `system:authenticated` added once."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)
