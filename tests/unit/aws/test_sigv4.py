"""Signatures are those of AWS' own library, byte for byte, whatever is signed; and who changes anything has another one."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.aws import sigv4
from muster.aws.interfaces import AwsCredentials
from tests.unit.aws.frozen import botocore_at

NOW = datetime(2026, 11, 16, 19, 30, 5, tzinfo=UTC)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
SEGMENT = st.one_of(st.sampled_from(["clusters", "..", ".", "", "arn:aws:iam::1:role/x", "a b", "ü", "~x"]), TEXT)
PATHS = st.lists(SEGMENT, max_size=5).map(lambda parts: "/" + "/".join(quote(part, safe="~") for part in parts))
QUERIES = st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=4)
HEADERS = st.dictionaries(
    st.from_regex(r"\Ax-[a-z]{1,8}\Z"), st.from_regex(r"\A[ -~]{0,20}\Z").filter(lambda value: value.strip() == value), max_size=3
)
KEYS = st.builds(
    AwsCredentials, st.just("AKIDEXAMPLE"), st.from_regex(r"\A[!-~]{1,40}\Z"), st.sampled_from(["", "token/with+=signs=="])
)
HOSTS = st.sampled_from(["https://sts.eu-west-1.amazonaws.com", "https://127.0.0.1:8443", "http://localhost", "https://[::1]:4"])


def theirs(kind, credentials: AwsCredentials, request: AWSRequest, *more: int) -> AWSRequest:
    keys = Credentials(credentials.access_key_id, credentials.secret_access_key, credentials.session_token or None)
    with botocore_at(NOW):
        kind(keys, "sts", "eu-west-1", *more).add_auth(request)
    return request


def url_of(host: str, path: str, query) -> str:
    written = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query)
    return f"{host}{path}" + (f"?{written}" if written else "")


@settings(max_examples=150, deadline=None)
@given(KEYS, HOSTS, PATHS, QUERIES, HEADERS, st.sampled_from(["GET", "POST"]), st.binary(max_size=40))
def test_headers_are_signed_as_botocore_does(credentials, host, path, query, headers, method, body) -> None:
    url = url_of(host, path, query)
    ours = sigv4.sign(credentials, "eu-west-1", "sts", method, url, headers, body, NOW)
    request = theirs(SigV4Auth, credentials, AWSRequest(method, url, dict(headers), body))
    assert ours["Authorization"] == request.headers["Authorization"]
    assert {name: request.headers[name] for name in ours} == ours


@settings(max_examples=150, deadline=None)
@given(KEYS, HOSTS, PATHS, QUERIES, HEADERS)
def test_urls_are_signed_as_botocore_does(credentials, host, path, query, headers) -> None:
    distinct = list(dict(query).items())
    url = url_of(host, path, distinct)
    ours = sigv4.presign(credentials, "eu-west-1", "sts", url, headers, 60, NOW)
    assert ours == theirs(SigV4QueryAuth, credentials, AWSRequest("GET", url, dict(headers)), 60).url


def test_whoever_verifies_finds_the_same_signature_and_another_one_for_anything_else() -> None:
    credentials = AwsCredentials("AKID", "secret", "session")
    url = "https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
    signed = urlsplit(sigv4.presign(credentials, "us-west-2", "sts", url, {"x-k8s-aws-id": "hub-0"}, 60, NOW))
    received = dict(parse_qsl(signed.query))
    claimed = received.pop("X-Amz-Signature")
    scope = sigv4.Scope("20261116", "us-west-2", "sts")

    def found(cluster: str = "hub-0", secret: str = "secret", **changed: str) -> str:
        headers = (("Host", signed.netloc), ("X-K8s-Aws-Id", cluster))
        canonical = sigv4.Canonical("GET", signed.path, tuple({**received, **changed}.items()), headers, sigv4.payload_hash())
        assert canonical.signed_headers == received["X-Amz-SignedHeaders"]
        return canonical.signature(secret, received["X-Amz-Date"], scope)

    assert found() == claimed
    others = [found("hub-1"), found(secret="other"), found(Action="ListUsers"), found(Extra="1")]
    assert claimed not in others


def test_nothing_that_is_secret_is_in_a_description() -> None:
    assert "hush" not in repr(AwsCredentials("AKID", "hush", "hush"))
