"""Web identities: tokens of a cluster's service accounts, verified against the keys that it publishes."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from muster.aws.interfaces import ClusterDescription
from muster.fleet.aws import LocalAws
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.local_aws import Botocore, MovedClock, credentials_in, local_aws, policy, trusting
from tests.unit.fleet.aws.conftest import HUB, MANAGED

SUBJECT = "system:serviceaccount:open-cluster-management-agent:klusterlet-registration-sa"
AUDIENCE = "sts.amazonaws.com"
ROLE = f"arn:aws:iam::{MANAGED}:role/agent"


def number(value: int, length: int = 0) -> str:
    """A coordinate has the length of its curve: one key of 128 begins with zeros."""
    return base64.urlsafe_b64encode(value.to_bytes(length or (value.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()


@cache
def slow_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@dataclass
class Issuer:
    """A cluster that publishes keys and signs tokens; attackers' versions of both are arguments."""

    clock: MovedClock
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    rsa_key: rsa.RSAPrivateKey = field(default_factory=slow_key)
    url: str = ""
    discovery: dict[str, Any] = field(default_factory=dict)
    status: int = 200

    def serve(self, request: Received) -> Answer:
        if request.path.endswith("/.well-known/openid-configuration"):
            return Answer({"issuer": self.url, "jwks_uri": f"{self.url}/keys", **self.discovery}, self.status)
        point, modulus = self.key.public_key().public_numbers(), self.rsa_key.public_key().public_numbers()
        curve = {"kty": "EC", "crv": "P-256", "kid": "ec", "x": number(point.x, 32), "y": number(point.y, 32)}
        return Answer(
            {"keys": [curve, {"kty": "RSA", "kid": "rsa", "n": number(modulus.n), "e": number(modulus.e)}, {"kty": "oct"}]}
        )

    def token(self, key: Any = None, alg: str = "ES256", kid: str = "ec", **claims: Any) -> str:
        now = int(self.clock.now().timestamp())
        usual = {"iss": self.url, "sub": SUBJECT, "aud": [AUDIENCE], "iat": now, "nbf": now, "exp": now + 600}
        said = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(said, self.key if key is None else key, algorithm=alg, headers={"kid": kid})


@dataclass
class Scene:
    aws: LocalAws
    issuer: Issuer
    clock: MovedClock
    received: list[Received]

    async def code(self, token: str, role: str = ROLE) -> str:
        anonymous = Botocore(self.aws, None)
        return await anonymous.code(
            "sts", "assume_role_with_web_identity", RoleArn=role, RoleSessionName="s1", WebIdentityToken=token
        )


def trust(provider: str, account: str = MANAGED, **condition: Any) -> str:
    usual = {f"{provider}:sub": SUBJECT, f"{provider}:aud": AUDIENCE}
    federated = {"Federated": f"arn:aws:iam::{account}:oidc-provider/{provider}"}
    return trusting(federated, "sts:AssumeRoleWithWebIdentity", Condition={"StringEquals": {**usual, **condition}})


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock = MovedClock()
    issuer = Issuer(clock)
    with HttpsServer(issuer.serve) as server:
        issuer.url = f"{server.url}/clusters/m"
        async with local_aws(tmp_path / "aws", clock=clock) as aws:
            arn = f"arn:aws:eks:us-west-2:{MANAGED}:cluster/m"
            await aws.register_cluster(ClusterDescription(arn, issuer.url, server.ca, "API", issuer.url))
            await aws.trust_issuer(MANAGED, issuer.url)
            admin = Botocore(aws, await aws.administrator(MANAGED))
            provider = issuer.url.removeprefix("https://")
            await admin.iam("create_role", RoleName="agent", AssumeRolePolicyDocument=trust(provider))
            yield Scene(aws, issuer, clock, server.received)


async def test_a_clusters_service_account_becomes_a_role(scene: Scene) -> None:
    anonymous = Botocore(scene.aws, None)
    answer = await anonymous.sts(
        "assume_role_with_web_identity", RoleArn=ROLE, RoleSessionName="s1", WebIdentityToken=scene.issuer.token()
    )
    assert (answer["SubjectFromWebIdentityToken"], answer["Audience"]) == (SUBJECT, AUDIENCE)
    told = await Botocore(scene.aws, credentials_in(answer)).sts("get_caller_identity")
    assert told["Arn"] == f"arn:aws:sts::{MANAGED}:assumed-role/agent/s1"
    assert await scene.code(scene.issuer.token(scene.issuer.rsa_key, "RS256", "rsa")) == "OK"


async def test_keys_are_fetched_once_and_again_for_one_that_is_new(scene: Scene) -> None:
    for _ in range(3):
        assert await scene.code(scene.issuer.token()) == "OK"
    assert len(scene.received) == 2
    scene.issuer.key = ec.generate_private_key(ec.SECP256R1())
    assert await scene.code(scene.issuer.token()) == "InvalidIdentityToken"  # the same id for another key: that one is known
    scene.clock.offset = timedelta(seconds=301)
    assert await scene.code(scene.issuer.token()) == "OK"
    assert len(scene.received) == 4


