"""Calls of AWS: signed for whoever asks, led by the surroundings alone, bounded, never repeated, with typed errors."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from muster.aws import errors, sigv4
from muster.aws.client import AwsClient, Threads
from muster.aws.identity import FixedCredentials
from muster.aws.interfaces import AccessEntry, AwsCredentials
from muster.aws.process_env import ProcessEnv, found
from muster.machinery.confinement import Confinement, confined
from tests.support.fake_clock import FakeClock
from tests.unit.aws.played import identity, played_aws, refusal, result, session

KEYS = AwsCredentials("AKID", "very-secret", "session")
TRUST = {"Version": "2012-10-17", "Statement": []}
ROLE = (
    "<Role><RoleName>ocm-hub-1</RoleName><Path>/</Path><Arn>arn:aws:iam::1:role/ocm-hub-1</Arn><RoleId>AROA1</RoleId>"
    "<CreateDate>2026-01-01T00:00:00Z</CreateDate>"
    f"<AssumeRolePolicyDocument>{quote(json.dumps(TRUST))}</AssumeRolePolicyDocument>"
    "<Tags><member><Key>k</Key><Value>v</Value></member></Tags></Role>"
)


def client_of(aws, **options) -> AwsClient:
    return AwsClient("us-west-2", ProcessEnv(aws.environ), FixedCredentials(KEYS), clock=FakeClock(), **options)


@pytest.fixture(autouse=True)
def misleading_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the process has for AWS is another's: no call may be led by it."""
    (tmp_path / "config").write_text("[default]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:1\nretry_mode = legacy\n")
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "WRONG",
        "AWS_SECRET_ACCESS_KEY": "WRONG",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_CA_BUNDLE": "/nowhere",
        "AWS_PROFILE": "nobody",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "HTTPS_PROXY": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)


async def test_a_call_is_signed_with_the_credentials_of_the_moment_and_verifies() -> None:
    with played_aws(lambda asked: (200, identity())) as aws:
        client = client_of(aws)
        try:
            who = await client.caller_identity()
        finally:
            await client.close()
    assert (who.account, who.arn, who.user_id) == ("1", "arn:aws:iam::1:role/r", "AROA:s")
    (asked,) = aws.asked
    claims = dict(part.strip().split("=", 1) for part in asked.headers["authorization"].partition(" ")[2].split(","))
    scope = sigv4.Scope("20260101", "us-west-2", "sts")
    assert claims["Credential"] == f"AKID/{scope}"
    headers = tuple((name, asked.headers[name]) for name in claims["SignedHeaders"].split(";"))
    assert {"host", "x-amz-date", "x-amz-security-token"} <= dict(headers).keys()
    canonical = sigv4.Canonical("POST", "/", (), headers, sigv4.payload_hash(asked.body))
    assert canonical.signature("very-secret", asked.headers["x-amz-date"], scope) == claims["Signature"]


async def test_every_operation_asks_what_aws_expects_and_gives_what_it_answers() -> None:
    answers = {
        "CreateRole": result("CreateRole", ROLE),
        "GetRole": result("GetRole", ROLE),
        "GetRolePolicy": result(
            "GetRolePolicy", f"<RoleName>r</RoleName><PolicyName>p</PolicyName><PolicyDocument>{quote('{}')}</PolicyDocument>"
        ),
        "ListRolePolicies": result(
            "ListRolePolicies", "<PolicyNames><member>p</member></PolicyNames><IsTruncated>false</IsTruncated>"
        ),
        "ListAttachedRolePolicies": result(
            "ListAttachedRolePolicies",
            "<AttachedPolicies><member><PolicyArn>arn:p</PolicyArn></member></AttachedPolicies><IsTruncated>false</IsTruncated>",
        ),
        "AssumeRole": result("AssumeRole", session()),
        "AssumeRoleWithWebIdentity": result("AssumeRoleWithWebIdentity", session()),
    }

    def answer(asked):
        action = asked.form["Action"]
        return 200, answers.get(action, f"<{action}Response/>")

    with played_aws(answer) as aws:
        client = client_of(aws)
        try:
            role = await client.create_role("ocm-hub-1", TRUST, {"k": "v"}, "made for a test")
            assert (role.name, role.role_id, role.trust, role.tags) == ("ocm-hub-1", "AROA1", TRUST, {"k": "v"})
            assert (await client.get_role("ocm-hub-1")).arn == "arn:aws:iam::1:role/ocm-hub-1"
            await client.update_trust("r", TRUST)
            await client.tag_role("r", {"k": "v"})
            await client.put_role_policy("r", "p", TRUST)
            assert await client.get_role_policy("r", "p") == {}
            assert await client.list_role_policies("r") == ["p"]
            assert await client.list_attached_role_policies("r") == ["arn:p"]
            await client.delete_role_policy("r", "p")
            await client.detach_role_policy("r", "arn:aws:iam::1:policy/some-policy-of-others")
            await client.delete_role("r")
            keys = await client.assume_role("arn:aws:iam::1:role/ocm-hub-1", "EKSGetTokenAuth")
            assert keys == AwsCredentials("ASIA1", "hush", "token", datetime(2026, 1, 1, 1, tzinfo=UTC))
            await client.assume_role_with_web_identity("arn:aws:iam::1:role/ocm-hub-1", "session", "a.b.c")
        finally:
            await client.close()
    asked = {one.form["Action"]: one for one in aws.asked}
    assert json.loads(asked["CreateRole"].form["AssumeRolePolicyDocument"]) == TRUST
    assert asked["CreateRole"].form["Tags.member.1.Key"] == "k"
    assert "/us-east-1/iam/" in asked["CreateRole"].headers["authorization"]
    assert "authorization" not in asked["AssumeRoleWithWebIdentity"].headers
    assert len(asked) == len(aws.asked) == 13


