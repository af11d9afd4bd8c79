"""Assembly of the local AWS: state, STS, IAM, EKS and the clusters' token webhooks, on one TLS server in this process.

Accounts, their first identities and clusters are created by the methods here; everything else by calls of the AWS API. Start order
is state → socket, stop order the reverse; state that was reported in an answer is on disk and survives a restart, on the same port,
because clients remember endpoints.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from muster.aws.arns import EksCluster, parse_cluster_arn
from muster.aws.interfaces import AwsCredentials, ClusterDescription, PolicyDocument
from muster.aws.partitions import is_sts_host
from muster.aws.policies import AUDIENCE
from muster.fleet.aws import identifiers, statefile
from muster.fleet.aws.authorization import Authorizer
from muster.fleet.aws.behaviour import AnswerLost, Behaviour
from muster.fleet.aws.callers import Callers, SignedRequest
from muster.fleet.aws.calls import CallLog
from muster.fleet.aws.dispatch import Dispatcher
from muster.fleet.aws.identifiers import RandomBytes
from muster.fleet.aws.model import MODES, AccessKey, Account, Cluster, OidcProvider, User
from muster.fleet.aws.policy.document import identity_policy
from muster.fleet.aws.services.operation import Services
from muster.fleet.aws.sessions import Sessions
from muster.fleet.aws.tokens import aws_auth
from muster.fleet.aws.tokens.aws_auth import AwsAuth
from muster.fleet.aws.tokens.webhook import TokenReviews
from muster.fleet.aws.webidentity import Fetch, WebIdentities
from muster.fleet.aws.world import World, replaced
from muster.http import Answer, HttpServer, Request, Response, StreamResponse, StreamWriter, server_context
from muster.http.upstream import host_port
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority, KeyPair
from muster.kube.yaml import dump
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import Informer
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CONFIG_MAPS

ADMINISTRATOR: Final = "administrator"
EVERYTHING: Final[PolicyDocument] = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
TOKENS: Final = "/tokens/"
MAX_BODY: Final = 256 * 1024
_SERVING_LIFETIME: Final = timedelta(days=365)


@dataclass(frozen=True)
class LocalAwsConfig:
    directory: Path | None = None
    """None: the state is in memory."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: the previous port, or any."""
    partition: str = "aws"
    host_names: Sequence[str] = ()
    """Additional names of the server's certificate, such as AWS' own, for clients that are directed here by a proxy."""


