"""Tokens that must let nobody in: what somebody with a session of AWS could make of it, or of a token that is not theirs to change.

One table for every judge of tokens: ours (`muster/aws/token_validation.py` and the STS behind it) has to refuse each for the reason
that is said here, AWS' own authenticator has to refuse each. The session is a good one, of a role that is mapped: a token that is
signed as it should be is taken by both.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from muster.aws.interfaces import AwsCredentials
from muster.aws.sigv4 import TIME_FORMAT, presign
from muster.aws.token_validation import Reason
from muster.aws.tokens import CLUSTER_HEADER, PREFIX
from tests.support.local_aws import REGION

OTHER_REGIONS_STS: Final = "sts.us-east-1.amazonaws.com"
STS: Final = f"sts.{REGION}.amazonaws.com"
MISMATCH: Final = "SignatureDoesNotMatch"
UNKNOWN_KEY: Final = "InvalidClientTokenId"
IDENTITY: Final = "Action=GetCallerIdentity&Version=2011-06-15"


def token_of(url: str) -> str:
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def url_of(token: str) -> str:
    text = token.removeprefix(PREFIX)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()


@dataclass(frozen=True)
class Signer:
    """Somebody with a session, who signs what they like; `endpoint` is where the security token service is."""

    credentials: AwsCredentials = field(repr=False)
    endpoint: str
    cluster: str = "hub-0"

    def url(self, *, headers: Mapping[str, str] | None = None, question: str = IDENTITY, age: timedelta = timedelta()) -> str:
        signed = {CLUSTER_HEADER: self.cluster} if headers is None else headers
        return presign(self.credentials, REGION, "sts", f"{self.endpoint}/?{question}", signed, 60, datetime.now(UTC) - age)


@dataclass(frozen=True)
class Attack:
    reason: Reason | str
    """Why ours refuses it: by its form, or by the word of the security token service."""
    token: Callable[[Signer], str]


def _changed(reason: Reason | str, spoil: Callable[[str], str]) -> Attack:
    """A good token's URL, changed."""

    def token(signer: Signer) -> str:
        url = signer.url()
        spoilt = spoil(url)
        assert spoilt != url, "nothing was changed"
        return token_of(spoilt)

    return Attack(reason, token)


def _signed(reason: Reason | str, url: Callable[[Signer], str]) -> Attack:
    return Attack(reason, lambda signer: token_of(url(signer)))


def _at(place: Callable[[str], str]) -> Callable[[str], str]:
    """The same question to somebody else; `place` gets the host's name."""

    def moved(url: str) -> str:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=place(parts.hostname or "")))

    return moved


def _without(parameter: str) -> Callable[[str], str]:
    return lambda url: re.sub(f"&{parameter}=[^&]*", "", url)


def _with(parameter: str, value: str) -> Callable[[str], str]:
    return lambda url: re.sub(f"{parameter}=[^&]*", f"{parameter}={value}", url)


def _minute_before(url: str) -> str:
    signed = datetime.strptime(dict(parse_qsl(urlsplit(url).query))["X-Amz-Date"], TIME_FORMAT)
    return (signed - timedelta(minutes=1)).strftime(TIME_FORMAT)


