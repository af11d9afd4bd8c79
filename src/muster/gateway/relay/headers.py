"""Header fields: which of a client's fields are sent to a cluster, which are added, and which of the cluster's fields are
returned.

The order matters for security: first the fields that the client's own Connection field names are removed, then all fields that
name identities or could change what was authorized, and the gateway's own fields are added last, so that no client can remove or
duplicate them. Names are compared in lower case and with hyphens for underscores, because servers on the way may read them so.

X-Forwarded-For is not sent. The gateway only knows the hub's API server; earlier addresses are the client's claim, which a
cluster's audit log would record as a fact, and clusters need not know addresses of users. The user of a request is found by its
Audit-Id, which is sent to the cluster and recorded in the gateway's audit log.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from muster.gateway.names import COMPONENT
from muster.gateway.relay.errors import ClusterError
from muster.gateway.target import CREDENTIAL_UNUSABLE, BearerToken, Credential, Problem
from muster.http import Headers
from muster.http.relay import HOP_BY_HOP
from muster.kube.front_proxy import USUAL, FrontProxyHeaders
from muster.kube.websocket_token import without_bearer_protocol
from muster.machinery.authentication import UserInfo
from muster.machinery.uids import new_uid

INSTANCE: Final = f"{COMPONENT}-{secrets.token_hex(6)}"
"""Name of this process in Via fields, by which a loop is detected."""
UPGRADES: Final = frozenset({"websocket", "spdy/3.1"})
"""Protocols to which a connection may be upgraded. Others, especially HTTP/2, could carry requests that were not authorized."""
REFUSED_METHODS: Final = frozenset({"CONNECT", "TRACE", "TRACK"})
"""TRACE would return the gateway's own fields to the client."""

_REMOVED: Final = HOP_BY_HOP | frozenset(
    {
        "authorization",
        "cookie",
        "cookie2",
        "expect",
        "forwarded",
        "host",
        "http2-settings",
        "max-forwards",
        "user-agent",
        "audit-id",
        "via",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-method",
        "x-original-uri",
        "x-original-url",
        "x-rewrite-url",
        "x-real-ip",
        "x-client-ip",
        "true-client-ip",
    }
)
"""Credentials, fields about the origin or the real target of a request, and fields that are set below."""
_REMOVED_PREFIXES: Final = ("impersonate-", "x-remote-", "x-forwarded-", "proxy-")
_REMOVED_FROM_ANSWERS: Final = frozenset(
    {"alt-svc", "clear-site-data", "content-location", "location", "refresh", "set-cookie", "set-cookie2", "www-authenticate"}
)
_REMOVED_PREFIXES_FROM_ANSWERS: Final = ("access-control-", "proxy-")
_HEADER_SAFE: Final = "!#$&'*+-.^_`|~"
_AUDIT_ID: Final = re.compile(r"[!-~]{1,64}").fullmatch
_TOKEN: Final = re.compile(r"[!-~]+").fullmatch
_KNOWN_NAMES: Final = 1024
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]").search

Fields = list[tuple[str, str]]


class UnencodableUser(Exception):
    """A user whose name cannot be sent in a header field."""


