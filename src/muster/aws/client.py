"""A client of AWS: every call of `interfaces.Aws` is one signed request.

botocore encodes requests and decodes responses (`library.py`), `transport.py` sends them, and in between they are signed with the
current credentials of the source; so one client serves an identity for the lifetime of its process, and keeps no credentials. Calls
run in a bounded number of threads. Each has a timeout, and none is retried: that is up to the caller. Failures are `AwsError`s,
distinguished by AWS' own codes.

botocore is imported by the first call; without it, that raises `NoLibrary`.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

from muster.aws import errors, partitions, sigv4
from muster.aws.interfaces import (
    AccessEntry,
    AwsCredentials,
    CallerIdentity,
    ClusterDescription,
    CredentialSource,
    PolicyDocument,
    RoleDescription,
)
from muster.aws.process_env import ProcessEnv
from muster.machinery.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from muster.aws.transport import HttpAnswer, Transport

CALL_SECONDS: Final = 30.0
THREADS: Final = 8
PAGE: Final = 1000
_UNSIGNED_HEADERS: Final = ("user-agent", "expect", "transfer-encoding", "x-amzn-trace-id", "connection", "content-length")
_call_credentials: contextvars.ContextVar[AwsCredentials | None] = contextvars.ContextVar("whose call of AWS this is", default=None)
T = TypeVar("T")


class Threads:
    """Threads for blocking calls: at most `count` at once; waiting calls block only their own task."""

    def __init__(self, count: int = THREADS) -> None:
        self.count = count
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="aws")
        self._free = asyncio.Semaphore(count)

    async def run(self, work: Callable[[], T]) -> T:
        """Runs in the context of the caller. If the caller is cancelled, the thread counts until its work ends."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        try:
            future: Future[T] = self._executor.submit(contextvars.copy_context().run, work)
        except RuntimeError:
            self._free.release()
            raise
        future.add_done_callback(lambda _: _on(loop, self._free.release))
        awaited = asyncio.wrap_future(future)
        # Without a waiting caller, the result is discarded.
        awaited.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(awaited)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def _on(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)