ATTACKS: Final[Mapping[str, Attack]] = {
    # What is not a token at all.
    "nothing": Attack(Reason.PREFIX, lambda _: "x"),
    "another version of tokens": Attack(Reason.PREFIX, lambda signer: token_of(signer.url()).replace("v1.", "v2.", 1)),
    "longer than a token can be": Attack(Reason.TOO_LONG, lambda signer: token_of(signer.url()) + "A" * 4096),
    "padding": Attack(Reason.ENCODING, lambda signer: token_of(signer.url()) + "="),
    "another alphabet": Attack(Reason.ENCODING, lambda signer: token_of(signer.url())[:-1] + "+"),
    "no URL": _signed(Reason.SCHEME, lambda _: "nonsense"),
    "an address that cannot be read": _changed(Reason.URL, _at(lambda _: "[::1")),
    # Whom to ask.
    "plain http": _changed(Reason.SCHEME, lambda url: url.replace("https://", "http://")),
    "a user in the host": _changed(Reason.HOST, lambda url: url.replace("https://", f"https://{STS}@")),
    "another port": _changed(Reason.HOST, _at(lambda host: f"{host}:1")),
    "the usual port, said": _changed(Reason.HOST, _at(lambda _: f"{STS}:443")),
    "a host in capitals": _changed(Reason.HOST, _at(lambda _: STS.upper())),
    "a host with a dot at its end": _changed(Reason.HOST, _at(lambda _: f"{STS}.")),
    "a host that looks like AWS": _changed(Reason.HOST, _at(lambda _: f"{STS}.evil.example")),
    "a host that ends like AWS": _changed(Reason.HOST, _at(lambda _: f"evil-{STS}")),
    "another partition's host": _changed(Reason.HOST, _at(lambda _: "sts.cn-north-1.amazonaws.com.cn")),
    "another service's host": _changed(Reason.HOST, _at(lambda _: f"iam.{REGION}.amazonaws.com")),
    "another region's host": _changed(MISMATCH, _at(lambda _: OTHER_REGIONS_STS)),
    "another path": _changed(Reason.PATH, lambda url: url.replace("/?", "/x?")),
    "no path": _changed(Reason.PATH, lambda url: url.replace("/?", "?")),
    "a path that leads back": _changed(Reason.PATH, lambda url: url.replace("/?", "/x/..?")),
    # What to ask.
    "another action": _changed(Reason.ACTION, _with("Action", "AssumeRole")),
    "another action, signed": _signed(
        Reason.ACTION, lambda signer: signer.url(question="Action=GetSessionToken&Version=2011-06-15")
    ),
    "no action, signed": _signed(Reason.ACTION, lambda signer: signer.url(question="Version=2011-06-15")),
    "an action twice": _changed(Reason.DOUBLED, lambda url: url + "&Action=GetCallerIdentity"),
    "an action twice, in another case": _changed(Reason.DOUBLED, lambda url: url.replace("Action=", "action=AssumeRole&Action=")),
    "an action twice, escaped": _changed(Reason.DOUBLED, lambda url: url + "&%41ction=GetCallerIdentity"),
    "a parameter twice": _changed(Reason.DOUBLED, lambda url: url + "&X-Amz-Expires=60"),
    "a parameter that has no business there": _changed(Reason.UNKNOWN_PARAMETER, lambda url: url + "&RoleArn=x"),
    "one such, signed": _signed(Reason.UNKNOWN_PARAMETER, lambda signer: signer.url(question=f"{IDENTITY}&RoleArn=x")),
    "a semicolon between parameters": _changed(Reason.PARAMETERS, lambda url: url.replace("&Version", ";Version")),
    "an escape that is none": _changed(Reason.PARAMETERS, lambda url: url + "%zz"),
    # Whose it is, for whom, and for how long.
    "for another hub": _signed(MISMATCH, lambda signer: signer.url(headers={CLUSTER_HEADER: "hub-1"})),
    "for no hub": _signed(Reason.CLUSTER_UNSIGNED, lambda signer: signer.url(headers={})),
    "for no hub, and says otherwise": _signed(
        MISMATCH, lambda signer: _with("X-Amz-SignedHeaders", quote(f"host;{CLUSTER_HEADER}", safe=""))(signer.url(headers={}))
    ),
    "signed too long ago": _signed(Reason.EXPIRED, lambda signer: signer.url(age=timedelta(minutes=16))),
    "signed in the future": _signed(MISMATCH, lambda signer: signer.url(age=-timedelta(minutes=20))),
    "a time that is not the one signed": _changed(MISMATCH, lambda url: _with("X-Amz-Date", _minute_before(url))(url)),
    "no time": _changed(Reason.DATE, _without("X-Amz-Date")),
    "a time that is none": _changed(Reason.DATE, _with("X-Amz-Date", "today")),
    "a longer life": _changed(Reason.EXPIRES, _with("X-Amz-Expires", "901")),
    "a life before it was born": _changed(Reason.EXPIRES, _with("X-Amz-Expires", "-1")),
    "a life in words": _changed(Reason.EXPIRES, _with("X-Amz-Expires", "sixty")),
    "no life": _changed(Reason.EXPIRES, _without("X-Amz-Expires")),
    "another signature": _changed(MISMATCH, lambda url: re.sub("X-Amz-Signature=.{4}", "X-Amz-Signature=0000", url)),
    "a signature beyond ASCII": _changed(MISMATCH, _with("X-Amz-Signature", "%8F%C3%A9")),
    "a session beyond ASCII": _changed(UNKNOWN_KEY, _with("X-Amz-Security-Token", "%8F.%C3%A9")),
    "a key beyond ASCII": _changed(UNKNOWN_KEY, lambda url: url.replace("X-Amz-Credential=ASIA", "X-Amz-Credential=%8F")),
    "no signature": _changed("IncompleteSignature", _without("X-Amz-Signature")),
    "another key": _changed(UNKNOWN_KEY, lambda url: re.sub("X-Amz-Credential=ASIA.{4}", "X-Amz-Credential=ASIAAAAA", url)),
    "another region": _changed(MISMATCH, lambda url: url.replace(quote(f"/{REGION}/", safe=""), quote("/us-east-1/", safe=""))),
    "no session": _changed(UNKNOWN_KEY, _without("X-Amz-Security-Token")),
    "another session": _changed(UNKNOWN_KEY, _with("X-Amz-Security-Token", "x")),
}

STRICTER: Final[Mapping[str, Attack]] = {
    "a fragment": _changed(Reason.URL, lambda url: url + "#x"),
}
"""What ours refuses and AWS' authenticator does not: it changes nothing of what is asked, and nobody signs such tokens."""
