"""An API server that has its tokens judged by the local AWS, as EKS' does: by the flag that names a webhook's kubeconfig.

The cluster is managed and hub at once: its service account becomes a role by the keys that it publishes, that role another one in
the hub's account, and that one a user of the cluster, by an access entry or by `aws-auth`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.aws.arns import parse_cluster_arn
from muster.aws.interfaces import AwsCredentials, ClusterDescription
from muster.aws.policies import AUDIENCE
from muster.aws.role_names import RoleNames
from muster.aws.tokens import make_token
from muster.fleet.aws import LocalAws
from muster.runtime.client import load_kubeconfig
from muster.runtime.client.http import HttpClient
from tests.support.client import Client
from tests.support.local_aws import REGION, Botocore, credentials_in, local_aws, make_hub_role, make_managed_role
from tests.support.planes import ControlPlane, EmbeddedPlane, KubeOptions, KubePlane

HUB, MANAGED = "111111111111", "222222222222"
PAIR = RoleNames(
    parse_cluster_arn(f"arn:aws:eks:{REGION}:{HUB}:cluster/hub-0"),
    parse_cluster_arn(f"arn:aws:eks:{REGION}:{MANAGED}:cluster/managed-0"),
)
AGENT = "system:serviceaccount:default:agent"
USER = "open-cluster-management:managed-0"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RBAC = "rbac.authorization.k8s.io"


def judged_plane(directory: Path, webhook: Path) -> ControlPlane:
    if os.environ.get("MUSTER_E2E") == "kube":
        flags = [f"--authentication-token-webhook-config-file={webhook}", "--authentication-token-webhook-cache-ttl=0s"]
        return KubePlane(directory, KubeOptions(fsync=False, apiserver_flags=flags))
    return EmbeddedPlane(directory, (), flags=["--token-webhook-config", f"default={webhook}"])


@dataclass
class Stage:
    aws: LocalAws
    plane: ControlPlane

    async def ask(self, client: Client, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(getattr(client, method), path, *([] if body is None else [body]))

    async def describe(self, mode: str) -> None:
        for cluster, issuer in ((PAIR.hub, ""), (PAIR.managed, await self.issuer())):
            await self.aws.register_cluster(
                ClusterDescription(str(cluster), self.plane.url, self.plane.ca.read_bytes(), mode, issuer)
            )

    async def issuer(self) -> str:
        found = await self.ask(self.plane.client(), "get", "/.well-known/openid-configuration")
        return str(found.expect(200)["issuer"])

    async def session(self) -> AwsCredentials:
        """The agent's role in the hub's account, by its service account's token."""
        request = {"spec": {"audiences": [AUDIENCE], "expirationSeconds": 3600}}
        path = "/api/v1/namespaces/default/serviceaccounts/agent/token"
        made = (await self.ask(self.plane.client(), "post", path, request)).expect(201)
        wanted = {"RoleArn": PAIR.managed_role_arn, "RoleSessionName": "agent", "WebIdentityToken": made["status"]["token"]}
        answer = await Botocore(self.aws, None).sts("assume_role_with_web_identity", **wanted)
        found = (await Botocore(self.aws, credentials_in(answer)).assume(PAIR.hub_role_arn)).credentials
        assert found is not None
        return found

    async def user(self, cluster: str = "hub-0") -> dict[str, Any] | None:
        """Who the server takes the holder of a new token for; None: nobody. New, because answers are kept for a while."""
        token = make_token(await self.session(), REGION, cluster, datetime.now(UTC), self.aws.url).text
        answer = await self.ask(Client(self.plane.url, ca=self.plane.ca, token=token), "post", WHO, {})
        assert answer.status in (201, 401), answer
        return dict(answer.json["status"]["userInfo"]) if answer.status == 201 else None


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(local_aws(tmp_path / "aws"))
        assert aws.ca_file is not None
        webhook = tmp_path / "webhook.kubeconfig"
        webhook.write_bytes(aws.webhook_kubeconfig(str(PAIR.hub), aws.ca_file))
        plane = judged_plane(tmp_path / "plane", webhook)
        stack.push_async_callback(asyncio.to_thread, plane.stop, kill=True)
        await asyncio.to_thread(plane.start)
        stage = Stage(aws, plane)
        admin = plane.client()
        await stage.ask(admin, "post", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "agent"}})
        published = {
            "metadata": {"name": "published"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:unauthenticated"}],
        }
        (await stage.ask(admin, "post", f"/apis/{RBAC}/v1/clusterrolebindings", published)).expect(201)
        await stage.describe("API_AND_CONFIG_MAP")
        issuer = await stage.issuer()
        await aws.trust_issuer(MANAGED, issuer)
        await make_managed_role(aws, PAIR, issuer, [AGENT])
        await make_hub_role(aws, PAIR)
        yield stage


async def test_an_iam_role_is_a_user_by_its_access_entry(stage: Stage) -> None:
    assert await stage.user() is None
    admin = Botocore(stage.aws, await stage.aws.administrator(HUB))
    entry = {"clusterName": "hub-0", "principalArn": PAIR.hub_role_arn}
    await admin.eks("create_access_entry", **entry, username=USER, kubernetesGroups=[USER])
    user = await stage.user()
    assert user is not None
    assert (user["username"], user["groups"]) == (USER, [USER, "system:authenticated"])
    assert user["extra"]["canonicalArn"] == [PAIR.hub_role_arn]
    assert await stage.user("hub-1") is None
    await admin.eks("delete_access_entry", **entry)
    assert await stage.user() is None


async def test_an_iam_role_is_a_user_by_aws_auth(stage: Stage) -> None:
    await stage.describe("CONFIG_MAP")
    client = HttpClient(load_kubeconfig(stage.plane.kubeconfig))
    watch = stage.aws.watch_aws_auth(str(PAIR.hub), client)
    task = asyncio.ensure_future(watch.run())
    try:
        await watch.synced()
        assert await stage.user() is None
        text = f"- rolearn: {PAIR.hub_role_arn}\n  username: {USER}\n  groups: [system:{USER}]\n"
        path = "/api/v1/namespaces/kube-system/configmaps"
        admin = stage.plane.client()
        (await stage.ask(admin, "post", path, {"metadata": {"name": "aws-auth"}, "data": {"mapRoles": text}})).expect(201)
        user = await until(stage, mapped=True)
        assert user is not None
        assert user["groups"] == [f"system:{USER}", "system:authenticated"]
        (await stage.ask(admin, "delete", f"{path}/aws-auth")).expect(200)
        assert await until(stage, mapped=False) is None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def until(stage: Stage, *, mapped: bool) -> dict[str, Any] | None:
    """The watch has to hear of it."""
    async with asyncio.timeout(20):
        while True:
            user = await stage.user()
            if (user is not None) is mapped:
                return user
            await asyncio.sleep(0.02)
