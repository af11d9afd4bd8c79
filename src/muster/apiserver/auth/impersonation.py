"""Acting as somebody else: `Impersonate-*` headers, each of which needs its own `impersonate` permission."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

from muster.apiserver import errors
from muster.apiserver.auth.identity import ANONYMOUS, from_header
from muster.http import Request
from muster.machinery.authentication import AUTHENTICATED, UNAUTHENTICATED, UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision

Authorize = Callable[[UserInfo, AccessAttributes], AccessDecision]
_ACCOUNT = "system:serviceaccount:"
_EXTRA = "impersonate-extra-"
_VERSION = "authentication.k8s.io/v1"


def impersonated(user: UserInfo, request: Request, authorize: Authorize) -> UserInfo:
    if not request.headers.any_starts("impersonate-"):
        return user
    name = from_header(request.headers.get("impersonate-user") or "")
    groups = [from_header(group) for group in request.headers.getall("impersonate-group")]
    uid = from_header(request.headers.get("impersonate-uid") or "")
    extra = _extra(request)
    if not name:
        requested = [f"{{Group  {group}    }}" for group in groups]
        requested += [f"{{UserExtra  {value}  {_VERSION}  {key}}}" for key, values in extra.items() for value in values]
        requested += [f"{{UID  {uid}  {_VERSION}  }}"] if uid else []
        if requested:
            raise errors.bad_request(f"requested [{' '.join(requested)}] without impersonating a user")
        return user
    _check(user, _user_attributes(name), authorize)
    for group in groups:
        _check(user, AccessAttributes("impersonate", version="v1", resource="groups", name=group), authorize)
    if uid:
        _check(user, AccessAttributes("impersonate", "authentication.k8s.io", "v1", "uids", name=uid), authorize)
    for key, values in extra.items():
        for value in values:
            attributes = AccessAttributes("impersonate", "authentication.k8s.io", "v1", "userextras", key, name=value)
            _check(user, attributes, authorize)
    return UserInfo(name, uid, _effective_groups(name, tuple(groups)), extra)


def _user_attributes(name: str) -> AccessAttributes:
    namespace, colon, account = name.removeprefix(_ACCOUNT).partition(":")
    if name.startswith(_ACCOUNT) and colon:
        return AccessAttributes("impersonate", version="v1", resource="serviceaccounts", namespace=namespace, name=account)
    return AccessAttributes("impersonate", version="v1", resource="users", name=name)


def _effective_groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    if name.startswith(_ACCOUNT) and not groups:
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return groups if AUTHENTICATED in groups or UNAUTHENTICATED in groups else (*groups, AUTHENTICATED)


def _extra(request: Request) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for header, value in request.headers.items():
        lowered = header.lower()
        if lowered.startswith(_EXTRA):
            key = unquote(lowered[len(_EXTRA) :])
            found[key] = (*found.get(key, ()), from_header(value))
    return found


def _check(user: UserInfo, attributes: AccessAttributes, authorize: Authorize) -> None:
    decision = authorize(user, attributes)
    if decision.allowed:
        return
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    what = f'resource "{attributes.full_resource}" in API group "{attributes.group}"'
    text = f'User "{user.name}" cannot impersonate {what} {where}'
    raise errors.forbidden(attributes.group, attributes.resource, attributes.name, text)
