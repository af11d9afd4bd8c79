"""Clusters that a local AWS knows as EKS', of the kind MUSTER_E2E names, with nodes that run Muster's programs; and `clusteradm`.

A hub's API server has its bearer tokens judged by the local AWS: the embedded one by a webhook of its own for this cluster, a
real kube-apiserver by the flag that it has for it. Nothing of OCM is there at first; people's steps are taken by `clusteradm`, with
the AWS identity that a test says. Nodes are tasks of this process everywhere.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from muster.apiserver.auth.access import Access
from muster.apiserver.auth.tokenwebhook import WebhookTarget
from muster.apiserver.server import ApiServer, ServerConfig
from muster.aws.arns import EksCluster
from muster.aws.interfaces import AwsCredentials, ClusterDescription
from muster.aws.process_env import CA_BUNDLE, ENDPOINT_URL
from muster.aws.role_names import RoleNames
from muster.cli.aws_token import credential_programs
from muster.cli.clusteradm import main
from muster.cli.programs import programs
from muster.embedded.in_process import InProcessClient
from muster.fleet.aws import LocalAws
from muster.fleet.node import NodeRuntime, RemoteNode
from muster.fleet.node.settings import NodeSettings
from muster.machinery.authentication import UserInfo
from muster.runtime.client import load_kubeconfig
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS
from muster.runtime.client.http import HttpClient
from muster.runtime.client.rest import RestClient
from tests.support.local_aws import REGION, Botocore, local_aws
from tests.support.operating import Observed, running
from tests.support.planes import USERS, Cluster, KubeOptions, KubePlane, write_contexts
from tests.support.sites import KUBE

HUB_ACCOUNT, MANAGED_ACCOUNT = "111111111111", "222222222222"
HUB = "hub-0"
CA = "/etc/local-aws/ca.crt"
SECONDS = 60
RBAC = "rbac.authorization.k8s.io"


def arn(name: str) -> EksCluster:
    return EksCluster("aws", REGION, HUB_ACCOUNT if is_hub(name) else MANAGED_ACCOUNT, name)


def is_hub(name: str) -> bool:
    return name.startswith("hub-")


def pair(name: str, hub: str = HUB) -> RoleNames:
    return RoleNames(arn(hub), arn(name))


@dataclass
class Ground:
    """A cluster, seen by its administrator."""

    name: str
    admin: RestClient
    url: str
    ca: bytes
    issuer: str

    @property
    def seen(self) -> Observed:
        return Observed(self.admin)


@dataclass
class AwsSite:
    aws: LocalAws
    kubeconfig: Path
    grounds: Mapping[str, Ground]
    server: ApiServer | None
    """Where the clusters are embedded."""
    done: set[str] = field(default_factory=set)
    """Steps that need not be taken again."""
    mapping: str = "aws-auth"
    """How the hub has EKS learn whom roles are."""

    @property
    def hub(self) -> Ground:
        return self.grounds[HUB]

    async def admin(self, account: str = HUB_ACCOUNT) -> Botocore:
        return Botocore(self.aws, await self.aws.administrator(account))

    async def run(self, context: str, *words: str, identity: AwsCredentials | None = None, user: str = "") -> Result:
        """`clusteradm` in a thread, with a loop and variables of its own."""
        line = ["--kubeconfig", str(self.kubeconfig), "--context", f"{user}@{context}" if user else context]
        variables = dict.fromkeys(("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SESSION_TOKEN"))
        told = {**variables, **self.aws.environ(REGION, identity)}
        return await asyncio.to_thread(CliRunner().invoke, main, [*line, "--timeout", str(SECONDS), *words], env=told)

    async def ok(self, context: str, *words: str, identity: AwsCredentials | None = None) -> str:
        done = await self.run(context, *words, identity=identity)
        assert done.exit_code == 0, f"{words}: {done.output}"
        return done.stdout

    async def fails(self, context: str, *words: str, identity: AwsCredentials | None = None, user: str = "") -> str:
        done = await self.run(context, *words, identity=identity, user=user)
        assert done.exit_code == 1, f"{words}: {done.exit_code}: {done.output}"
        assert "Traceback" not in done.output
        return done.stdout + done.stderr

    async def roles(self, account: str = HUB_ACCOUNT) -> set[str]:
        return {role["RoleName"] for role in (await (await self.admin(account)).iam("list_roles"))["Roles"]}

    def forget_tokens(self) -> None:
        """What API servers remember of tokens; a real one is told by a flag to remember nothing."""
        if self.server is not None:
            for name in filter(is_hub, self.grounds):
                self.server.clusters[name].part(Access).invalidate_tokens()


@asynccontextmanager
async def open_aws_site(directory: Path, *others: str) -> AsyncIterator[AwsSite]:
    """A hub, and others: more hubs are called so."""
    names = (HUB, *others)
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(local_aws(directory / "aws"))
        begin = _real if KUBE else _embedded
        site = await stack.enter_async_context(begin(directory, aws, names))
        for ground in site.grounds.values():
            await ground.admin.create(CLUSTER_ROLE_BINDINGS, _published())
            description = ClusterDescription(str(arn(ground.name)), ground.url, ground.ca, "API_AND_CONFIG_MAP", ground.issuer)
            await aws.register_cluster(description)
            await aws.trust_issuer(arn(ground.name).account, ground.issuer)
        for name in filter(is_hub, names):
            watch = aws.watch_aws_auth(str(arn(name)), site.grounds[name].admin)
            await stack.enter_async_context(running(watch.run()))
            await watch.synced()
        yield site


def _settings(aws: LocalAws) -> NodeSettings:
    return NodeSettings({ENDPOINT_URL: aws.url, CA_BUNDLE: CA}, {CA: aws.ca_pem}, (("127.0.0.1", aws.port),))


def _published() -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "published"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:unauthenticated"}],
    }


@asynccontextmanager
async def _embedded(directory: Path, aws: LocalAws, names: Sequence[str]) -> AsyncIterator[AwsSite]:
    people = {user.token: UserInfo(user.name, groups=(*user.groups, "system:authenticated")) for user in USERS.values()}
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=tuple(names), static_tokens=people))
    await server.start()
    try:
        tls = ssl.create_default_context(cadata=aws.ca_pem.decode())
        for name in filter(is_hub, names):
            await server.set_token_webhook(name, WebhookTarget(aws.webhook_url(str(arn(name))), tls))
        nodes = NodeRuntime(
            server, programs(), directory / "nodes", plugins=credential_programs(), settings=_settings(aws), grace=1.0
        )
        for name in names:
            nodes.attach(name)
        grounds = {name: _embedded_ground(server, name) for name in names}
        kubeconfig = directory / "kubeconfig"
        (directory / "ca.crt").write_bytes(server.ca_pem)
        places = {name: Cluster(name, one.url, directory / "ca.crt", kubeconfig) for name, one in grounds.items()}
        write_contexts(kubeconfig, places, ("alice",))
        async with running(nodes.run()):
            yield AwsSite(aws, kubeconfig, grounds, server)
    finally:
        await server.stop(grace=0.1)


def _embedded_ground(server: ApiServer, name: str) -> Ground:
    admin = InProcessClient(server.client(server.clusters[name], agent="test"), name)
    return Ground(name, admin, server.cluster_url(name), server.ca_pem, server.cluster_url(name))


@asynccontextmanager
async def _real(directory: Path, aws: LocalAws, names: Sequence[str]) -> AsyncIterator[AwsSite]:
    async with AsyncExitStack() as stack:
        planes = {}
        for name in names:
            flags = _judged(directory / f"{name}.webhook", aws, name) if is_hub(name) else []
            options = KubeOptions(fsync=False, pods=True, node=(), issuer=f"https://{name}.example", apiserver_flags=flags)
            planes[name] = KubePlane(directory / name, options)
            stack.push_async_callback(asyncio.to_thread, planes[name].stop, kill=True)
        await asyncio.gather(*(asyncio.to_thread(plane.start) for plane in planes.values()))
        grounds = {}
        for name, plane in planes.items():
            admin = HttpClient(load_kubeconfig(plane.kubeconfig, environ={}))
            stack.push_async_callback(admin.close)
            grounds[name] = Ground(name, admin, plane.url, plane.ca.read_bytes(), plane.options.issuer)
            node = RemoteNode(
                admin,
                plane.url,
                programs(),
                directory / name / "node",
                name=f"{name}-node",
                plugins=credential_programs(),
                settings=_settings(aws),
                grace=1.0,
            )
            await stack.enter_async_context(running(node.run()))
        kubeconfig = directory / "kubeconfig"
        write_contexts(kubeconfig, {name: plane.cluster for name, plane in planes.items()}, ("alice",))
        yield AwsSite(aws, kubeconfig, grounds, None)


def _judged(webhook: Path, aws: LocalAws, hub: str) -> list[str]:
    """Flags of an API server that has its tokens judged."""
    assert aws.ca_file is not None
    webhook.write_bytes(aws.webhook_kubeconfig(str(arn(hub)), aws.ca_file))
    return [f"--authentication-token-webhook-config-file={webhook}", "--authentication-token-webhook-cache-ttl=0s"]
