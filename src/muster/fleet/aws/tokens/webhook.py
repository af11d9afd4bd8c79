"""TokenReviews of one cluster: is the token for this AWS, which identity does STS report, and which user is it here.

The token's URL is validated before anything is called (`aws/token_validation.py`), and no network request is sent: the URL is
passed to the STS of this very process, with this cluster's name in the header that the token must have signed. A refusal is 403
without a reason; the log has the reason. If STS throttles, the answer is 429, so that the API server retries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from muster.aws.token_validation import IdentityQuestion, TokenRefused, validate_token
from muster.fleet.aws.behaviour import AnswerLost
from muster.fleet.aws.callers import SignedRequest
from muster.fleet.aws.model import Cluster
from muster.fleet.aws.tokens.aws_auth import AwsAuth, Mapped
from muster.fleet.aws.tokens.mapper import ProvenIdentity, Unmapped, mapped
from muster.fleet.aws.world import World
from muster.http import Response
from muster.machinery.authentication import UserInfo
from muster.machinery.logs import get_logger

log = get_logger(__name__)
VERSIONS: Final = ("authentication.k8s.io/v1", "authentication.k8s.io/v1beta1")
_JSON: Final = "application/json"
_EXPECTED: Final = b"expected a TokenReview of authentication.k8s.io/v1 or v1beta1 with spec.token\n"

SendToSts = Callable[[SignedRequest], Awaitable[Response]]


class StsRefused(Exception):
    """STS refuses the token; `code` is its error code, empty if it did not answer."""

    def __init__(self, code: str) -> None:
        super().__init__(f"STS refused: {code}" if code else "STS did not answer")
        self.code = code


class TokenReviews:
    def __init__(self, world: World, send: SendToSts, is_sts: Callable[[str], bool]) -> None:
        self._world = world
        self._send = send
        self._is_sts = is_sts

    async def review(self, cluster: Cluster, aws_auth: AwsAuth, body: bytes) -> Response:
        try:
            review = orjson.loads(body)
            version, token = review["apiVersion"], review["spec"]["token"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            version = token = None
        if version not in VERSIONS or not isinstance(token, str):
            return Response(400, _EXPECTED, (), "text/plain; charset=utf-8")
        try:
            user = await self.user_of(cluster, aws_auth, token)
        except (TokenRefused, StsRefused, Unmapped) as problem:
            log.info("token refused", cluster=cluster.arn, reason=str(problem))
            throttled = isinstance(problem, StsRefused) and problem.code == "Throttling"
            return _answer(version, None, 429 if throttled else 403)
        return _answer(version, user, 200)

    async def user_of(self, cluster: Cluster, aws_auth: AwsAuth, token: str) -> UserInfo:
        """Raises TokenRefused, StsRefused and Unmapped."""
        question = validate_token(token, cluster.name, self._is_sts, self._world.clock.now())
        identity = await self._identity(question)
        return _user(identity, mapped(self._world, cluster, aws_auth, identity))

    async def _identity(self, question: IdentityQuestion) -> ProvenIdentity:
        headers = (("host", question.host), *((name.lower(), value) for name, value in question.headers.items()))
        pairs = tuple(parse_qsl(question.target.partition("?")[2], keep_blank_values=True))
        try:
            answer = await self._send(SignedRequest("GET", "/", pairs, headers, b""))
        except AnswerLost:
            raise StsRefused("") from None
        body = orjson.loads(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body))
        if answer.status != 200:
            raise StsRefused(body["Error"]["Code"])
        result = body["GetCallerIdentityResponse"]["GetCallerIdentityResult"]
        return ProvenIdentity(result["Account"], result["Arn"], result["UserId"], question.access_key_id)


def _user(identity: ProvenIdentity, mapping: Mapped) -> UserInfo:
    extra = {
        "arn": (identity.arn,),
        "canonicalArn": (identity.canonical_arn,),
        "sessionName": (identity.session,),
        "accessKeyId": (identity.access_key,),
        "principalId": (identity.principal_id,),
        "sigs.k8s.io/aws-iam-authenticator/principalId": (identity.principal_id,),
    }
    uid = f"aws-iam-authenticator:{identity.account}:{identity.principal_id}"
    return UserInfo(mapping.username, uid, mapping.groups, extra)


def _answer(version: str, user: UserInfo | None, status: int) -> Response:
    review_status: dict[str, Any] = {"authenticated": user is not None}
    if user is not None:
        review_status["user"] = user.document()
    return Response(status, orjson.dumps({"apiVersion": version, "kind": "TokenReview", "status": review_status}), (), _JSON)
