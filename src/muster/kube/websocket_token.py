"""A bearer token in a WebSocket's subprotocols, as browsers send it: they cannot set an Authorization header.

A client offers `base64url.bearer.authorization.k8s.io.<token>` besides its protocols. The token is for the authenticating server; a
proxy must remove it (`without_bearer_protocol`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Final

BEARER_PROTOCOL: Final = "base64url.bearer.authorization.k8s.io."
_ALPHABET: Final = re.compile("[A-Za-z0-9_-]*")


def protocol_token(values: Iterable[str]) -> str:
    """The token in the values of Sec-WebSocket-Protocol; empty if there is none. ValueError for an invalid token, for several, and
    for one without another protocol, as in kube-apiserver."""
    offered = [protocol.strip() for value in values for protocol in value.split(",")]
    tokens = [protocol.removeprefix(BEARER_PROTOCOL) for protocol in offered if protocol.startswith(BEARER_PROTOCOL)]
    if not tokens:
        return ""
    if len(tokens) > 1:
        raise ValueError("several bearer tokens among the WebSocket protocols")
    token = _decoded(tokens[0])
    if token and len(offered) == 1:
        raise ValueError("no WebSocket protocol beside the bearer token")
    return token


def upgrade_token(protocol: str | None, values: Iterable[str]) -> str:
    """`protocol_token` of a request that upgrades to `protocol`; empty if that is not WebSocket. Raises ValueError."""
    return protocol_token(values) if protocol is not None and protocol.strip().lower() == "websocket" else ""


def without_bearer_protocol(value: str) -> str:
    """A value of Sec-WebSocket-Protocol without tokens, in any case of their prefix; empty if nothing else was in it."""
    if BEARER_PROTOCOL not in value.lower():
        return value
    offered = (protocol.strip() for protocol in value.split(","))
    return ", ".join(protocol for protocol in offered if not protocol.lower().startswith(BEARER_PROTOCOL))


def _decoded(token: str) -> str:
    try:
        if not _ALPHABET.fullmatch(token):  # Python would ignore other characters
            raise ValueError
        return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except ValueError:
        raise ValueError("the bearer token among the WebSocket protocols is not base64url, without padding, of a text") from None