class RequestFields:
    """Rewrites the header fields of requests. `identity` returns the field names by which the hub's front proxies pass users.

    It is called for every request, because an administrator may change these names while the process runs. Former names stay
    removed for the lifetime of the process: an API server that was not restarted yet still sends them.
    """

    def __init__(self, identity: Callable[[], FrontProxyHeaders] = lambda: USUAL) -> None:
        self._identity = identity
        self._known = USUAL
        self._removed = _REMOVED
        self._prefixes: tuple[str, ...] = _REMOVED_PREFIXES
        self._passing: dict[bytes, str] = {}
        """Client's spelling of a name to the forwarded name; empty if it is removed. Most requests use the same few names."""

    def rewritten(
        self, headers: Headers, *, credential: Credential | None, impersonated: UserInfo | None, audit_id: str, upgrade: bool
    ) -> Fields:
        """The fields for the cluster, without framing, Host and the Upgrade pair. Raises ClusterError and UnencodableUser."""
        identity = self._identity()
        if identity is not self._known:
            self._update_identity(identity)
        connection = headers.get("connection")
        named = {name.strip().lower() for name in connection.split(",")} if connection else ()
        passing = self._passing
        fields: Fields = []
        for raw_name, value in headers.raw:
            name = passing.get(raw_name)
            if name is None:
                name = self._forwarded_name(raw_name)
            if name and name not in named:
                fields.append((name, value.decode("latin-1")))
        if "sec-websocket-protocol" in headers:
            fields = _without_tokens(fields) if upgrade else [field for field in fields if field[0] != "sec-websocket-protocol"]
        agent, via = headers.get("user-agent"), headers.get("via")
        fields.append(("User-Agent", f"{agent} via {COMPONENT}" if agent else COMPONENT))
        fields.append(("Via", f"{via}, 1.1 {INSTANCE}" if via else f"1.1 {INSTANCE}"))
        fields.append(("Audit-Id", audit_id))
        if impersonated is not None:
            fields += impersonation_fields(impersonated)
        if isinstance(credential, BearerToken):
            fields.append(authorization(credential))
        return fields

    def _update_identity(self, identity: FrontProxyHeaders) -> None:
        self._known = identity
        self._removed |= {_plain(name) for name in identity.names}
        self._prefixes = tuple(dict.fromkeys((*self._prefixes, *map(_plain, identity.prefixes))))
        self._passing.clear()

    def _forwarded_name(self, raw_name: bytes) -> str:
        name = raw_name.decode("latin-1").lower()
        plain = _plain(name)
        passed = "" if plain in self._removed or plain.startswith(self._prefixes) else name
        if len(self._passing) < _KNOWN_NAMES:
            self._passing[raw_name] = passed
        return passed


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _without_tokens(fields: Fields) -> Fields:
    """WebSocket clients that cannot set header fields send their token as a subprotocol."""
    kept: Fields = []
    for name, value in fields:
        if name == "sec-websocket-protocol":
            value = without_bearer_protocol(value)
        if value or name != "sec-websocket-protocol":
            kept.append((name, value))
    return kept


def authorization(credential: BearerToken) -> tuple[str, str]:
    """Raises ClusterError."""
    if _TOKEN(credential.token) is None:
        text = "the token has invalid characters: look for line breaks and spaces in the Secret's data"
        raise ClusterError(Problem(CREDENTIAL_UNUSABLE, text))
    return "Authorization", f"Bearer {credential.token}"


def impersonation_fields(user: UserInfo) -> Fields:
    """Fields that impersonate the user on the cluster. Raises UnencodableUser."""
    fields = [("Impersonate-User", user.name)]
    if user.uid:
        fields.append(("Impersonate-Uid", user.uid))
    fields += [("Impersonate-Group", group) for group in user.groups]
    for key, values in user.extra.items():
        name = f"Impersonate-Extra-{quote(key.lower(), safe=_HEADER_SAFE)}"
        fields += [(name, value) for value in values]
    if not user.name or any(_CONTROLS(value) or value != value.strip() for _, value in fields):
        raise UnencodableUser("the user to be impersonated has no name, or one that cannot be sent in a header field")
    return [(name, value.encode().decode("latin-1")) for name, value in fields]


def audit_id(headers: Headers) -> str:
    """The client's audit id, by which it finds its request in every log, or a new one."""
    given = headers.get("audit-id")
    return given if given is not None and _AUDIT_ID(given) else new_uid()


def is_circular(headers: Headers) -> bool:
    """Whether this process has relayed the request before: an endpoint is the gateway itself."""
    via = headers.get("via")
    return via is not None and INSTANCE in via


def upgrade_problem(headers: Headers) -> str:
    """Why the protocol of an upgrade is not allowed; empty if it is."""
    wanted = headers.get("upgrade") or ""
    if wanted.strip().lower() in UPGRADES:
        return ""
    return f"Upgrade: only websocket and SPDY/3.1 pass through the gateway, not {wanted[:40]!r}"


def answer_fields(fields: Sequence[tuple[str, str]], token: str = "") -> Fields:
    """The fields of a cluster's answer that the client may see. A field that contains the gateway's token is never passed on."""
    return [field for field in fields if _is_shown(field[0]) and not (token and token in field[1])]


@lru_cache(maxsize=1024)
def _is_shown(name: str) -> bool:
    lowered = name.lower()
    return lowered not in _REMOVED_FROM_ANSWERS and not lowered.startswith(_REMOVED_PREFIXES_FROM_ANSWERS)