class AwsAuthWatch:
    """The watch of a cluster's `aws-auth`. Its owner runs `run` as a task; before that the cluster has no such mappings."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        selector = f"metadata.name={aws_auth.NAME}"
        self._informer: Informer[AwsAuth] = Informer(
            client, CONFIG_MAPS, aws_auth.NAMESPACE, field_selector=selector, decode=aws_auth.decode, clock=clock
        )
        self.run: Callable[[], Coroutine[Any, Any, None]] = self._informer.run
        self.synced = self._informer.synced

    @property
    def present(self) -> AwsAuth:
        return self._informer.cache.get(ObjectKey(aws_auth.NAMESPACE, aws_auth.NAME)) or aws_auth.EMPTY


class LocalAws:
    def __init__(
        self,
        config: LocalAwsConfig,
        *,
        clock: Clock = SYSTEM,
        random: RandomBytes = secrets.token_bytes,
        fetch: Fetch | None = None,
    ) -> None:
        self.config = config
        self._clock = clock
        state = statefile.load(config.directory, clock.now(), config.partition)
        self.world = World(state, clock, random)
        self._file = statefile.StateFile(state, config.directory)
        self.behaviour = Behaviour(clock)
        self.calls = CallLog()
        sessions = Sessions(self.world)
        services = Services(self.world, Authorizer(self.world), sessions, WebIdentities(self.world, fetch), self.behaviour)
        self._dispatcher = Dispatcher(services, Callers(self.world, sessions), self._file, self.calls)
        self._reviews = TokenReviews(self.world, self._dispatcher.serve, self.is_own_sts)
        self._watches: dict[str, AwsAuthWatch] = {}
        self._http: HttpServer | None = None

    # Lifecycle

    async def start(self) -> None:
        authority = CertificateAuthority.load(KeyPair(self.world.state.authority.encode(), self.world.state.authority_key.encode()))
        hosts = dict.fromkeys(("127.0.0.1", "localhost", "::1", self.config.host, *self.config.host_names))
        pair = authority.issue("muster-local-aws", self._clock.now(), _SERVING_LIFETIME, usages=(SERVER_AUTH,), hosts=hosts)
        tls = await asyncio.to_thread(server_context, pair.certificate, pair.key)
        self._http = HttpServer(self._handle, tls=tls, max_body=MAX_BODY)
        await self._http.start(self.config.host, self.config.port or self.world.state.port)
        self.world.state.port = self._http.port
        await asyncio.to_thread(self._file.write_authority)
        await self._file.save()

    async def stop(self, grace: float = 1.0) -> None:
        if self._http is not None:
            await self._http.stop(grace)
        await self._file.save()

    @property
    def port(self) -> int:
        assert self._http is not None, "started"
        return self._http.port

    @property
    def url(self) -> str:
        """The value of AWS_ENDPOINT_URL."""
        return f"https://{host_port(self.config.host, self.port)}"

    @property
    def ca_pem(self) -> bytes:
        return self.world.state.authority.encode()

    @property
    def ca_file(self) -> Path | None:
        """The value of AWS_CA_BUNDLE; None if the state is in memory."""
        return None if self.config.directory is None else self.config.directory / statefile.AUTHORITY

    def set_lag(self, seconds: float) -> None:
        """How long other services do not see changes of roles and access entries."""
        self.world.roles_seen.lag = self.world.entries_seen.lag = seconds

    # Accounts, identities and clusters

    async def create_user(
        self, account: str, name: str, policy: PolicyDocument, tags: Mapping[str, str] | None = None
    ) -> AwsCredentials:
        """A user with an inline policy, replaced if it exists, and a new access key."""
        text = json.dumps(policy)
        identity_policy(text)
        owner = self.world.state.accounts.setdefault(account, Account(account))
        now = self._clock.now().replace(microsecond=0)
        user_id = self.world.unique_id(identifiers.USER)
        self.world.put_user(owner, User(name=name, user_id=user_id, created=now, tags=dict(tags or {}), inline={"own": text}))
        key = AccessKey(self.world.unique_id(identifiers.KEY), identifiers.secret(self.world.random), name)
        for old in [one.key_id for one in owner.keys.values() if one.user == name]:
            del owner.keys[old]
        owner.keys[key.key_id] = key
        await self._file.save()
        return AwsCredentials(key.key_id, key.secret)

    async def administrator(self, account: str) -> AwsCredentials:
        """An administrator of this account, which is created if it is missing; always the same user."""
        known = self.world.account(account)
        for key in known.keys.values() if known is not None else ():
            if key.user == ADMINISTRATOR:
                return AwsCredentials(key.key_id, key.secret)
        return await self.create_user(account, ADMINISTRATOR, EVERYTHING)

    async def register_cluster(self, described: ClusterDescription) -> EksCluster:
        """Register a cluster, or replace its description; its access entries stay. Raises BadArn and ValueError."""
        arn = parse_cluster_arn(described.arn)
        if arn.partition != self.config.partition:
            raise ValueError(f"{arn} is not in the partition of this AWS, {self.config.partition}")
        if described.authentication_mode not in MODES:
            raise ValueError(f"authentication_mode is {described.authentication_mode!r}, and must be one of {', '.join(MODES)}")
        self.world.state.accounts.setdefault(arn.account, Account(arn.account))
        known = self.world.state.clusters.get(str(arn))
        fresh = Cluster(
            arn=str(arn),
            account=arn.account,
            region=arn.region,
            name=arn.name,
            endpoint=described.endpoint,
            authority=described.authority.decode(),
            issuer=described.issuer,
            mode=described.authentication_mode,
            created=self._clock.now().replace(microsecond=0),
        )
        if known is not None:
            fresh = replaced(fresh, created=known.created, tags=known.tags, entries=known.entries)
        self.world.state.clusters[str(arn)] = fresh
        await self._file.save()
        return arn

    async def remove_cluster(self, arn: str) -> None:
        """Does nothing if it is not registered."""
        self.world.state.clusters.pop(arn, None)
        self._watches.pop(arn, None)
        await self._file.save()

    async def trust_issuer(self, account: str, issuer: str, audiences: Sequence[str] = (AUDIENCE,)) -> str:
        """Create an identity provider for a cluster's issuer, as `eksctl utils associate-iam-oidc-provider`; returns its ARN."""
        owner = self.world.state.accounts.setdefault(account, Account(account))
        url = issuer.removeprefix("https://")
        now = self._clock.now().replace(microsecond=0)
        owner.providers[url] = OidcProvider(url=url, audiences=tuple(audiences), created=now)
        await self._file.save()
        return self.world.iam_arn(account, f"oidc-provider/{url}")

    async def distrust_issuer(self, account: str, issuer: str) -> None:
        """Does nothing if there is no such provider."""
        owner = self.world.account(account)
        if owner is not None and owner.providers.pop(issuer.removeprefix("https://"), None) is not None:
            await self._file.save()

    def environ(self, region: str, credentials: AwsCredentials | None = None) -> dict[str, str]:
        """The variables that configure `aws`, boto3 and our own programs for this AWS and identity."""
        found = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        if self.ca_file is not None:
            found["AWS_CA_BUNDLE"] = str(self.ca_file)
        if credentials is not None:
            found |= {"AWS_ACCESS_KEY_ID": credentials.access_key_id, "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key}
            if credentials.session_token:
                found["AWS_SESSION_TOKEN"] = credentials.session_token
        return found

    # Tokens

    def watch_aws_auth(self, arn: str, client: KubeClient) -> AwsAuthWatch:
        """Use the cluster's `aws-auth`; the caller runs the result."""
        watch = self._watches[arn] = AwsAuthWatch(client, self._clock)
        return watch

    def webhook_url(self, arn: str) -> str:
        """The URL of the cluster's token review webhook."""
        cluster = parse_cluster_arn(arn)
        return f"{self.url}{TOKENS}{cluster.account}/{cluster.region}/{cluster.name}"

    def webhook_kubeconfig(self, arn: str, authority: Path) -> bytes:
        """The file for kube-apiserver's `--authentication-token-webhook-config-file`; `authority` is the path of the CA there."""
        cluster = {"server": self.webhook_url(arn), "certificate-authority": str(authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "aws", "cluster": cluster}],
            "users": [{"name": "apiserver", "user": {}}],
            "contexts": [{"name": "webhook", "context": {"cluster": "aws", "user": "apiserver"}}],
            "current-context": "webhook",
        }
        return dump(document).encode()

    def is_own_sts(self, host: str) -> bool:
        """Whether a host in a token, with its port if it has one, is the STS of this AWS."""
        own = {host_port(name, self.port) for name in (self.config.host, "127.0.0.1", "localhost", *self.config.host_names)}
        return host.lower() in own or is_sts_host(host, self.config.partition)

    async def user_of(self, arn: str, token: str) -> UserInfo:
        """The user of a token in a cluster. Raises TokenRefused, StsRefused and Unmapped, and KeyError without the cluster."""
        return await self._reviews.user_of(self.world.state.clusters[arn], self._aws_auth(arn), token)

    def _aws_auth(self, arn: str) -> AwsAuth:
        watch = self._watches.get(arn)
        return aws_auth.EMPTY if watch is None else watch.present

    async def _review(self, request: Request) -> Response:
        parts = request.path.removeprefix(TOKENS).split("/")
        cluster = self.world.cluster(*parts) if len(parts) == 3 else None
        if cluster is None or request.method != "POST":
            return Response(404, b"there is no such cluster\n", (), "text/plain; charset=utf-8")
        return await self._reviews.review(cluster, self._aws_auth(cluster.arn), request.body)

    # Requests

    async def _handle(self, request: Request) -> Answer:
        if request.path.startswith(TOKENS):
            return await self._review(request)
        query = tuple(parse_qsl(request.query, keep_blank_values=True))
        arrived = SignedRequest(request.method, request.raw_path, query, tuple(request.headers.items()), request.body)
        try:
            return await self._dispatcher.serve(arrived)
        except AnswerLost:
            # A head without the promised body: clients see a broken connection.
            return StreamResponse(200, (), _break)


async def _break(writer: StreamWriter) -> None:
    """Close the connection: a cancelled body is not completed, and this is no failure to log."""
    raise asyncio.CancelledError
