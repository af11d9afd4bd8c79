"""A request's identity. Everything in it is proved by a credential (or, after impersonation, by a permission)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def info(self) -> dict[str, object]:
        """The `UserInfo` shape used by reviews, admission and CSRs."""
        info: dict[str, object] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))
LOOPBACK = User("system:apiserver", groups=(MASTERS, AUTHENTICATED))
"""The server's own controllers."""


def authenticated(user: User) -> User:
    """The identity every successful authenticator hands on: `system:authenticated` added once."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return User(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)


def from_header(field: str) -> str:
    """A name in a header field: the bytes are UTF-8, though fields are read as latin-1."""
    try:
        return field.encode("latin-1").decode()
    except UnicodeDecodeError:
        return field


def to_header(name: str) -> str:
    return name.encode().decode("latin-1")
