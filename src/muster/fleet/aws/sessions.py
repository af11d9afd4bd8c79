"""Temporary credentials without stored state: the session token contains role and expiry, authenticated by a MAC.

The secret is derived from the token, so nobody without the server's key can make either. A session is for one role by its id: it is
invalid for a role that was deleted and created again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from muster.aws.interfaces import AwsCredentials
from muster.fleet.aws import identifiers
from muster.fleet.aws.errors import AwsRefusal
from muster.fleet.aws.world import World

INVALID: Final = AwsRefusal("InvalidClientTokenId", "The security token included in the request is invalid.", 403)


class Session(msgspec.Struct, frozen=True):
    key_id: str
    account: str
    role_id: str
    role_name: str
    name: str
    expires: int


class Sessions:
    def __init__(self, world: World) -> None:
        self._world = world
        self._key = bytes.fromhex(world.state.session_key)

    def open(self, account: str, role_id: str, role_name: str, name: str, seconds: int) -> AwsCredentials:
        expires = self._world.clock.now() + timedelta(seconds=seconds)
        key_id = self._world.unique_id(identifiers.SESSION_KEY)
        session = Session(key_id, account, role_id, role_name, name, int(expires.timestamp()))
        payload = base64.urlsafe_b64encode(msgspec.json.encode(session)).rstrip(b"=")
        token = payload.decode() + "." + self._seal(b"token", payload)
        return AwsCredentials(key_id, self._seal(b"secret", payload), token, datetime.fromtimestamp(session.expires, UTC))

    def read(self, key_id: str, token: str) -> tuple[Session, str]:
        """The session and its secret. Raises AwsRefusal, also after its expiry."""
        payload, dot, seal = token.partition(".")
        if not dot or not hmac.compare_digest(self._seal(b"token", payload.encode()).encode(), seal.encode()):
            raise INVALID
        session = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=Session)
        if session.key_id != key_id:
            raise INVALID
        if session.expires <= self._world.clock.now().timestamp():
            raise AwsRefusal("ExpiredToken", "The security token included in the request is expired", 403)
        return session, self._seal(b"secret", payload.encode())

    def _seal(self, purpose: bytes, payload: bytes) -> str:
        digest = hmac.new(self._key, purpose + b"\0" + payload, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
