"""Tokens by which EKS authenticates AWS identities: a presigned GetCallerIdentity request that the verifier sends.

The token is a URL of the security token service, signed for a minute (the service accepts it for fifteen), in base64. The cluster's
name is signed as a header that is not part of the URL, so a token for one cluster is invalid on another. It is identical to that of
`aws eks get-token`, except that its expiration includes that of its session.

`exec_credential` is the output of a kubeconfig's `exec` program, in the requested version.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.aws.interfaces import AwsCredentials
from muster.aws.partitions import sts_host
from muster.aws.sigv4 import presign

PREFIX: Final = "k8s-aws-v1."
CLUSTER_HEADER: Final = "x-k8s-aws-id"
SESSION: Final = "EKSGetTokenAuth"
"""The session name of roles that are assumed for a token."""
URL_SECONDS: Final = 60
LIFETIME: Final = timedelta(minutes=14)
"""A minute less than the service accepts it."""
EXEC_INFO: Final = "KUBERNETES_EXEC_INFO"
EXEC_GROUP: Final = "client.authentication.k8s.io"
EXEC_VERSIONS: Final = (f"{EXEC_GROUP}/v1", f"{EXEC_GROUP}/v1beta1")
DEFAULT_EXEC_VERSION: Final = f"{EXEC_GROUP}/v1beta1"


@dataclass(frozen=True)
class Token:
    text: str = field(repr=False)
    expires: datetime


def sts_url(region: str, endpoint: str = "") -> str:
    """The URL of a region's security token service; `endpoint` replaces it."""
    return endpoint or f"https://{sts_host(region)}"


def make_token(credentials: AwsCredentials, region: str, cluster: str, now: datetime, endpoint: str = "") -> Token:
    """`region` and `cluster` are those of the target cluster. A token expires with the session that signs it."""
    question = f"{sts_url(region, endpoint).rstrip('/')}/?Action=GetCallerIdentity&Version=2011-06-15"
    url = presign(credentials, region, "sts", question, {CLUSTER_HEADER: cluster}, URL_SECONDS, now)
    expires = now + LIFETIME if credentials.expires is None else min(now + LIFETIME, credentials.expires)
    return Token(PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("="), expires)


def exec_credential(token: Token, version: str = DEFAULT_EXEC_VERSION) -> bytes:
    document = {
        "kind": "ExecCredential",
        "apiVersion": version,
        "spec": {},
        "status": {"expirationTimestamp": token.expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "token": token.text},
    }
    return json.dumps(document, indent=4).encode() + b"\n"


def exec_version(environ: Mapping[str, str]) -> str:
    """The version that the caller requests; the default of `aws` if there is none, or an unknown one."""
    try:
        exec_info = json.loads(environ.get(EXEC_INFO, ""))
    except ValueError:
        return DEFAULT_EXEC_VERSION
    version = exec_info.get("apiVersion") if isinstance(exec_info, dict) else None
    return version if version in EXEC_VERSIONS else DEFAULT_EXEC_VERSION