@pytest.mark.parametrize(
    ("claims", "refusal"),
    [
        ({"sub": "system:serviceaccount:open-cluster-management-agent:other-sa"}, "AccessDenied"),
        ({"sub": SUBJECT.upper()}, "AccessDenied"),
        ({"aud": "https://kubernetes.default.svc"}, "InvalidIdentityToken"),
        ({"aud": []}, "InvalidIdentityToken"),
        ({"iss": "https://127.0.0.1:1/other"}, "InvalidIdentityToken"),
        ({"iss": "http://127.0.0.1:1/other"}, "InvalidIdentityToken"),
        ({"iss": None}, "InvalidIdentityToken"),
        ({"exp": 1_000_000_000}, "ExpiredTokenException"),
        ({"exp": None}, "InvalidIdentityToken"),
        ({"exp": "soon"}, "InvalidIdentityToken"),
        ({"nbf": 4_000_000_000, "exp": 4_000_000_600}, "InvalidIdentityToken"),
        ({"iat": 4_000_000_000, "exp": 4_000_000_600}, "InvalidIdentityToken"),
        ({"sub": None}, "InvalidIdentityToken"),
    ],
)
async def test_what_a_token_says_has_to_fit(scene: Scene, claims: dict[str, Any], refusal: str) -> None:
    assert await scene.code(scene.issuer.token(**claims)) == refusal


async def test_who_signed_it_has_to_fit(scene: Scene) -> None:
    stranger = ec.generate_private_key(ec.SECP256R1())
    token = scene.issuer.token
    deep = base64.urlsafe_b64encode(b"[" * 4000).rstrip(b"=").decode()
    for forged in (
        token(stranger),
        token(stranger, kid="unknown"),
        token(kid="rsa"),
        token(scene.issuer.rsa_key, "RS256", "ec"),
        token(scene.issuer.rsa_key, "RS512", "rsa"),
        token("", "none"),
        token("a-shared-secret-of-thirty-two-bytes!", "HS256"),
        token("a-shared-secret-of-thirty-two-bytes!", "HS256", ""),
        "nonsense",
        f"{deep}.{deep}.{deep}",
        "a.b.c",
        token()[:-4] + "AAAA",
    ):
        assert await scene.code(forged) == "InvalidIdentityToken"


async def test_claims_are_those_that_were_signed(scene: Scene) -> None:
    head, said, proof = scene.issuer.token(sub="other").split(".")
    claims = json.loads(base64.urlsafe_b64decode(said + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**claims, "sub": SUBJECT}).encode()).rstrip(b"=").decode()
    assert await scene.code(f"{head}.{forged}.{proof}") == "InvalidIdentityToken"


async def test_a_provider_counts_in_its_account_alone(scene: Scene) -> None:
    admin = Botocore(scene.aws, await scene.aws.administrator(HUB))
    provider = scene.issuer.url.removeprefix("https://")
    await admin.iam("create_role", RoleName="agent", AssumeRolePolicyDocument=trust(provider))
    here = f"arn:aws:iam::{HUB}:role/agent"
    assert await scene.code(scene.issuer.token(), here) == "InvalidIdentityToken"
    await scene.aws.trust_issuer(HUB, scene.issuer.url)
    assert await scene.code(scene.issuer.token(), here) == "AccessDenied"  # the role trusts the other account's provider
    await admin.iam("update_assume_role_policy", RoleName="agent", PolicyDocument=trust(provider, HUB))
    assert await scene.code(scene.issuer.token(), here) == "OK"


@pytest.mark.parametrize(
    "trusted",
    [
        trusting("*", "sts:AssumeRoleWithWebIdentity"),
        trusting({"AWS": MANAGED}, "sts:AssumeRoleWithWebIdentity"),
        trusting({"Federated": f"arn:aws:iam::{MANAGED}:oidc-provider/other.example.com"}, "sts:AssumeRoleWithWebIdentity"),
    ],
)
async def test_a_provider_has_to_be_named(scene: Scene, trusted: str) -> None:
    admin = Botocore(scene.aws, await scene.aws.administrator(MANAGED))
    await admin.iam("update_assume_role_policy", RoleName="agent", PolicyDocument=trusted)
    assert await scene.code(scene.issuer.token()) == "AccessDenied"


async def test_the_action_of_a_trust_counts(scene: Scene) -> None:
    admin = Botocore(scene.aws, await scene.aws.administrator(MANAGED))
    provider = scene.issuer.url.removeprefix("https://")
    federated = {"Federated": f"arn:aws:iam::{MANAGED}:oidc-provider/{provider}"}
    document = policy({"Effect": "Allow", "Principal": federated, "Action": "sts:AssumeRole"})
    await admin.iam("update_assume_role_policy", RoleName="agent", PolicyDocument=document)
    assert await scene.code(scene.issuer.token()) == "AccessDenied"


async def test_a_role_that_is_not_there(scene: Scene) -> None:
    assert await scene.code(scene.issuer.token(), f"arn:aws:iam::{MANAGED}:role/none") == "AccessDenied"
    assert await scene.code(scene.issuer.token(), "arn:aws:iam::333333333333:role/none") == "InvalidIdentityToken"


@pytest.mark.parametrize(
    "discovery", [{"issuer": "https://evil.example.com"}, {"jwks_uri": "http://127.0.0.1/keys"}, {"jwks_uri": None}]
)
async def test_an_issuers_document_has_to_be_its_own(scene: Scene, discovery: dict[str, Any]) -> None:
    scene.issuer.discovery = discovery
    assert await scene.code(scene.issuer.token()) == "InvalidIdentityToken"


async def test_an_issuer_that_does_not_answer_is_told_of(scene: Scene) -> None:
    scene.issuer.status = 404
    assert await scene.code(scene.issuer.token()) == "IDPCommunicationError"


async def test_an_issuer_has_to_prove_its_name(scene: Scene) -> None:
    """A server at the issuer's address with another CA's certificate is not the issuer."""
    impostor = Issuer(scene.clock)
    with HttpsServer(impostor.serve) as server:
        impostor.url = f"{server.url}/clusters/m"
        await scene.aws.trust_issuer(MANAGED, impostor.url)
        assert await scene.code(impostor.token()) == "IDPCommunicationError"
        assert server.received == []
