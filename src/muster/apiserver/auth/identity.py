"""The identities a server gives out itself, and how names travel in header fields."""

from __future__ import annotations

from muster.machinery.authentication import AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo

ANONYMOUS = UserInfo("system:anonymous", groups=(UNAUTHENTICATED,))
LOOPBACK = UserInfo("system:apiserver", groups=(MASTERS, AUTHENTICATED))
"""The server's own controllers."""


def authenticated(user: UserInfo) -> UserInfo:
    """The identity every successful authenticator hands on: `system:authenticated` added once."""
    if AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)


def from_header(field: str) -> str:
    """A name in a header field: the bytes are UTF-8, though fields are read as latin-1."""
    try:
        return field.encode("latin-1").decode()
    except UnicodeDecodeError:
        return field


def to_header(name: str) -> str:
    return name.encode().decode("latin-1")
