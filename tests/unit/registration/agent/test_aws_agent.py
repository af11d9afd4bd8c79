"""An agent in a pod of its own, a hub that has tokens judged, and an AWS: everything real but the acts of the hub's controllers.

Sessions last for seconds, as long as real ones would for days: nothing is restarted, and the Secret stays as it was written.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.apiserver.auth.tokenwebhook import load_webhook_config
from muster.apiserver.server import ApiServer, ServerConfig
from muster.aws.arns import parse_cluster_arn
from muster.aws.client import AwsClient, Threads
from muster.aws.identity import FixedCredentials
from muster.aws.interfaces import AccessEntry, ClusterDescription
from muster.aws.policies import ACCESS_POLICY, hub_trust, managed_access, web_identity_trust
from muster.aws.process_env import ProcessEnv
from muster.aws.role_names import RoleNames
from muster.cli.aws_token import credential_programs
from muster.embedded.in_process import InProcessClient
from muster.fleet.aws import LocalAws
from muster.kube import yaml
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.machinery.confinement import Confinement, confined
from muster.registration.agent.agent import Agent
from muster.registration.agent.install import install
from muster.registration.agent.options import AgentOptions
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import SECRETS
from muster.runtime.install import ensure_namespace
from tests.support.agents import agent_running
from tests.support.https_server import HttpsServer
from tests.support.local_aws import MovedClock, local_aws
from tests.unit.fleet.aws.test_web_identity import SUBJECT, Issuer
from tests.unit.registration.agent.conftest import GROUP, RULES_REGISTRATION, Hub, rule, until

PAIR = RoleNames(
    parse_cluster_arn("arn:aws:eks:us-west-2:111111111111:cluster/hub-0"),
    parse_cluster_arn("arn:aws:eks:eu-west-1:222222222222:cluster/managed-0"),
)
NAME = "open-cluster-management:c1"
TOKEN = "/var/run/secrets/eks.amazonaws.com/serviceaccount"


class Anywhere:
    """A network of which everything may be dialled."""

    def may_dial(self, name: str, address: Any, port: int) -> bool:
        return True

    def remedy(self, name: str, port: int) -> str:
        return ""

    def opened(self, address: str, port: int) -> None:
        return None

    def closed(self, address: str, port: int) -> None:
        return None


class EksHub(Hub):
    """Gives its rights to the group of the access entry."""

    async def grant(self, name: str = "c1") -> None:
        group = {"kind": "Group", "name": NAME}
        own = [
            rule(GROUP, ["managedclusters"], ["get", "list", "update", "watch"], [name]),
            rule(GROUP, ["managedclusters/status"], ["patch", "update"], [name]),
        ]
        await ensure_namespace(self.admin, name)
        await self.role(f"open-cluster-management:managedcluster:{name}", own, group)
        await self.role(f"registration:{name}", RULES_REGISTRATION, group, name)


class Site:
    def __init__(self, aws: LocalAws, server: ApiServer, directory: Path, issuer: Issuer) -> None:
        self.aws = aws
        self.server = server
        self.directory = directory
        self.issuer = issuer
        self.hub = EksHub(server, "hub", SYSTEM)  # type: ignore[arg-type]
        self.spoke = InProcessClient(server.client(server.clusters["c1"]))
        self.threads = Threads(2)
        (directory / "token").mkdir()
        self.renew_token()

    def renew_token(self) -> None:
        (self.directory / "token" / "token").write_text(self.issuer.token())

    @property
    def endpoint(self) -> dict[str, str]:
        assert self.aws.ca_file is not None
        return {"AWS_ENDPOINT_URL": self.aws.url, "AWS_CA_BUNDLE": f"/aws/{self.aws.ca_file.name}"}

    async def administrator(self, account: str) -> AwsClient:
        environ = {"AWS_ENDPOINT_URL": self.aws.url, "AWS_CA_BUNDLE": str(self.aws.ca_file)}
        keys = FixedCredentials(await self.aws.administrator(account))
        return AwsClient("us-west-2", ProcessEnv(environ), keys, threads=self.threads)

    async def make_managed_role(self) -> None:
        managed = await self.administrator(PAIR.managed.account)
        trust = web_identity_trust(PAIR.managed, self.issuer.url.removeprefix("https://"), [SUBJECT])
        await managed.create_role(PAIR.managed_role, trust, PAIR.tags)
        await managed.put_role_policy(PAIR.managed_role, ACCESS_POLICY, managed_access(PAIR))

    async def make_hub_role(self) -> None:
        hub = await self.administrator(PAIR.hub.account)
        await hub.create_role(PAIR.hub_role, hub_trust(PAIR), {})
        await hub.create_access_entry("hub-0", AccessEntry(PAIR.hub_role_arn, NAME, (NAME,)))

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """As a node would run it."""
        assert self.aws.ca_file is not None
        variables = {
            **self.endpoint,
            "AWS_REGION": "eu-west-1",
            "AWS_ROLE_ARN": PAIR.managed_role_arn,
            "AWS_WEB_IDENTITY_TOKEN_FILE": f"{TOKEN}/token",
        }
        pod = Confinement(
            pod="open-cluster-management-agent/agent",
            ip="127.1.2.3",
            environ=variables,
            mounts={TOKEN: self.directory / "token", "/aws": self.aws.ca_file.parent},
            scratch=self.directory / "scratch",
            network=Anywhere(),
            plugins=credential_programs(),
        )
        arns = {"hub-cluster-arn": [str(PAIR.hub)], "managed-cluster-arn": [str(PAIR.managed)]}
        options = AgentOptions(cluster_name="c1", driver="awsirsa", driver_options=arns)
        async with AsyncExitStack() as stack:
            with confined(pod):
                agent = await stack.enter_async_context(agent_running(Agent(self.spoke, options)))
            yield agent

    async def secret(self) -> Any:
        return await self.spoke.get(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    issuer = Issuer(MovedClock())
    with HttpsServer(issuer.serve) as keys:
        issuer.url = f"{keys.url}/clusters/c1"
        async with local_aws(tmp_path / "aws") as aws:
            people = {"bootstrap-token": UserInfo("bootstrap", groups=("system:authenticated",))}
            server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=("hub", "c1"), static_tokens=people))
            await server.start()
            try:
                await aws.register_cluster(ClusterDescription(str(PAIR.managed), issuer.url, keys.ca, "API", issuer.url))
                await aws.register_cluster(ClusterDescription(str(PAIR.hub), "https://hub", keys.ca, "API", "https://hub"))
                await aws.trust_issuer(PAIR.managed.account, issuer.url)
                webhook = tmp_path / "webhook.kubeconfig"
                assert aws.ca_file is not None
                webhook.write_bytes(aws.webhook_kubeconfig(str(PAIR.hub), aws.ca_file))
                await server.set_token_webhook("hub", load_webhook_config(webhook))
                made = Site(aws, server, tmp_path, issuer)
                await made.hub.prepare()
                await install(made.spoke, AgentOptions())
                await _give_bootstrap(made)
                yield made
                made.threads.close()
            finally:
                await server.stop(grace=0.1)


async def _give_bootstrap(site: Site) -> None:
    authority = base64.b64encode(site.server.ca_pem).decode()
    location = {"server": site.server.cluster_url("hub"), "certificate-authority-data": authority}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": location}],
        "users": [{"name": "bootstrap", "user": {"token": "bootstrap-token"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "bootstrap"}}],
        "current-context": "hub",
    }
    secret = {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": AGENT_NAMESPACE}}
    await site.spoke.apply(SECRETS, {**secret, "stringData": {"kubeconfig": yaml.dump(document)}}, manager="administrator")


async def test_sessions_of_seconds_cost_no_restart_and_no_write(site: Site) -> None:
    site.aws.behaviour.longest_session = 3
    await site.make_managed_role()
    async with site.agent() as agent:
        await until(site.hub.cluster, "the ManagedCluster")
        await site.make_hub_role()
        await site.hub.accept(lease_seconds=1)
        await until(site.hub.available, "the cluster being available")
        before = await site.secret()
        calls, lease = site.aws.calls.count("sts:AssumeRole"), await site.hub.renewed()
        await until(lambda: site.aws.calls.count("sts:AssumeRole") >= calls + 2, "two more sessions")
        await until(lambda: _renewed_since(site, lease), "a lease that is renewed with them")
        assert agent.state.phase == "serving"
        assert agent.unhealthy() is None
    assert await site.secret() == before


async def _renewed_since(site: Site, before: str) -> bool:
    return await site.hub.renewed() > before


async def test_what_aws_does_not_show_yet_is_waited_for_and_the_hub_is_asked_little(site: Site) -> None:
    async with site.agent() as agent:
        await until(site.hub.cluster, "the ManagedCluster")
        await site.hub.accept()
        await until(lambda: agent.state.phase == "serving", "serving")
        before = await site.secret()
        await until(lambda: site.aws.calls.count("sts:AssumeRoleWithWebIdentity"), "a try")
        await site.make_managed_role()
        await site.make_hub_role()
        await until(site.hub.available, "the cluster being available")
        assert site.aws.calls.count("sts:AssumeRoleWithWebIdentity") < 8
    assert await site.secret() == before