class AwsClient:
    """A client of one identity in one region. Without a `source`, only calls without credentials are possible. Given threads are
    closed by their owner, unless they are passed as this client's."""

    def __init__(
        self,
        region: str,
        process_env: ProcessEnv,
        source: CredentialSource | None = None,
        *,
        clock: Clock = SYSTEM,
        seconds: float = CALL_SECONDS,
        threads: Threads | None = None,
        owns_threads: bool = False,
    ) -> None:
        self._region = region
        self._surroundings = process_env
        self._source = source
        self._clock = clock
        self._seconds = seconds
        self._threads = threads or Threads()
        self._owns_threads = owns_threads or threads is None
        self._loading = threading.Lock()
        self._transport: Transport | None = None
        self._clients: dict[str, Any] = {}

    async def close(self) -> None:
        if self._owns_threads:
            self._threads.close()
        if self._transport is not None:
            self._transport.close()

    async def caller_identity(self) -> CallerIdentity:
        answer = await self._call("sts", "get_caller_identity")
        return CallerIdentity(answer["Account"], answer["Arn"], answer["UserId"])

    async def assume_role(self, role_arn: str, session: str, seconds: int = 3600) -> AwsCredentials:
        answer = await self._call("sts", "assume_role", RoleArn=role_arn, RoleSessionName=session, DurationSeconds=seconds)
        return _credentials(answer)

    async def assume_role_with_web_identity(self, role_arn: str, session: str, token: str, seconds: int = 3600) -> AwsCredentials:
        given: dict[str, Any] = {
            "RoleArn": role_arn,
            "RoleSessionName": session,
            "WebIdentityToken": token,
            "DurationSeconds": seconds,
        }
        return _credentials(await self._call("sts", "assume_role_with_web_identity", unsigned=True, **given))

    async def create_role(
        self, name: str, trust: PolicyDocument, tags: Mapping[str, str], description: str = ""
    ) -> RoleDescription:
        given: dict[str, Any] = {"RoleName": name, "AssumeRolePolicyDocument": json.dumps(trust), "Tags": _tag_list(tags)}
        if description:
            given["Description"] = description
        return _role((await self._call("iam", "create_role", **given))["Role"])

    async def get_role(self, name: str) -> RoleDescription:
        return _role((await self._call("iam", "get_role", RoleName=name))["Role"])

    async def list_roles(self) -> Sequence[RoleDescription]:
        return [_role(one) for one in await self._pages("list_roles", "Roles")]

    async def update_trust(self, name: str, trust: PolicyDocument) -> None:
        await self._call("iam", "update_assume_role_policy", RoleName=name, PolicyDocument=json.dumps(trust))

    async def tag_role(self, name: str, tags: Mapping[str, str]) -> None:
        await self._call("iam", "tag_role", RoleName=name, Tags=_tag_list(tags))

    async def delete_role(self, name: str) -> None:
        await self._call("iam", "delete_role", RoleName=name)

    async def put_role_policy(self, name: str, policy: str, document: PolicyDocument) -> None:
        given: dict[str, Any] = {"RoleName": name, "PolicyName": policy, "PolicyDocument": json.dumps(document)}
        await self._call("iam", "put_role_policy", **given)

    async def get_role_policy(self, name: str, policy: str) -> PolicyDocument:
        answer = await self._call("iam", "get_role_policy", RoleName=name, PolicyName=policy)
        return _document(answer["PolicyDocument"])

    async def list_role_policies(self, name: str) -> Sequence[str]:
        return await self._pages("list_role_policies", "PolicyNames", RoleName=name)

    async def delete_role_policy(self, name: str, policy: str) -> None:
        await self._call("iam", "delete_role_policy", RoleName=name, PolicyName=policy)

    async def list_attached_role_policies(self, name: str) -> Sequence[str]:
        return [one["PolicyArn"] for one in await self._pages("list_attached_role_policies", "AttachedPolicies", RoleName=name)]

    async def detach_role_policy(self, name: str, policy_arn: str) -> None:
        await self._call("iam", "detach_role_policy", RoleName=name, PolicyArn=policy_arn)

    async def describe_cluster(self, name: str) -> ClusterDescription:
        found = (await self._call("eks", "describe_cluster", name=name))["cluster"]
        return ClusterDescription(
            found["arn"],
            found.get("endpoint") or "",
            base64.b64decode((found.get("certificateAuthority") or {}).get("data") or ""),
            (found.get("accessConfig") or {}).get("authenticationMode") or "CONFIG_MAP",
            ((found.get("identity") or {}).get("oidc") or {}).get("issuer") or "",
        )

    async def create_access_entry(self, cluster: str, entry: AccessEntry) -> None:
        await self._call("eks", "create_access_entry", clusterName=cluster, **_entry(entry), tags=dict(entry.tags))

    async def describe_access_entry(self, cluster: str, principal_arn: str) -> AccessEntry:
        answer = await self._call("eks", "describe_access_entry", clusterName=cluster, principalArn=principal_arn)
        found = answer["accessEntry"]
        groups = tuple(found.get("kubernetesGroups") or ())
        return AccessEntry(found["principalArn"], found.get("username") or "", groups, found.get("tags") or {})

    async def update_access_entry(self, cluster: str, entry: AccessEntry) -> None:
        await self._call("eks", "update_access_entry", clusterName=cluster, **_entry(entry))

    async def delete_access_entry(self, cluster: str, principal_arn: str) -> None:
        await self._call("eks", "delete_access_entry", clusterName=cluster, principalArn=principal_arn)

    async def _pages(self, operation: str, key: str, **given: Any) -> list[Any]:
        found: list[Any] = []
        marker: dict[str, Any] = {}
        while True:
            page = await self._call("iam", operation, **given, **marker, MaxItems=PAGE)
            found += page[key]
            if not page.get("IsTruncated"):
                return found
            marker = {"Marker": page["Marker"]}

    async def _call(self, service: str, operation: str, *, unsigned: bool = False, **given: Any) -> Any:
        credentials = None if unsigned else await self._credentials(operation)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._threads.run(lambda: self._run(service, operation, given, credentials))
        except TimeoutError:
            raise errors.Unavailable(operation, "", f"no answer from {service} within {self._seconds:g} s") from None
        except errors.NoIdentity:
            if credentials is not None and self._source is not None:
                self._source.discard(credentials)
            raise

    async def _credentials(self, operation: str) -> AwsCredentials:
        if self._source is None:
            raise errors.NoIdentity(operation, "", "there is no AWS identity")
        return await self._source.credentials()

    def _run(self, service: str, operation: str, given: Mapping[str, Any], credentials: AwsCredentials | None) -> Any:
        """Runs in a thread, with a context of its own. Raises AwsError."""
        _call_credentials.set(credentials)
        try:
            from muster.aws import library
            from muster.aws.transport import NoAnswer
        except ModuleNotFoundError as error:
            raise errors.NoLibrary(operation, "", f"{error.name} is not installed: pip install 'muster[aws]'") from error
        try:
            return getattr(self._client(service), operation)(**given)
        except library.ClientError as error:
            raise _service_error(operation, error.response) from None
        except library.BotoCoreError as error:
            # Nothing was sent: botocore refuses the parameters.
            raise errors.InvalidParameter(operation, type(error).__name__, str(error)) from None
        except NoAnswer as error:
            raise errors.Unavailable(operation, "", str(error)) from None

    def _client(self, service: str) -> Any:
        """Runs in a thread, concurrently with others. Raises NoAnswer."""
        from muster.aws import library
        from muster.aws.transport import Transport

        with self._loading:
            if self._transport is None:
                self._transport = Transport(
                    self._surroundings, library.BUNDLE, seconds=self._seconds, connections=self._threads.count
                )
            if service not in self._clients:
                endpoint, send = self._surroundings.endpoint(service), self._sender(service, self._transport)
                self._clients[service] = library.service_client(service, self._region, endpoint, send)
            return self._clients[service]

    def _sender(self, service: str, transport: Transport) -> Callable[[str, str, Mapping[str, str], bytes], HttpAnswer]:
        region = partitions.of_region(self._region).iam_region if service == "iam" else self._region

        def send(method: str, url: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
            credentials = _call_credentials.get()
            if credentials is not None:
                signed = {name: value for name, value in headers.items() if name.lower() not in _UNSIGNED_HEADERS}
                now = self._clock.now()
                headers = {**headers, **sigv4.sign(credentials, region, service, method, url, signed, body, now)}
            return transport.send(method, url, headers, body)

        return send


def _credentials(answer: Mapping[str, Any]) -> AwsCredentials:
    found = answer["Credentials"]
    return AwsCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"], found["Expiration"])


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _role(found: Mapping[str, Any]) -> RoleDescription:
    tags = {one["Key"]: one["Value"] for one in found.get("Tags") or ()}
    return RoleDescription(
        found["RoleName"], found["Arn"], found["RoleId"], _document(found.get("AssumeRolePolicyDocument") or {}), tags
    )


def _document(found: Any) -> PolicyDocument:
    """botocore decodes most of them; the others are still quoted."""
    parsed = json.loads(unquote(found)) if isinstance(found, str) else found
    return parsed if isinstance(parsed, Mapping) else {}


def _entry(entry: AccessEntry) -> dict[str, Any]:
    return {"principalArn": entry.principal_arn, "username": entry.username, "kubernetesGroups": list(entry.groups)}


def _service_error(operation: str, response: Mapping[str, Any]) -> errors.AwsError:
    details = response.get("Error") or {}
    code, message = str(details.get("Code") or ""), str(details.get("Message") or "")
    status = int((response.get("ResponseMetadata") or {}).get("HTTPStatusCode") or 0)
    return errors.of_code(operation, code, message, status)
