"""Service-account tokens: signed JWTs bound to an account (and optionally to a pod, secret or node), and their verification.

A token proves its signature, times and audience; it is accepted only while the account, and the object it is bound to, still
exist with the uid written in it. Keys and issuer belong to one logical cluster, so a token is worth nothing in another. The JWT
library is loaded with the first token, because a server must start faster than that takes.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.apiserver.cluster import Cluster
from muster.machinery.authentication import UserInfo

API_AUDIENCES: tuple[str, ...] = ("https://kubernetes.default.svc",)
"""What tokens for the API server itself are made out to. The key already tells the cluster, so this is the same for all."""
USER_PREFIX = "system:serviceaccount:"
TOKEN_SECRET_TYPE = "kubernetes.io/service-account-token"
TOKEN_MARK = b'"type":"%s"' % TOKEN_SECRET_TYPE.encode()
"""What the stored bytes of a Secret of that type contain."""
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
LEEWAY_SECONDS = 10
_BOUND = {"pod": ("/pods", "pod"), "secret": ("/secrets", "secret"), "node": ("/nodes", "node")}
_SHOWN_BOUND = ("pod", "node")
"""What an identity tells about the object its token is bound to; a secret stays out of it."""


def implicit_audiences(wanted: Sequence[str]) -> list[str] | None:
    """Whom a token that names no audience is meant for: this API server and nobody else. None if others are asked about."""
    accepted = [audience for audience in wanted if audience in API_AUDIENCES]
    return accepted if accepted or not wanted else None


class InvalidToken(Exception):
    """The token is one of ours but must not be accepted; the text says why."""


class BoundObjectGone(InvalidToken):
    """What the token is bound to is not there, as far as this server has seen."""


@dataclass(frozen=True, slots=True)
class BoundObject:
    kind: str
    name: str
    uid: str


class TokenIssuer:
    """Signs and verifies for one cluster. `issuer` is the URL under which its OIDC discovery is served; verification goes by
    the cluster's key alone, so tokens stay good when the server moves to another port."""

    def __init__(self, cluster: Cluster, key: ec.EllipticCurvePrivateKey, issuer: str) -> None:
        self._cluster = cluster
        self._key = key
        self.issuer = issuer
        self.audiences = API_AUDIENCES

    @cached_property
    def key_id(self) -> str:
        der = self._key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()

    def discovery(self) -> dict[str, Any]:
        """The OIDC discovery document with which others find the keys."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def jwks(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        return {
            "keys": [
                {
                    "use": "sig",
                    "kty": "EC",
                    "kid": self.key_id,
                    "crv": "P-256",
                    "alg": "ES256",
                    "x": _base64url(numbers.x.to_bytes(32, "big")),
                    "y": _base64url(numbers.y.to_bytes(32, "big")),
                }
            ]
        }

    def issue(
        self,
        namespace: str,
        name: str,
        uid: str,
        audiences: Sequence[str],
        not_before: datetime,
        expires: datetime,
        bound: BoundObject | None = None,
    ) -> str:
        private: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        if bound is not None:
            private[bound.kind.lower()] = {"name": bound.name, "uid": bound.uid}
        claims = {
            "aud": list(audiences),
            "exp": int(expires.timestamp()),
            "iat": int(not_before.timestamp()),
            "nbf": int(not_before.timestamp()),
            "jti": str(uuid.uuid4()),
            "iss": self.issuer,
            "sub": f"{USER_PREFIX}{namespace}:{name}",
            "kubernetes.io": private,
        }
        import jwt

        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": self.key_id})

    def verify(self, token: str, audiences: Sequence[str] = ()) -> tuple[UserInfo, list[str]] | None:
        """(identity, audiences both sides accept), or None if the token is not one of this cluster's."""
        import jwt

        try:
            if jwt.get_unverified_header(token).get("kid") != self.key_id:
                return None
            claims = jwt.decode(
                token,
                self._key.public_key(),
                algorithms=["ES256"],
                options={
                    "verify_aud": False,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "require": ["exp", "sub", "aud"],
                },
            )
        except jwt.PyJWTError:
            return None
        now = self._cluster.clock().timestamp()
        if now > claims["exp"] + LEEWAY_SECONDS:
            raise InvalidToken("service account token has expired")
        if now < claims.get("nbf", 0) - LEEWAY_SECONDS:
            raise InvalidToken("service account token is not valid yet")
        wanted = list(audiences or self.audiences)
        given = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        shared = [audience for audience in wanted if audience in given]
        if not shared:
            raise InvalidToken(f"token audiences {_listed(given)} is invalid for the target audiences {_listed(wanted)}")
        return self._identity(claims), shared

    def _identity(self, claims: dict[str, Any]) -> UserInfo:
        private = claims.get("kubernetes.io") or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        name, uid = account.get("name", ""), account.get("uid", "")
        if claims["sub"] != f"{USER_PREFIX}{namespace}:{name}":
            raise InvalidToken("token subject does not match its service account")
        self._check_alive("/serviceaccounts", f"{namespace}/{name}", uid, "service account")
        extra: dict[str, tuple[str, ...]] = {}
        for field, (storage, shown) in _BOUND.items():
            bound = private.get(field)
            if bound:
                key = bound["name"] if field == "node" else f"{namespace}/{bound['name']}"
                self._check_alive(storage, key, bound["uid"], shown)
                if field in _SHOWN_BOUND:
                    extra[f"authentication.kubernetes.io/{field}-name"] = (bound["name"],)
                    extra[f"authentication.kubernetes.io/{field}-uid"] = (bound["uid"],)
        if claims.get("jti"):
            extra[_CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return UserInfo(f"{USER_PREFIX}{namespace}:{name}", uid, groups, extra)

    def _check_alive(self, storage: str, key: str, uid: str, shown: str) -> None:
        found = self._cluster.read(storage, key)
        if found is None or found["metadata"]["uid"] != uid:
            raise BoundObjectGone(f"the {shown} this token is bound to no longer exists")


def is_alive(cluster: Cluster, user: UserInfo) -> bool:
    """Whether the account that a user is, and the pod it says it runs in, are those it was when it was proved."""
    if not user.name.startswith(USER_PREFIX) or not user.uid:
        return True
    namespace, _, name = user.name.removeprefix(USER_PREFIX).partition(":")
    bound = [("/serviceaccounts", name, user.uid)]
    pods = user.extra.get("authentication.kubernetes.io/pod-name", ()), user.extra.get("authentication.kubernetes.io/pod-uid", ())
    bound += [("/pods", pod, uid) for pod, uid in zip(*pods, strict=False)]
    found = [(cluster.read(storage, f"{namespace}/{key}"), uid) for storage, key, uid in bound]
    return all(obj is not None and obj["metadata"]["uid"] == uid for obj, uid in found)


def _listed(texts: Sequence[str]) -> str:
    return "[" + " ".join(f'"{text}"' for text in texts) + "]"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
