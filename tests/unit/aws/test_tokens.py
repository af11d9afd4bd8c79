"""Tokens are those that `aws eks get-token` makes, and the rules refuse whatever is not one, each for its own reason."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from botocore.credentials import Credentials
from botocore.hooks import HierarchicalEmitter
from botocore.model import ServiceId
from botocore.signers import RequestSigner
from hypothesis import given
from hypothesis import strategies as st

from muster.aws.interfaces import AwsCredentials
from muster.aws.partitions import is_sts_host
from muster.aws.token_validation import Reason, TokenRefused, validate_token
from muster.aws.tokens import PREFIX, exec_credential, exec_version, make_token
from tests.unit.aws.frozen import botocore_at

NOW = datetime(2026, 11, 16, 19, 30, 5, tzinfo=UTC)
KEYS = AwsCredentials("AKID", "secret", "session/token+==")
OWN = partial(is_sts_host, partition="aws")


def url_of(token: str) -> str:
    text = token.removeprefix(PREFIX)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


def token_of(url: str) -> str:
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def good_url(**options) -> str:
    return url_of(make_token(KEYS, "us-west-2", "hub-0", NOW, **options).text)


@pytest.mark.parametrize("endpoint", ["", "https://127.0.0.1:8443"])
def test_a_token_is_the_url_that_botocore_signs(endpoint: str) -> None:
    emitter = HierarchicalEmitter()
    signer = RequestSigner(ServiceId("sts"), "us-west-2", "sts", "v4", _keys(), emitter)
    asked = {
        "method": "GET",
        "url": (endpoint or "https://sts.us-west-2.amazonaws.com") + "/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": "hub-0"},
        "context": {},
    }
    with botocore_at(NOW):
        theirs = signer.generate_presigned_url(asked, region_name="us-west-2", expires_in=60, operation_name="")
    assert good_url(endpoint=endpoint) == theirs


def _keys() -> Credentials:
    return Credentials(KEYS.access_key_id, KEYS.secret_access_key, KEYS.session_token)


def test_the_security_token_service_is_the_regions_own() -> None:
    hosts = {"eu-central-1": "amazonaws.com", "cn-north-1": "amazonaws.com.cn", "us-gov-west-1": "amazonaws.com"}
    for region, suffix in hosts.items():
        assert url_of(make_token(KEYS, region, "hub", NOW).text).startswith(f"https://sts.{region}.{suffix}/?")


def test_what_is_printed_has_the_version_that_was_asked_for_and_fourteen_minutes() -> None:
    token = make_token(KEYS, "us-west-2", "hub-0", NOW)
    printed = json.loads(exec_credential(token, "client.authentication.k8s.io/v1"))
    assert printed == {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "spec": {},
        "status": {"expirationTimestamp": "2026-11-16T19:44:05Z", "token": token.text},
    }
    assert token.text not in repr(token)


def test_a_token_does_not_outlive_the_session_that_signed_it() -> None:
    for seconds, lifetime in ((60, 60), (3600, 840)):
        keys = AwsCredentials("ASIA", "secret", "session", NOW + timedelta(seconds=seconds))
        assert make_token(keys, "us-west-2", "hub-0", NOW).expires == NOW + timedelta(seconds=lifetime)


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ('{"apiVersion": "client.authentication.k8s.io/v1"}', "v1"),
        ('{"apiVersion": "client.authentication.k8s.io/v1beta1"}', "v1beta1"),
        ('{"apiVersion": "client.authentication.k8s.io/v1alpha1"}', "v1beta1"),
        ("[]", "v1beta1"),
        ("{", "v1beta1"),
        ("", "v1beta1"),
    ],
)
def test_the_version_is_that_of_whoever_runs_it(info: str, version: str) -> None:
    assert exec_version({"KUBERNETES_EXEC_INFO": info}) == f"client.authentication.k8s.io/{version}"


def test_a_good_token_leads_to_one_question_with_the_verifiers_own_cluster() -> None:
    question = validate_token(token_of(good_url()), "mine", OWN, NOW)
    assert (question.host, question.url) == ("sts.us-west-2.amazonaws.com", good_url())
    assert f"https://{question.host}{question.target}" == question.url
    assert question.headers == {"x-k8s-aws-id": "mine", "Accept": "application/json"}
    assert question.access_key_id == "AKID"
    assert "X-Amz-Signature" not in repr(question)


HOST = "sts.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (PREFIX + "A" * 4096, Reason.TOO_LONG),
        ("k8s-aws-v2." + "A", Reason.PREFIX),
        ("", Reason.PREFIX),
        (token_of(good_url()) + "=", Reason.ENCODING),
        (PREFIX + "a+b/", Reason.ENCODING),
        (PREFIX + "AAAAA", Reason.ENCODING),
        (token_of("https://[/?Action=GetCallerIdentity"), Reason.URL),
        (token_of(good_url() + "\r\nHost: elsewhere"), Reason.URL),
        (token_of(good_url() + " x"), Reason.URL),
        (token_of(good_url() + "#"), Reason.URL),
        (token_of(good_url() + "#x"), Reason.URL),
        (token_of(good_url().replace(HOST, "example.test\\@" + HOST)), Reason.URL),
        (token_of(good_url().replace(HOST, HOST + ":x")), Reason.URL),
        (token_of(good_url().replace("https:", "http:")), Reason.SCHEME),
        (token_of(good_url().replace(HOST, "example.test")), Reason.HOST),
        (token_of(good_url().replace(HOST, f"{HOST}.example.test")), Reason.HOST),
        (token_of(good_url().replace(HOST, f"example.test/{HOST}")), Reason.HOST),
        (token_of(good_url().replace(HOST, f"user@{HOST}")), Reason.HOST),
        (token_of(good_url().replace(HOST, f"{HOST}@example.test")), Reason.HOST),
        (token_of(good_url().replace(HOST, f"{HOST}:8443")), Reason.HOST),
        (token_of(good_url().replace(HOST, "sts.cn-north-1.amazonaws.com.cn")), Reason.HOST),
        (token_of(good_url().replace(HOST, "sts.us-gov-west-1.amazonaws.com")), Reason.HOST),
        (token_of(good_url().replace(HOST, "iam.amazonaws.com")), Reason.HOST),
        (token_of(good_url().replace("/?", "/x?")), Reason.PATH),
        (token_of(good_url().replace("/?", "?")), Reason.PATH),
        (token_of(good_url().replace("/?", "//?")), Reason.PATH),
        (token_of(good_url() + "&Version"), Reason.PARAMETERS),
        (token_of(good_url() + ";Version=1"), Reason.PARAMETERS),
        (token_of(good_url() + "&Version=%zz"), Reason.PARAMETERS),
        (token_of(good_url() + "&Action=GetCallerIdentity"), Reason.DOUBLED),
        (token_of(good_url() + "&action=ListUsers"), Reason.DOUBLED),
        (token_of(good_url() + "&x-AMZ-expires=1"), Reason.DOUBLED),
        (token_of(good_url() + "&%41ction=x"), Reason.DOUBLED),
        (token_of(good_url() + "&RoleArn=x"), Reason.UNKNOWN_PARAMETER),
        (token_of(good_url().replace("Action=GetCallerIdentity", "Action=AssumeRole")), Reason.ACTION),
        (token_of(good_url().replace("Action=GetCallerIdentity&", "")), Reason.ACTION),
        (token_of(good_url().replace("%3Bx-k8s-aws-id", "")), Reason.CLUSTER_UNSIGNED),
        (token_of(good_url().replace("x-k8s-aws-id", "x-k8s-aws-identity")), Reason.CLUSTER_UNSIGNED),
        (token_of(good_url().replace("X-Amz-Expires=60", "X-Amz-Expires=901")), Reason.EXPIRES),
        (token_of(good_url().replace("X-Amz-Expires=60", "X-Amz-Expires=-1")), Reason.EXPIRES),
        (token_of(good_url().replace("X-Amz-Expires=60&", "")), Reason.EXPIRES),
        (token_of(good_url().replace("X-Amz-Date=20261116T193005Z", "X-Amz-Date=today")), Reason.DATE),
        (token_of(good_url().replace("X-Amz-Date=20261116T193005Z", "X-Amz-Date=20261116T19305Z")), Reason.DATE),
    ],
)
def test_anything_else_is_refused_for_its_own_reason(token: str, reason: Reason) -> None:
    with pytest.raises(TokenRefused) as refusal:
        validate_token(token, "hub-0", OWN, NOW)
    assert refusal.value.reason is reason


def test_a_token_is_good_for_fifteen_minutes() -> None:
    token = token_of(good_url())
    validate_token(token, "hub-0", OWN, NOW + timedelta(minutes=15))
    with pytest.raises(TokenRefused) as refusal:
        validate_token(token, "hub-0", OWN, NOW + timedelta(minutes=15, seconds=1))
    assert refusal.value.reason is Reason.EXPIRED


def test_a_verifier_may_have_a_service_of_its_own() -> None:
    token = make_token(KEYS, "us-west-2", "hub-0", NOW, "https://127.0.0.1:8443").text
    assert validate_token(token, "hub-0", lambda host: host == "127.0.0.1:8443", NOW).host == "127.0.0.1:8443"


@given(
    st.one_of(st.text(max_size=200), st.text(max_size=200).map(token_of), st.binary(max_size=60).map(lambda b: PREFIX + b.hex()))
)
def test_whatever_comes_it_is_refused_and_nothing_else_happens(token: str) -> None:
    with pytest.raises(TokenRefused):
        validate_token(token, "hub-0", OWN, NOW)


@pytest.mark.parametrize(
    ("host", "partition"),
    [
        ("sts.amazonaws.com", "aws"),
        ("sts.us-west-2.amazonaws.com", "aws"),
        ("sts-fips.us-east-1.amazonaws.com", "aws"),
        ("sts.eu-west-1.api.aws", "aws"),
        ("sts.cn-northwest-1.amazonaws.com.cn", "aws-cn"),
        ("sts.us-gov-west-1.amazonaws.com", "aws-us-gov"),
        ("sts.us-isob-east-1.sc2s.sgov.gov", "aws-iso-b"),
        ("sts.eusc-de-east-1.amazonaws.eu", "aws-eusc"),
    ],
)
def test_the_services_of_a_partition_are_known_and_no_others(host: str, partition: str) -> None:
    others = {"aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b", "aws-iso-e", "aws-iso-f", "aws-eusc"} - {partition}
    assert is_sts_host(host, partition)
    assert not any(is_sts_host(host, other) for other in others)
    for wrong in (host.upper(), host + ".", "x" + host, host.replace("sts", "sts.sts"), host + ":443"):
        assert not is_sts_host(wrong, partition)
