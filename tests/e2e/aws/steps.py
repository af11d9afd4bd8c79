"""People's steps towards clusters that register by AWS identities, and what can be seen of it: shared by the stories.

A site is shared by the tests of a file. Every test says what it needs (`joined`, `accepted`), which is done unless it was done
before; so each may run alone, and all together take each step once. People's steps are `clusteradm`'s, each with the AWS identity
that a person would have.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from muster.aws import policies
from muster.aws.interfaces import AwsCredentials
from muster.aws.tokens import make_token
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import AuthInfo, ClientConfig
from muster.runtime.client.builtin import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, SIGNING_REQUESTS
from muster.runtime.client.errors import Forbidden, Unauthorized
from muster.runtime.client.http import HttpClient
from muster.work.kinds import MANIFEST_WORKS
from tests.support.aws_site import HUB, HUB_ACCOUNT, MANAGED_ACCOUNT, SECONDS, AwsSite, arn, pair
from tests.support.local_aws import REGION, Botocore, credentials_in

AGENTS = "open-cluster-management-agent"
HUB_NAMESPACE = "open-cluster-management-hub"
SESSION_SECONDS = 5
"""All that is told in the stories happens in sessions as short as that."""


# People's steps


async def initialized(site: AwsSite, hub: str = HUB, *flags: str) -> str:
    """A hub that takes both ways to register: what `init` printed."""
    said = site.kubeconfig.parent / f"init-{hub}"
    if hub not in site.done:
        own = ("--hub-cluster-arn", str(arn(hub)), "--oidc-provider", site.grounds[hub].issuer, "--apply")
        await site.ok(hub, "aws", "prerequisites", "hub", *own, identity=await site.aws.administrator(HUB_ACCOUNT))
        said.write_text(await init(site, hub, *flags))
        site.done.add(hub)
    return said.read_text()


async def init(site: AwsSite, hub: str = HUB, *flags: str) -> str:
    drivers = ("--registration-drivers", "aws-irsa,csr", "--eks-hub-cluster-arn", str(arn(hub)))
    return await site.ok(hub, "init", *drivers, *flags, "--wait")


async def hub_token(site: AwsSite, hub: str = HUB) -> dict[str, str]:
    told: dict[str, str] = json.loads(await site.ok(hub, "get", "token", "-o", "json"))
    return told


async def join_words(site: AwsSite, cluster: str) -> list[str]:
    await initialized(site)
    told = await hub_token(site)
    words = ["join", *(word for key, value in told.items() for word in (f"--{key}", value)), "--cluster-name", cluster]
    return words if cluster == "plain" else [*words, "--registration-auth=aws-irsa", "--eks-hub-cluster-arn", str(arn(HUB))]


async def managed_role(site: AwsSite, cluster: str, hub: str = HUB, *words: str) -> None:
    arns = ("--hub-cluster-arn", str(arn(hub)), "--managed-cluster-arn", str(arn(cluster)))
    issuer = ("--oidc-provider", site.grounds[cluster].issuer)
    identity = await site.aws.administrator(MANAGED_ACCOUNT)
    await site.ok(cluster, "aws", "prerequisites", "managed", *arns, *issuer, *words, "--apply", identity=identity)


async def joined(site: AwsSite, cluster: str, *, role: bool = True) -> None:
    """It waits to be let in."""
    if cluster in site.done:
        return
    words = await join_words(site, cluster)
    if cluster != "plain":
        words += ["--eks-managed-cluster-arn", str(arn(cluster))]
        if role:
            await managed_role(site, cluster)
    await site.ok(cluster, *words, "--wait")
    site.done.add(cluster)


async def accepted(site: AwsSite, cluster: str) -> None:
    await joined(site, cluster)
    await site.ok(HUB, "accept", "--clusters", cluster, "--wait", identity=await site.aws.administrator(HUB_ACCOUNT))


async def managed_cluster(site: AwsSite, name: str) -> dict[str, Any]:
    return dict(await site.hub.admin.get(MANAGED_CLUSTERS, name))


async def mapped(site: AwsSite, hub: str = HUB) -> dict[str, dict[str, Any]]:
    """What aws-auth says, by cluster's role."""
    found = await site.grounds[hub].seen.find(CONFIG_MAPS, "aws-auth", "kube-system") or {}
    entries = yaml.safe_load((found.get("data") or {}).get("mapRoles") or "[]")
    return {one["rolearn"]: one for one in entries}


