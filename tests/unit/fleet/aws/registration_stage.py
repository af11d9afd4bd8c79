"""A managed cluster and a hub, embedded clusters in one server, in different accounts of one local AWS; and their agents' way."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster.apiserver.auth.access import Access
from muster.apiserver.auth.tokenwebhook import WebhookTarget
from muster.apiserver.server import ApiServer
from muster.aws import policies
from muster.aws.arns import EksCluster, parse_cluster_arn
from muster.aws.interfaces import AwsCredentials, ClusterDescription
from muster.aws.role_names import RoleNames
from muster.aws.token_validation import Reason, TokenRefused
from muster.aws.tokens import make_token
from muster.embedded.in_process import InProcessClient
from muster.fleet.aws import AwsAuthWatch, LocalAws, StsRefused, Unmapped
from muster.runtime.client import AuthInfo, ClientConfig
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, NAMESPACES, SELF_SUBJECT_REVIEWS, SERVICE_ACCOUNTS
from muster.runtime.client.errors import Unauthorized
from muster.runtime.client.http import HttpClient
from tests.support.in_process import serving
from tests.support.local_aws import REGION, Botocore, MovedClock, credentials_in, local_aws, make_hub_role, make_managed_role

HUB = "111111111111"
MANAGED = "222222222222"
NAMESPACE = "open-cluster-management-agent"
AGENTS = [f"system:serviceaccount:{NAMESPACE}:klusterlet-{part}-sa" for part in ("registration", "work")]
GROUP = "open-cluster-management:managed-0"


def arn(account: str, name: str) -> EksCluster:
    return parse_cluster_arn(f"arn:aws:eks:{REGION}:{account}:cluster/{name}")


@dataclass
class Stage:
    aws: LocalAws
    server: ApiServer
    pair: RoleNames
    watch: AwsAuthWatch
    clock: MovedClock
    """The local AWS'."""

    def client(self, cluster: str) -> InProcessClient:
        return InProcessClient(self.server.client(self.server.clusters[cluster]), cluster)

    async def account_token(
        self, name: str = "klusterlet-registration-sa", audience: str = policies.AUDIENCE, cluster: str = "managed"
    ) -> str:
        spec = {"audiences": [audience], "expirationSeconds": 3600}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = await self.client(cluster).create(SERVICE_ACCOUNTS, request, NAMESPACE, name=name, subresource="token")
        return str(made["status"]["token"])

    async def agent(self, name: str = "klusterlet-registration-sa") -> Botocore:
        """The agent as its own role in its own account."""
        token = await self.account_token(name)
        found = await Botocore(self.aws, None).sts(
            "assume_role_with_web_identity", RoleArn=self.pair.managed_role_arn, RoleSessionName="agent", WebIdentityToken=token
        )
        return Botocore(self.aws, credentials_in(found))

    async def session(self) -> AwsCredentials:
        """The agent as its role in the hub's account."""
        credentials = (await (await self.agent()).assume(self.pair.hub_role_arn, "EKSGetTokenAuth")).credentials
        assert credentials is not None
        return credentials

    async def token(self, cluster: str = "hub-0", at: datetime | None = None) -> str:
        return make_token(await self.session(), REGION, cluster, at or datetime.now(UTC), self.aws.url).text

    async def user(self, token: str, cluster: str = "hub") -> dict[str, Any]:
        """Who the hub's API server takes the holder of a token for. Raises Unauthorized."""
        config = ClientConfig(self.server.cluster_url(cluster), self.server.ca_pem, identity=AuthInfo(token=token))
        client = HttpClient(config)
        try:
            made = await client.create(
                SELF_SUBJECT_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            )
        finally:
            await client.close()
        return dict(made["status"]["userInfo"])

    async def refused(self, token: str) -> bool:
        self.server.clusters["hub"].part(Access).invalidate_tokens()
        try:
            await self.user(token)
        except Unauthorized:
            return True
        return False

    async def reason(self, token: str) -> Reason | str:
        """Why a token is refused: by its form, by STS' code, or because nobody here is called so ("")."""
        try:
            await self.aws.user_of(str(self.pair.hub), token)
        except TokenRefused as refusal:
            return refusal.reason
        except StsRefused as refusal:
            return refusal.code
        except Unmapped:
            return ""
        raise AssertionError("the token is taken")

    async def map_by_entry(self) -> None:
        admin = Botocore(self.aws, await self.aws.administrator(HUB))
        await admin.eks(
            "create_access_entry",
            clusterName="hub-0",
            principalArn=self.pair.hub_role_arn,
            username=GROUP,
            kubernetesGroups=[GROUP],
        )

    async def describe(self, mode: str) -> None:
        description = ClusterDescription(str(self.pair.hub), self.server.cluster_url("hub"), self.server.ca_pem, mode, "")
        await self.aws.register_cluster(description)


@asynccontextmanager
async def open_stage(directory: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving("hub", "managed"))
        clock = MovedClock()
        aws = await stack.enter_async_context(local_aws(directory / "aws", clock=clock))
        pair = RoleNames(arn(HUB, "hub-0"), arn(MANAGED, "managed-0"))
        client = InProcessClient(server.client(server.clusters["hub"]), "hub")
        stage = Stage(aws, server, pair, aws.watch_aws_auth(str(pair.hub), client), clock)
        await stack.enter_async_context(running(stage.watch))
        await stage.describe("API_AND_CONFIG_MAP")
        issuer = server.cluster_url("managed")
        await aws.register_cluster(ClusterDescription(str(pair.managed), issuer, server.ca_pem, "API", issuer))
        await aws.trust_issuer(MANAGED, issuer)
        await prepare_accounts(stage)
        tls = ssl.create_default_context(cadata=aws.ca_pem.decode())
        await server.set_token_webhook("hub", WebhookTarget(aws.webhook_url(str(pair.hub)), tls))
        await make_managed_role(aws, pair, issuer, AGENTS)
        await make_hub_role(aws, pair)
        yield stage


async def prepare_accounts(stage: Stage) -> None:
    client = stage.client("managed")
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name in ("klusterlet-registration-sa", "klusterlet-work-sa", "other-sa"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}}
        await client.create(SERVICE_ACCOUNTS, account, NAMESPACE)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}
    binding = {"metadata": {"name": "published"}, "roleRef": role, "subjects": [subject]}
    await client.create(
        CLUSTER_ROLE_BINDINGS, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", **binding}
    )


@asynccontextmanager
async def running(watch: AwsAuthWatch) -> AsyncIterator[None]:
    task = asyncio.ensure_future(watch.run())
    await watch.synced()
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(stage: Stage, token: str, *, refused: bool) -> None:
    """A watch has to hear of it, or a time to pass."""
    async with asyncio.timeout(10):
        while True:
            if await stage.refused(token) is refused:
                return
            await asyncio.sleep(0.01)
