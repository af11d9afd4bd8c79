"""The simulated AWS of a fleet whose clusters register by AWS identities: the hub in one account, its managed clusters in another.

The local AWS runs in the fleet's process and keeps its state in the fleet's directory. What users do on AWS before they run
`clusteradm` is done here, as each account's administrator and by the functions of `clusteradm aws`: clusters are registered with
EKS, their issuers become identity providers, and the roles of hub and agents are created. The node passes AWS' address and CA to
pods (`settings`): no object of the API has them. Each step is idempotent.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.administration.aws import prerequisites
from muster.apiserver.auth.tokenwebhook import WebhookTarget
from muster.apiserver.server import ApiServer
from muster.aws.arns import EksCluster
from muster.aws.identity import connect
from muster.aws.interfaces import Aws, ClusterDescription
from muster.aws.process_env import CA_BUNDLE, ENDPOINT_URL, ProcessEnv
from muster.aws.role_names import RoleNames
from muster.fleet.aws import AwsAuthWatch, LocalAws, LocalAwsConfig, UnreadableState
from muster.fleet.aws.statefile import AUTHORITY
from muster.fleet.local.directory import HUB, FleetDirectory, FleetError
from muster.fleet.node.settings import NodeSettings
from muster.http.upstream import host_port
from muster.machinery.clock import Clock
from muster.machinery.logs import get_logger
from muster.machinery.privatefiles import replace_private
from muster.registration.drivers.awsirsa.roles import remove_role
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS

if TYPE_CHECKING:
    from muster.api.resource import Document

log = get_logger("muster.fleet.local")

PARTITION: Final = "aws"
REGION: Final = "us-west-2"
HUB_ACCOUNT: Final = "111111111111"
CLUSTERS_ACCOUNT: Final = "222222222222"
PROFILES: Final = {"hub": HUB_ACCOUNT, "clusters": CLUSTERS_ACCOUNT}
"""The profiles of the accounts' administrators in the file for `aws` and boto3."""
CA_FILE: Final = "/etc/muster/aws/ca.crt"
"""The CA's path in containers."""
PUBLISHED: Final = "muster:published-issuer"
FIELD_MANAGER: Final = "muster-up"


def config_file(directory: FleetDirectory) -> Path:
    """The value of AWS_CONFIG_FILE."""
    return directory.aws.absolute() / "config"


def ca_file(directory: FleetDirectory) -> Path:
    """The value of AWS_CA_BUNDLE."""
    return directory.aws.absolute() / AUTHORITY


def arn_of(name: str) -> EksCluster:
    return EksCluster(PARTITION, REGION, HUB_ACCOUNT if name == HUB else CLUSTERS_ACCOUNT, name)


class FleetCloud:
    """`start` it before the API server and `stop` it after. Raises FleetError if its state cannot be read."""

    def __init__(self, directory: FleetDirectory, server: ApiServer, host: str, port: int, mode: str, clock: Clock) -> None:
        try:
            self.aws = LocalAws(LocalAwsConfig(directory.aws.absolute(), host, port, PARTITION), clock=clock)
        except UnreadableState as error:
            raise FleetError(str(error)) from None
        self.url = f"https://{host_port(host, port)}"
        variables = {ENDPOINT_URL: self.url, CA_BUNDLE: CA_FILE, "AWS_EC2_METADATA_DISABLED": "true"}
        self.settings = NodeSettings(variables, {CA_FILE: self.aws.ca_pem}, ((host, port),))
        self._directory = directory
        self._server = server
        self._mode = mode
        self._tls: ssl.SSLContext | None = None

    async def start(self) -> None:
        """Raises OSError if the port is in use."""
        await self.aws.start()
        self._tls = await asyncio.to_thread(ssl.create_default_context, cadata=self.aws.ca_pem.decode())
        await self._write_config()

    async def stop(self) -> None:
        await self.aws.stop()

    async def judge_tokens(self, name: str) -> None:
        """Have the cluster's bearer tokens reviewed as EKS does."""
        await self._server.set_token_webhook(name, WebhookTarget(self.aws.webhook_url(str(arn_of(name))), self._tls))

    def watch_aws_auth(self, hub: KubeClient) -> AwsAuthWatch:
        return self.aws.watch_aws_auth(str(arn_of(HUB)), hub)

    async def process_env(self, account: str) -> ProcessEnv:
        """The environment of an account's administrator."""
        return ProcessEnv(self.aws.environ(REGION, await self.aws.administrator(account)))

    async def prepare(self, name: str, client: KubeClient) -> None:
        """Create what AWS needs before the cluster is initialized or joins. Raises AwsError and KubeError."""
        cluster, issuer = arn_of(name), self._server.cluster_url(name)
        await client.apply(CLUSTER_ROLE_BINDINGS, _published(), manager=FIELD_MANAGER)
        await self.aws.register_cluster(ClusterDescription(str(cluster), issuer, self._server.ca_pem, self._mode, issuer))
        await self.aws.trust_issuer(cluster.account, issuer)
        if name == HUB:
            wanted = prerequisites.hub_role(cluster, issuer, entries="API" in self._mode)
        else:
            wanted = prerequisites.managed_role(RoleNames(arn_of(HUB), cluster), issuer, prerequisites.Agents())
        async with self._administrator(cluster.account) as aws:
            if await prerequisites.apply(aws, wanted):
                log.info("role made", cluster=name, role=wanted.arn)

    async def remove(self, name: str) -> None:
        """Remove what `prepare` created for a managed cluster. Raises AwsError."""
        cluster = arn_of(name)
        async with self._administrator(cluster.account) as aws:
            await remove_role(aws, RoleNames(arn_of(HUB), cluster).managed_role, _ignore)
        await self.aws.distrust_issuer(cluster.account, self._server.cluster_url(name))
        await self.aws.remove_cluster(str(cluster))
        await self._server.set_token_webhook(name, None)

    @asynccontextmanager
    async def _administrator(self, account: str) -> AsyncIterator[Aws]:
        client = connect(await self.process_env(account), REGION)
        try:
            yield client
        finally:
            await client.close()

    async def _write_config(self) -> None:
        """Write the profiles for `aws` and boto3."""
        lines = []
        for profile, account in PROFILES.items():
            key = await self.aws.administrator(account)
            lines += [
                f"[profile {profile}]",
                f"region = {REGION}",
                f"endpoint_url = {self.url}",
                f"ca_bundle = {ca_file(self._directory)}",
                f"aws_access_key_id = {key.access_key_id}",
                f"aws_secret_access_key = {key.secret_access_key}",
                "",
            ]
        await asyncio.to_thread(replace_private, config_file(self._directory), "\n".join(lines))


def _published() -> Document:
    """RBAC that lets everyone read a cluster's keys, as on EKS."""
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": PUBLISHED},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:unauthenticated"}],
    }


def _ignore(reason: str, note: str) -> None:
    log.info(note, reason=reason)