async def until_revoked(site: AwsSite, cluster: str, hub: str = HUB) -> None:
    own, ground = pair(cluster, hub), site.grounds[hub]

    async def gone() -> bool:
        on_record = await ground.seen.find(CONFIG_MAPS, own.hub_role, HUB_NAMESPACE)
        return on_record is None and own.hub_role not in await site.roles() and own.hub_role_arn not in await mapped(site, hub)

    await ground.seen.until(gone, f"nothing of {cluster} is left on AWS", SECONDS)


async def hub_secret(site: AwsSite, cluster: str) -> dict[str, Any] | None:
    return await site.grounds[cluster].seen.find(SECRETS, "hub-kubeconfig-secret", AGENTS)


# An agent's identity, for whoever holds its account


async def own_role(site: AwsSite, cluster: str, account: str = "klusterlet-registration-sa") -> Botocore:
    """As the cluster's own role."""
    spec = {"audiences": [policies.AUDIENCE], "expirationSeconds": 3600}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    admin = site.grounds[cluster].admin
    made = await admin.create(SERVICE_ACCOUNTS, request, AGENTS, name=account, subresource="token")
    wanted = {"RoleArn": pair(cluster).managed_role_arn, "RoleSessionName": "test", "WebIdentityToken": made["status"]["token"]}
    return Botocore(site.aws, credentials_in(await Botocore(site.aws, None).sts("assume_role_with_web_identity", **wanted)))


async def agent_token(site: AwsSite, cluster: str) -> str:
    credentials = (await (await own_role(site, cluster)).assume(pair(cluster).hub_role_arn)).credentials
    assert isinstance(credentials, AwsCredentials)
    return make_token(credentials, REGION, HUB, datetime.now(UTC), site.aws.url).text


@asynccontextmanager
async def as_agent(site: AwsSite, token: str) -> AsyncIterator[HttpClient]:
    client = HttpClient(ClientConfig(site.hub.url, site.hub.ca, identity=AuthInfo(token=token)))
    try:
        yield client
    finally:
        await client.close()


async def is_nobody(site: AwsSite, agent: HttpClient) -> bool:
    """A real server believes for some seconds what it was told of a token."""
    site.forget_tokens()
    try:
        await agent.get(MANAGED_CLUSTERS, "managed-0")
    except Unauthorized:
        return True
    return False


async def refused(call: Awaitable[Any]) -> str:
    with pytest.raises(Forbidden) as caught:
        await call
    return str(caught.value)


# What can be seen


async def no_requests(site: AwsSite, cluster: str) -> bool:
    selector = f"open-cluster-management.io/cluster-name={cluster}"
    return not (await site.hub.admin.list(SIGNING_REQUESTS, label_selector=selector)).items


class Work:
    def __init__(self, site: AwsSite, cluster: str, name: str, hub: str) -> None:
        self._hub, self._ground = site.grounds[hub], site.grounds[cluster]
        self._cluster, self._name = cluster, name

    async def until_gone_on_cluster(self) -> None:
        await self._hub.admin.delete(MANIFEST_WORKS, self._name, self._cluster)
        await self._hub.seen.until_gone(MANIFEST_WORKS, self._name, self._cluster, SECONDS)
        assert await self._ground.seen.find(CONFIG_MAPS, self._name, "default") is None


async def applied_work(site: AwsSite, cluster: str, name: str, hub: str = HUB, data: Mapping[str, str] | None = None) -> Work:
    """One that has come to the cluster."""
    await apply_work(site, cluster, name, data or {}, hub)
    ground = site.grounds[cluster]

    async def there() -> bool:
        found = await ground.seen.find(CONFIG_MAPS, name, "default")
        return found is not None and (found.get("data") or {}) == (data or {})

    await ground.seen.until(there, f"{name} is on {cluster}", SECONDS)
    return Work(site, cluster, name, hub)


async def apply_work(site: AwsSite, cluster: str, name: str, data: Mapping[str, str], hub: str = HUB) -> None:
    metadata = {"name": name, "namespace": "default"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
    work = {"metadata": {"name": name, "namespace": cluster}, "spec": {"workload": {"manifests": [manifest]}}}
    await site.grounds[hub].admin.apply(MANIFEST_WORKS, work, manager="test")
