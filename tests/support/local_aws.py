"""A local AWS in this process, and botocore to ask it: AWS' own library, which raises what AWS means.

botocore blocks, and the server is on the loop: calls go through threads. Its retries are off, so that one call is one call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from muster.aws import policies
from muster.aws.interfaces import AwsCredentials
from muster.aws.role_names import RoleNames
from muster.fleet.aws import LocalAws, LocalAwsConfig
from muster.machinery.clock import SYSTEM, Clock, SystemClock

REGION = "us-west-2"


class MovedClock(SystemClock):
    """The server's idea of what time it is can be moved while it runs; botocore's stays right."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.offset

    def monotonic(self) -> float:
        return super().monotonic() + self.offset.total_seconds()


@cache
def session() -> Any:
    return botocore.session.Session()


@asynccontextmanager
async def local_aws(directory: Path, *, clock: Clock = SYSTEM, **options: Any) -> AsyncIterator[LocalAws]:
    config = {name: options.pop(name) for name in list(options) if name in ("host_names", "partition", "port")}
    aws = LocalAws(LocalAwsConfig(directory, **config), clock=clock, **options)
    await aws.start()
    try:
        yield aws
    finally:
        await aws.stop(grace=0.1)


class Botocore:
    """One identity in one region; `await botocore.iam("create_role", RoleName=…)`."""

    def __init__(self, aws: LocalAws, credentials: AwsCredentials | None, region: str = REGION, read_timeout: float = 20) -> None:
        self._aws = aws
        self.credentials = credentials
        self._region = region
        self._read_timeout = read_timeout
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        if service not in self._clients:
            signing = {"signature_version": UNSIGNED} if self.credentials is None else {}
            self._clients[service] = session().create_client(
                service,
                region_name=self._region,
                endpoint_url=self._aws.url,
                verify=str(self._aws.ca_file),
                aws_access_key_id=self.credentials and self.credentials.access_key_id,
                aws_secret_access_key=self.credentials and self.credentials.secret_access_key,
                aws_session_token=self.credentials and (self.credentials.session_token or None),
                config=Config(retries={"total_max_attempts": 1}, read_timeout=self._read_timeout, **signing),
            )
        return self._clients[service]

    async def _call(self, service: str, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        client = await asyncio.to_thread(self.client, service)
        return await asyncio.to_thread(getattr(client, operation), **parameters)

    async def sts(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return await self._call("sts", operation, parameters)

    async def iam(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return await self._call("iam", operation, parameters)

    async def eks(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return await self._call("eks", operation, parameters)

    async def code(self, service: str, operation: str, **parameters: Any) -> str:
        """The code of the refusal; "OK" where there is none. botocore must know it as an exception of its own where it has one."""
        try:
            await self._call(service, operation, parameters)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "OK"

    async def assume(self, role_arn: str, name: str = "test", **parameters: Any) -> Botocore:
        found = await self.sts("assume_role", RoleArn=role_arn, RoleSessionName=name, **parameters)
        return Botocore(self._aws, credentials_in(found), self._region)


def credentials_in(answer: dict[str, Any]) -> AwsCredentials:
    found = answer["Credentials"]
    return AwsCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], found["Expiration"])


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(action: str | list[str], resource: str | list[str] = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def trusting(principal: Any, action: str = "sts:AssumeRole", **more: Any) -> str:
    return policy({"Effect": "Allow", "Principal": principal, "Action": action, **more})


async def make_managed_role(aws: LocalAws, pair: RoleNames, issuer: str, subjects: Sequence[str], **tags: str) -> None:
    """What the managed cluster's IAM administrator prepares; `tags` in place of those that the seed wants."""
    admin = Botocore(aws, await aws.administrator(pair.managed.account))
    trust = policies.web_identity_trust(pair.managed, issuer.removeprefix("https://"), subjects)
    listed = [{"Key": key, "Value": value} for key, value in {**pair.tags, **tags}.items() if value]
    await admin.iam("create_role", RoleName=pair.managed_role, AssumeRolePolicyDocument=json.dumps(trust), Tags=listed)
    access = json.dumps(policies.managed_access(pair))
    await admin.iam("put_role_policy", RoleName=pair.managed_role, PolicyName="access", PolicyDocument=access)


async def make_hub_role(aws: LocalAws, pair: RoleNames) -> None:
    """What the hub makes when it accepts the cluster, but for the mapping."""
    admin = Botocore(aws, await aws.administrator(pair.hub.account))
    trust, access = json.dumps(policies.hub_trust(pair)), json.dumps(policies.hub_access(pair.hub))
    await admin.iam("create_role", RoleName=pair.hub_role, AssumeRolePolicyDocument=trust)
    await admin.iam("put_role_policy", RoleName=pair.hub_role, PolicyName=policies.ACCESS_POLICY, PolicyDocument=access)