async def test_all_pages_of_a_list_are_read() -> None:
    def answer(asked):
        last = "Marker" in asked.form
        more = "<IsTruncated>false</IsTruncated>" if last else "<IsTruncated>true</IsTruncated><Marker>next</Marker>"
        return 200, result("ListRoles", f"<Roles>{ROLE.replace('Role>', 'member>')}</Roles>{more}")

    with played_aws(answer) as aws:
        client = client_of(aws)
        try:
            assert [one.name for one in await client.list_roles()] == ["ocm-hub-1", "ocm-hub-1"]
        finally:
            await client.close()


async def test_access_entries_and_clusters_of_eks() -> None:
    cluster = {"arn": "arn:c", "endpoint": "https://e", "certificateAuthority": {"data": "Q0E="}}
    more = {"accessConfig": {"authenticationMode": "API"}, "identity": {"oidc": {"issuer": "https://i"}}}
    entry = {"principalArn": "arn:aws:iam::1:role/r", "username": "u", "kubernetesGroups": ["g"], "tags": {"a": "b"}}

    def answer(asked):
        if "access-entries" in asked.path:
            return 200, json.dumps({"accessEntry": entry})
        return 200, json.dumps({"cluster": cluster if asked.path.endswith("old") else {**cluster, **more}})

    with played_aws(answer) as aws:
        client = client_of(aws)
        try:
            described = await client.describe_cluster("hub-0")
            assert (described.authority, described.authentication_mode, described.issuer) == (b"CA", "API", "https://i")
            assert (await client.describe_cluster("old")).authentication_mode == "CONFIG_MAP"
            wanted = AccessEntry("arn:aws:iam::1:role/r", "u", ("g",), {"a": "b"})
            await client.create_access_entry("hub-0", wanted)
            await client.update_access_entry("hub-0", wanted)
            assert await client.describe_access_entry("hub-0", wanted.principal_arn) == wanted
            await client.delete_access_entry("hub-0", wanted.principal_arn)
        finally:
            await client.close()
    created = next(one for one in aws.asked if one.path == "/clusters/hub-0/access-entries")
    sent = json.loads(created.body)
    assert {name: sent[name] for name in entry} == entry
    deleted = next(one for one in aws.asked if one.method == "DELETE")
    assert unquote(deleted.path) == f"/clusters/hub-0/access-entries/{wanted.principal_arn}"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", errors.AccessDenied),
        (403, "ExpiredToken", errors.NoIdentity),
        (403, "SignatureDoesNotMatch", errors.NoIdentity),
        (400, "InvalidIdentityToken", errors.NoIdentity),
        (400, "IDPCommunicationError", errors.Unavailable),
        (404, "NoSuchEntity", errors.NotFound),
        (409, "EntityAlreadyExists", errors.AlreadyExists),
        (409, "DeleteConflict", errors.Conflict),
        (409, "ConcurrentModification", errors.Conflict),
        (409, "LimitExceeded", errors.LimitExceeded),
        (400, "MalformedPolicyDocument", errors.Malformed),
        (400, "ValidationError", errors.InvalidParameter),
        (400, "Throttling", errors.Throttled),
        (500, "ServiceFailure", errors.Unavailable),
        (503, "NeverHeardOf", errors.Unavailable),
        (403, "NeverHeardOf", errors.AccessDenied),
        (429, "NeverHeardOf", errors.Throttled),
        (400, "NeverHeardOf", errors.AwsError),
    ],
)
async def test_an_error_is_told_apart_by_its_code_and_no_call_is_repeated(status: int, code: str, kind: type) -> None:
    with played_aws(lambda asked: (status, refusal(code, "not now"))) as aws:
        client = client_of(aws)
        try:
            with pytest.raises(errors.AwsError) as caught:
                await client.get_role("r")
        finally:
            await client.close()
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.message, caught.value.operation) == (code, "not now", "get_role")
    assert len(aws.asked) == 1


