"""Impersonation: the requested user of the `Impersonate-*` headers, and the required permissions.

Each name, group, uid and extra value needs a permission of its own, verb `impersonate`. The server authorizes all of them, in
order, and continues as `user` only if every one is granted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from muster.kube.identity_headers import HeaderPairs, extra_fields, from_header
from muster.kube.names import name_is_label, name_is_subdomain
from muster.machinery.authentication import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo
from muster.machinery.authorization import AccessAttributes

PREFIX: Final = "impersonate-"
_USER: Final = "impersonate-user"
_GROUP: Final = "impersonate-group"
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"
_ACCOUNT: Final = "system:serviceaccount:"
_GROUP_OF_KINDS: Final = "authentication.k8s.io"
_VERSION: Final = f"{_GROUP_OF_KINDS}/v1"


class BadImpersonation(ValueError):
    """The headers have parts of an identity without a user: a bad request, with kube-apiserver's text."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    user: UserInfo
    needed: tuple[AccessAttributes, ...]
    """Permissions, in the order of the checks."""


def wanted_impersonation(headers: HeaderPairs) -> Impersonation | None:
    """None: no impersonation. Raises BadImpersonation."""
    pairs = [(name, value) for name, value in headers if name.startswith(PREFIX)]
    if not pairs:
        return None
    # A repeated header reads as one with a comma in it: no user has such a name, and neither of the two is used.
    name = from_header(", ".join(value for field, value in pairs if field == _USER))
    uid = from_header(", ".join(value for field, value in pairs if field == _UID))
    groups = tuple(from_header(value) for field, value in pairs if field == _GROUP)
    extra = extra_fields(pairs, _EXTRA)
    if not name:
        requested = [f"{{Group  {group}    }}" for group in groups]
        requested += [f"{{UserExtra  {value}  {_VERSION}  {key}}}" for key, values in extra.items() for value in values]
        requested += [f"{{UID  {uid}  {_VERSION}  }}"] if uid else []
        if requested:
            raise BadImpersonation(f"requested [{' '.join(requested)}] without impersonating a user")
        return None
    account = _service_account(name)
    needed = [
        _needed("users", name) if account is None else _needed("serviceaccounts", account[1], namespace=account[0]),
        *(_needed("groups", group) for group in groups),
        *([_needed("uids", uid, _GROUP_OF_KINDS)] if uid else ()),
        *(_needed("userextras", value, _GROUP_OF_KINDS, subresource=key) for key, values in extra.items() for value in values),
    ]
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    return Impersonation(UserInfo(name, uid, _effective(name, groups), extra), tuple(needed))


def refusal_text(user: UserInfo, needed: AccessAttributes) -> str:
    """The message that a permission to impersonate is missing, with kube-apiserver's text."""
    where = f'in the namespace "{needed.namespace}"' if needed.namespace else "at the cluster scope"
    what = f'resource "{needed.full_resource}" in API group "{needed.group}"'
    return f'User "{user.name}" cannot impersonate {what} {where}'


def _needed(resource: str, name: str, group: str = "", *, subresource: str = "", namespace: str = "") -> AccessAttributes:
    return AccessAttributes("impersonate", group, "v1", resource, subresource, namespace, name)


def _service_account(user: str) -> tuple[str, str] | None:
    """Namespace and name, if the user is a service account."""
    namespace, _, name = user.removeprefix(_ACCOUNT).partition(":")
    if not user.startswith(_ACCOUNT) or name_is_label(namespace) or name_is_subdomain(name):
        return None
    return namespace, name


def _effective(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups or UNAUTHENTICATED in groups else (*groups, AUTHENTICATED)
