"""Service account tokens: JWTs bound to an account, and optionally to a pod, Secret or node; issuing and verification.

Signature, times and audience are verified, and a token is accepted only while the account and the object it is bound to exist with
the uid in the token. Keys and issuer belong to one logical cluster, so a token is invalid in any other. The JWT library is imported
with the first token, because the import would slow down the start of the server.
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
"""The audiences of this API server. They are the same in all clusters, because each cluster has its own signing key."""
USER_PREFIX = "system:serviceaccount:"
TOKEN_SECRET_TYPE = "kubernetes.io/service-account-token"
TOKEN_SECRET_MARKER = b'"type":"%s"' % TOKEN_SECRET_TYPE.encode()
"""Contained in the stored bytes of every Secret of that type."""
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
LEEWAY_SECONDS = 10
_BOUND = {"pod": ("/pods", "pod"), "secret": ("/secrets", "secret"), "node": ("/nodes", "node")}
_BOUND_IN_EXTRA = ("pod", "node")
"""Kinds of bound objects that are shown in the extra fields of the user; a Secret is not."""


def implicit_audiences(requested: Sequence[str]) -> list[str] | None:
    """The accepted audiences of a token without audiences, which is valid for this API server only; None if only others are
    requested."""
    accepted = [audience for audience in requested if audience in API_AUDIENCES]
    return accepted if accepted or not requested else None


class InvalidToken(Exception):
    """The token was issued here but is not valid; the text is the reason."""


class BoundObjectGone(InvalidToken):
    """The object that the token is bound to does not exist, as far as this server has seen."""


@dataclass(frozen=True, slots=True)
class BoundObject:
    kind: str
    name: str
    uid: str


class TokenIssuer:
    """Issues and verifies the tokens of one cluster. `issuer` is the URL of its OIDC discovery; verification uses the key of the
    cluster only, so tokens stay valid if the server moves to another port."""

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
        """The OIDC discovery document, with the URL of the public keys."""
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
        """(user, requested audiences that the token has), or None if the token is not one of this cluster. Raises InvalidToken."""
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
        requested = list(audiences or self.audiences)
        given = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        shared = [audience for audience in requested if audience in given]
        if not shared:
            raise InvalidToken(f"token audiences {_listed(given)} is invalid for the target audiences {_listed(requested)}")
        return self._identity(claims), shared

    def _identity(self, claims: dict[str, Any]) -> UserInfo:
        private = claims.get("kubernetes.io") or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        name, uid = account.get("name", ""), account.get("uid", "")
        if claims["sub"] != f"{USER_PREFIX}{namespace}:{name}":
            raise InvalidToken("token subject does not match its service account")
        self._check_exists("/serviceaccounts", f"{namespace}/{name}", uid, "service account")
        extra: dict[str, tuple[str, ...]] = {}
        for field, (storage, shown) in _BOUND.items():
            bound = private.get(field)
            if bound:
                key = bound["name"] if field == "node" else f"{namespace}/{bound['name']}"
                self._check_exists(storage, key, bound["uid"], shown)
                if field in _BOUND_IN_EXTRA:
                    extra[f"authentication.kubernetes.io/{field}-name"] = (bound["name"],)
                    extra[f"authentication.kubernetes.io/{field}-uid"] = (bound["uid"],)
        if claims.get("jti"):
            extra[_CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return UserInfo(f"{USER_PREFIX}{namespace}:{name}", uid, groups, extra)

    def _check_exists(self, storage: str, key: str, uid: str, shown: str) -> None:
        found = self._cluster.read(storage, key)
        if found is None or found["metadata"]["uid"] != uid:
            raise BoundObjectGone(f"the {shown} this token is bound to no longer exists")


def is_current(cluster: Cluster, user: UserInfo) -> bool:
    """Whether the service account of a user, and the pod in its extra fields, still exist with the same uid."""
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