async def test_eks_says_its_errors_in_another_notation() -> None:
    body = json.dumps({"__type": "InvalidParameterException", "message": "not yet"})
    with played_aws(lambda asked: (400, body)) as aws:
        client = client_of(aws)
        try:
            with pytest.raises(errors.InvalidParameter):
                await client.describe_cluster("hub-0")
        finally:
            await client.close()


async def test_what_is_no_request_is_not_sent() -> None:
    with played_aws(lambda asked: (200, "")) as aws:
        client = client_of(aws)
        try:
            with pytest.raises(errors.InvalidParameter):
                await client.get_role("")
        finally:
            await client.close()
    assert not aws.asked


async def test_a_server_that_says_nothing_costs_its_deadline_and_one_thread() -> None:
    silence = threading.Event()

    def answer(asked):
        silence.wait(10)
        return 200, identity()

    with played_aws(answer) as aws:
        client = client_of(aws, seconds=0.4)
        try:
            with pytest.raises(errors.Unavailable):
                await client.caller_identity()
        finally:
            silence.set()
            await client.close()


async def test_more_calls_than_threads_wait_their_turn() -> None:
    under_way, most, lock = 0, 0, threading.Lock()

    def answer(asked):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        threading.Event().wait(0.02)
        with lock:
            under_way -= 1
        return 200, identity()

    with played_aws(answer) as aws:
        threads = Threads(2)
        client = client_of(aws, threads=threads)
        try:
            await asyncio.gather(*(client.caller_identity() for _ in range(8)))
        finally:
            await client.close()
            threads.close()
    assert len(aws.asked) == 8
    assert most <= 2


async def test_nobody_there_is_unavailable_and_says_no_more_than_where() -> None:
    process_env = ProcessEnv({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    client = AwsClient("us-west-2", process_env, FixedCredentials(KEYS))
    try:
        with pytest.raises(errors.Unavailable) as caught:
            await client.caller_identity()
    finally:
        await client.close()
    assert "127.0.0.1" in str(caught.value)
    assert "very-secret" not in str(caught.value)


async def test_without_credentials_nothing_is_sent() -> None:
    with played_aws(lambda asked: (200, identity())) as aws:
        client = AwsClient("us-west-2", ProcessEnv(aws.environ))
        try:
            with pytest.raises(errors.NoIdentity):
                await client.caller_identity()
        finally:
            await client.close()
    assert not aws.asked


async def test_an_authority_that_is_not_there_is_named() -> None:
    client = AwsClient("us-west-2", ProcessEnv({"AWS_CA_BUNDLE": "/nowhere/ca.pem"}), FixedCredentials(KEYS))
    try:
        with pytest.raises(errors.Unavailable, match=r"AWS_CA_BUNDLE: /nowhere/ca\.pem"):
            await client.caller_identity()
    finally:
        await client.close()


async def test_without_the_library_whoever_asks_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "muster.aws.library" or name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.delattr("muster.aws.library", raising=False)
    client = AwsClient("us-west-2", ProcessEnv(), FixedCredentials(KEYS))
    try:
        with pytest.raises(errors.NoLibrary, match=r"pip install 'muster\[aws\]'"):
            await client.caller_identity()
    finally:
        await client.close()


async def test_a_pod_dials_no_more_by_aws_than_by_anything_else(tmp_path: Path) -> None:
    with played_aws(lambda asked: (200, identity())) as aws:
        pod = Confinement(pod="ns/pod", ip="127.1.2.3", environ=aws.environ, mounts={}, scratch=tmp_path)
        with confined(pod):
            client = AwsClient("us-west-2", found(), FixedCredentials(KEYS))
            try:
                with pytest.raises(errors.Unavailable, match="on this machine"):
                    await client.caller_identity()
            finally:
                await client.close()
    assert not aws.asked


async def test_a_proxy_is_the_surroundings_too_unless_they_say_not_for_this_host(tmp_path: Path) -> None:
    with played_aws(lambda asked: (200, identity())) as proxy:
        environ = {"AWS_ENDPOINT_URL": "http://sts.example.test", "http_proxy": proxy.url.replace("http://", "http://u:p@")}
        client = AwsClient("us-west-2", ProcessEnv(environ), FixedCredentials(KEYS))
        try:
            await client.caller_identity()
        finally:
            await client.close()
        (asked,) = proxy.asked
        assert asked.path == "http://sts.example.test/"
        assert asked.headers["proxy-authorization"].startswith("Basic ")
        own = {"AWS_ENDPOINT_URL": proxy.url, "HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}
        client = AwsClient("us-west-2", ProcessEnv(own), FixedCredentials(KEYS))
        try:
            await client.caller_identity()
        finally:
            await client.close()
        pod = Confinement(pod="ns/pod", ip="127.1.2.3", environ=environ, mounts={}, scratch=tmp_path)
        with confined(pod):
            client = AwsClient("us-west-2", found(), FixedCredentials(KEYS))
            try:
                with pytest.raises(errors.Unavailable, match="on this machine"):
                    await client.caller_identity()
            finally:
                await client.close()
    assert len(proxy.asked) == 2
