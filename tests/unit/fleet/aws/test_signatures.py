"""Signatures: whoever cannot make one is nobody, and one is good for what was signed alone."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from muster.aws.interfaces import AwsCredentials
from muster.aws.sigv4 import presign, sign
from muster.fleet.aws import LocalAws
from muster.http import UpstreamPool
from muster.http.upstream import encode_request
from tests.support.local_aws import REGION, Botocore, local_aws, trusting
from tests.unit.fleet.aws.conftest import HUB

FORM = {"content-type": "application/x-www-form-urlencoded"}
WHO = "Action=GetCallerIdentity&Version=2011-06-15"


@dataclass
class Wire:
    """Bytes to a server, without a library that would put them right."""

    aws: LocalAws
    pool: UpstreamPool

    async def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> tuple[int, str]:
        tls = ssl.create_default_context(cadata=self.aws.ca_pem.decode())
        fields = {"host": f"127.0.0.1:{self.aws.port}", **headers}
        asked = encode_request(method, target, fields.items(), body if method == "POST" else None)
        head, content = await self.pool.request(("127.0.0.1", self.aws.port, tls, None), asked, timeout=10, repeat=True)
        return head.status, content.decode()

    async def post(self, body: str, headers: Mapping[str, str]) -> str:
        """The code of a refusal, or "" """
        return code(await self.ask("POST", "/", {**FORM, **headers}, body.encode()))

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> str:
        parts = urlsplit(url)
        return code(await self.ask("GET", f"{parts.path}?{parts.query}", {"accept": "application/json", **(headers or {})}))


def code(answer: tuple[int, str]) -> str:
    status, body = answer
    found = re.search(r'<Code>(\w+)</Code>|"Code": ?"(\w+)"', body)
    assert (status == 200) == (found is None), answer
    return "" if found is None else found[1] or found[2]


@pytest.fixture
async def wire(aws: LocalAws) -> AsyncIterator[Wire]:
    pool = UpstreamPool()
    yield Wire(aws, pool)
    pool.close()


@pytest.fixture
async def key(aws: LocalAws) -> AwsCredentials:
    return await aws.administrator(HUB)


def signed(aws: LocalAws, key: AwsCredentials, body: str = WHO, service: str = "sts", at: datetime | None = None) -> dict[str, str]:
    return sign(key, REGION, service, "POST", f"{aws.url}/", FORM, body.encode(), at or datetime.now(UTC))


async def test_a_signed_request_is_its_signers(wire: Wire, key: AwsCredentials) -> None:
    assert await wire.post(WHO, signed(wire.aws, key)) == ""


async def test_nobody_is_refused(wire: Wire) -> None:
    assert await wire.post(WHO, {}) == "MissingAuthenticationToken"
    assert await wire.post(WHO, {"authorization": "Basic eDp5"}) == "IncompleteSignature"


Spoil = Callable[[dict[str, str]], dict[str, str]]


def other(name: str, change: Callable[[str], str]) -> Spoil:
    return lambda headers: {**headers, name: change(headers[name])}


@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [
        (other("Authorization", lambda text: text[:-4] + "0000"), "SignatureDoesNotMatch"),
        (other("Authorization", lambda text: text.replace("/sts/", "/iam/")), "SignatureDoesNotMatch"),
        (other("Authorization", lambda text: text.replace(REGION, "us-east-1")), "SignatureDoesNotMatch"),
        (other("Authorization", lambda text: text.replace("aws4_request", "aws5_request")), "IncompleteSignature"),
        (other("Authorization", lambda text: text.replace("host;", "")), "SignatureDoesNotMatch"),
        (other("Authorization", lambda text: re.sub("=AKIA[A-Z2-7]*", "=AKIA" + "A" * 17, text)), "InvalidClientTokenId"),
        (lambda headers: {**headers, "x-amz-target": "unsigned"}, "SignatureDoesNotMatch"),
        (lambda headers: {**headers, "X-Amz-Security-Token": "e30.e30"}, "SignatureDoesNotMatch"),
        (lambda headers: {**headers, "host": "elsewhere.example.com"}, "SignatureDoesNotMatch"),
        (lambda headers: {**headers, "X-Amz-Date": "nonsense"}, "IncompleteSignature"),
    ],
)
async def test_what_was_not_signed_does_not_count(wire: Wire, key: AwsCredentials, spoil: Spoil, refusal: str) -> None:
    assert await wire.post(WHO, spoil(signed(wire.aws, key))) == refusal


async def test_another_body_is_another_request(wire: Wire, key: AwsCredentials) -> None:
    headers = signed(wire.aws, key)
    assert await wire.post(WHO + "&x=y", headers) == "SignatureDoesNotMatch"
    assert await wire.get(f"{wire.aws.url}/?{WHO}", headers) == "SignatureDoesNotMatch"


async def test_clocks_may_differ_by_minutes(wire: Wire, key: AwsCredentials) -> None:
    now = datetime.now(UTC)
    for minutes, refusal in ((-4, ""), (-6, "SignatureDoesNotMatch"), (4, ""), (6, "SignatureDoesNotMatch")):
        assert await wire.post(WHO, signed(wire.aws, key, at=now + timedelta(minutes=minutes))) == refusal, minutes


async def test_a_signature_is_for_one_service(wire: Wire, key: AwsCredentials) -> None:
    listing = "Action=ListRoles&Version=2010-05-08"
    assert await wire.post(listing, signed(wire.aws, key, listing)) == "SignatureDoesNotMatch"
    assert await wire.post(listing, signed(wire.aws, key, listing, "iam")) == ""


async def test_a_session_needs_its_token(wire: Wire, key: AwsCredentials) -> None:
    admin = Botocore(wire.aws, key)
    await admin.iam("create_role", RoleName="r", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    await admin.iam("create_role", RoleName="q", AssumeRolePolicyDocument=trusting({"AWS": HUB}))
    session = (await admin.assume(f"arn:aws:iam::{HUB}:role/r")).credentials
    another = (await admin.assume(f"arn:aws:iam::{HUB}:role/q")).credentials
    assert session is not None
    assert another is not None
    assert await wire.post(WHO, signed(wire.aws, session)) == ""
    bare = AwsCredentials(session.access_key_id, session.secret_access_key)
    assert await wire.post(WHO, signed(wire.aws, bare)) == "InvalidClientTokenId"
    swapped = AwsCredentials(session.access_key_id, session.secret_access_key, another.session_token)
    assert await wire.post(WHO, signed(wire.aws, swapped)) == "InvalidClientTokenId"
    said, _, seal = session.session_token.partition(".")
    for token in (f"{said}.{'A' * len(seal)}", said, f"{said[:-4]}AAAA.{seal}"):
        forged = AwsCredentials(session.access_key_id, session.secret_access_key, token)
        assert await wire.post(WHO, signed(wire.aws, forged)) == "InvalidClientTokenId"
    wrong = AwsCredentials(session.access_key_id, another.secret_access_key, session.session_token)
    assert await wire.post(WHO, signed(wire.aws, wrong)) == "SignatureDoesNotMatch"


def question(aws: LocalAws, key: AwsCredentials, at: datetime | None = None, **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return presign(key, REGION, "sts", f"{aws.url}/?{WHO}", named, 60, at or datetime.now(UTC))


async def test_a_url_can_be_signed_and_given_away(wire: Wire, key: AwsCredentials) -> None:
    url = question(wire.aws, key, x_k8s_aws_id="hub-0")
    parts = urlsplit(url)
    status, body = await wire.ask("GET", f"/?{parts.query}", {"accept": "application/json", "x-k8s-aws-id": "hub-0"})
    told = json.loads(body)["GetCallerIdentityResponse"]["GetCallerIdentityResult"]
    assert (status, told["Account"]) == (200, HUB)
    assert await wire.get(url, {"x-k8s-aws-id": "hub-1"}) == "SignatureDoesNotMatch"
    assert await wire.get(url) == "SignatureDoesNotMatch"
    assert await wire.get(url, {"x-k8s-aws-id": "hub-0", "authorization": "x"}) == "IncompleteSignature"


async def test_a_url_is_good_for_a_quarter_of_an_hour_whatever_it_says(wire: Wire, key: AwsCredentials) -> None:
    now = datetime.now(UTC)
    assert await wire.get(question(wire.aws, key, now - timedelta(minutes=14))) == ""
    assert await wire.get(question(wire.aws, key, now - timedelta(minutes=16))) == "SignatureDoesNotMatch"
    assert await wire.get(question(wire.aws, key, now + timedelta(minutes=6))) == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda url: url.replace("GetCallerIdentity", "AssumeRole"), "SignatureDoesNotMatch"),
        (lambda url: url + "&Action=AssumeRole", "MalformedQueryString"),
        (lambda url: url + "&action=AssumeRole", "MalformedQueryString"),
        (lambda url: url + "&X-Amz-Expires=900", "MalformedQueryString"),
        (lambda url: url + "&RoleArn=x", "SignatureDoesNotMatch"),
        (lambda url: re.sub("&X-Amz-Signature=[0-9a-f]*", "", url), "IncompleteSignature"),
        (lambda url: url.replace("X-Amz-Expires=60", "X-Amz-Expires=900"), "SignatureDoesNotMatch"),
    ],
)
async def test_a_url_that_was_changed_is_refused(
    wire: Wire, key: AwsCredentials, change: Callable[[str], str], refusal: str
) -> None:
    assert await wire.get(change(question(wire.aws, key))) == refusal


async def test_parameters_are_there_once(wire: Wire, key: AwsCredentials) -> None:
    for body in (f"{WHO}&Action=AssumeRole", f"{WHO}&ACTION=x", "Tags.member.1=a&Tags.member.1.Key=b&" + WHO):
        assert await wire.post(body, signed(wire.aws, key, body)) == "MalformedQueryString", body


@pytest.mark.parametrize(
    "body", ["", "Action=GetCallerIdentity", "Action=Nothing&Version=2011-06-15", "%zz", "Version=1999-01-01&Action=x"]
)
async def test_what_is_no_action_is_refused(wire: Wire, key: AwsCredentials, body: str) -> None:
    assert await wire.post(body, signed(wire.aws, key, body)) in ("InvalidAction", "MalformedQueryString")


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ("Action=ListRoles&Version=2010-05-08&Marker=%C2%B2", "ValidationError"),
        ("Action=ListRoles&Version=2010-05-08&Marker=-1", "ValidationError"),
        ("Action=ListRoles&Version=2010-05-08&MaxItems=9e9", "ValidationError"),
        ("Action=TagRole&Version=2010-05-08&RoleName=r&Tags.member." + "9" * 5000 + ".Key=a", "ValidationError"),
        ("Action=TagRole&Version=2010-05-08&RoleName=r&Tags.member.1=a", "ValidationError"),
        ("Action=TagRole&Version=2010-05-08&RoleName.x=r", "ValidationError"),
        ("Action=GetRole&Version=2010-05-08&RoleName=" + "a." * 100, "ValidationError"),
        ("Action=GetRole&Version=2010-05-08&" + "a." * 100 + "=b", "MalformedQueryString"),
        ("Action=GetRole&Version=2010-05-08&" + "&".join(f"a{number}=b" for number in range(2000)), "MalformedQueryString"),
        ("Action=CreateRole&Version=2010-05-08&RoleName=r&AssumeRolePolicyDocument=" + "%5B" * 20_000, "MalformedPolicyDocument"),
    ],
)
async def test_nonsense_is_refused_and_breaks_nothing(wire: Wire, key: AwsCredentials, body: str, refusal: str) -> None:
    assert await wire.post(body, signed(wire.aws, key, body, "iam")) == refusal
    assert {one.result for one in wire.aws.calls} == {refusal}


async def test_hostile_names_come_back_as_text(wire: Wire, key: AwsCredentials) -> None:
    body = f"Action={quote('</Code><Code>x')}&Version=2011-06-15"
    status, answer = await wire.ask("POST", "/", {**FORM, **signed(wire.aws, key, body)}, body.encode())
    assert status == 400
    assert "<Code>x" not in answer


async def test_another_server_does_not_know_the_key(tmp_path: Path, key: AwsCredentials, wire: Wire) -> None:
    async with local_aws(tmp_path / "second") as second:
        await second.administrator(HUB)
        headers = sign(key, REGION, "sts", "POST", f"{second.url}/", FORM, WHO.encode(), datetime.now(UTC))
        assert await Wire(second, wire.pool).post(WHO, headers) == "InvalidClientTokenId"
