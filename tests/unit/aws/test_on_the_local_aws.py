"""The client, identities and tokens on an AWS that refuses what AWS would: TLS, signatures, policies on both sides, sessions.

From a service account's token to a token by which the hub's cluster knows the role, with nothing in between that is played.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from muster.aws import errors
from muster.aws.arns import parse_cluster_arn
from muster.aws.client import AwsClient, Threads
from muster.aws.identity import FixedCredentials, connect
from muster.aws.interfaces import AccessEntry, AwsCredentials, ClusterDescription
from muster.aws.policies import ACCESS_POLICY, hub_access, hub_trust, managed_access, web_identity_trust
from muster.aws.process_env import ProcessEnv
from muster.aws.role_names import RoleNames
from muster.aws.token_issuer import TokenIssuer, TokenRequest
from muster.fleet.aws import LocalAws
from tests.support.https_server import HttpsServer
from tests.support.local_aws import MovedClock, local_aws
from tests.unit.fleet.aws.test_web_identity import SUBJECT, Issuer

PAIR = RoleNames(
    parse_cluster_arn("arn:aws:eks:us-west-2:111111111111:cluster/hub-0"),
    parse_cluster_arn("arn:aws:eks:eu-west-1:222222222222:cluster/managed-0"),
)
ENTRY = AccessEntry(PAIR.hub_role_arn, "open-cluster-management:c1", ("open-cluster-management:c1",), {"k": "v"})


@dataclass
class Scene:
    aws: LocalAws
    clock: MovedClock
    issuer: Issuer
    token: Path
    threads: Threads

    def environ(self, region: str) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": self.aws.url, "AWS_CA_BUNDLE": str(self.aws.ca_file), "AWS_REGION": region}

    def client(self, keys: AwsCredentials, region: str) -> AwsClient:
        return AwsClient(region, ProcessEnv(self.environ(region)), FixedCredentials(keys), clock=self.clock, threads=self.threads)

    @property
    def pod(self) -> ProcessEnv:
        identity = {"AWS_ROLE_ARN": PAIR.managed_role_arn, "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.token)}
        return ProcessEnv({**self.environ("eu-west-1"), **identity})

    def issuer_of_tokens(self) -> TokenIssuer:
        return TokenIssuer(self.pod, self.threads, clock=self.clock, random=lambda: 0.0)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock, threads = MovedClock(), Threads(4)
    issuer = Issuer(clock)
    with HttpsServer(issuer.serve) as server:
        issuer.url = f"{server.url}/clusters/managed-0"
        async with local_aws(tmp_path / "aws", clock=clock) as aws:
            await aws.register_cluster(ClusterDescription(str(PAIR.managed), issuer.url, server.ca, "API", issuer.url))
            await aws.register_cluster(ClusterDescription(str(PAIR.hub), "https://hub.example", server.ca, "API", "https://hub"))
            await aws.trust_issuer(PAIR.managed.account, issuer.url)
            file = tmp_path / "token"
            file.write_text(issuer.token())
            yield Scene(aws, clock, issuer, file, threads)
    threads.close()


async def prepared(scene: Scene) -> tuple[AwsClient, AwsClient]:
    """The administrators of both accounts, after the managed cluster's role was made."""
    managed = scene.client(await scene.aws.administrator(PAIR.managed.account), "eu-west-1")
    hub = scene.client(await scene.aws.administrator(PAIR.hub.account), "us-west-2")
    trust = web_identity_trust(PAIR.managed, scene.issuer.url.removeprefix("https://"), [SUBJECT])
    await managed.create_role(PAIR.managed_role, trust, PAIR.tags)
    await managed.put_role_policy(PAIR.managed_role, ACCESS_POLICY, managed_access(PAIR))
    return managed, hub


async def test_every_call_of_the_client_is_taken_by_a_server_that_verifies(scene: Scene) -> None:
    _, hub = await prepared(scene)
    made = await hub.create_role(PAIR.hub_role, hub_trust(PAIR), {"user": "tag"}, "for c1")
    assert (made.arn, made.trust) == (PAIR.hub_role_arn, hub_trust(PAIR))
    with pytest.raises(errors.AlreadyExists):
        await hub.create_role(PAIR.hub_role, hub_trust(PAIR), {})
    await hub.tag_role(PAIR.hub_role, {"more": "of = all / kinds"})
    assert (await hub.get_role(PAIR.hub_role)).tags == {"user": "tag", "more": "of = all / kinds"}
    assert [one.name for one in await hub.list_roles()] == [PAIR.hub_role]
    await hub.update_trust(PAIR.hub_role, hub_trust(PAIR))
    await hub.put_role_policy(PAIR.hub_role, ACCESS_POLICY, hub_access(PAIR.hub))
    assert await hub.get_role_policy(PAIR.hub_role, ACCESS_POLICY) == hub_access(PAIR.hub)
    assert list(await hub.list_role_policies(PAIR.hub_role)) == [ACCESS_POLICY]
    assert list(await hub.list_attached_role_policies(PAIR.hub_role)) == []
    with pytest.raises(errors.Conflict):
        await hub.delete_role(PAIR.hub_role)
    described = await hub.describe_cluster("hub-0")
    assert (described.arn, described.authentication_mode) == (str(PAIR.hub), "API")
    await hub.create_access_entry("hub-0", ENTRY)
    with pytest.raises(errors.AlreadyExists):
        await hub.create_access_entry("hub-0", ENTRY)
    assert await hub.describe_access_entry("hub-0", ENTRY.principal_arn) == ENTRY
    await hub.update_access_entry("hub-0", AccessEntry(ENTRY.principal_arn, "u", ("g",)))
    assert (await hub.describe_access_entry("hub-0", ENTRY.principal_arn)).groups == ("g",)
    await hub.delete_access_entry("hub-0", ENTRY.principal_arn)
    with pytest.raises(errors.NotFound):
        await hub.describe_access_entry("hub-0", ENTRY.principal_arn)
    await hub.delete_role_policy(PAIR.hub_role, ACCESS_POLICY)
    await hub.delete_role(PAIR.hub_role)
    with pytest.raises(errors.NotFound):
        await hub.get_role(PAIR.hub_role)
    with pytest.raises(errors.Malformed):
        await hub.create_role("ocm-hub-x", hub_trust(RoleNames(PAIR.managed, PAIR.hub)), {})


async def test_from_a_pods_token_to_one_that_the_hub_knows_with_sessions_of_seconds(scene: Scene) -> None:
    _, hub = await prepared(scene)
    await hub.create_role(PAIR.hub_role, hub_trust(PAIR), {})
    await hub.create_access_entry("hub-0", ENTRY)
    scene.aws.behaviour.longest_session = 30
    tokens, wanted = scene.issuer_of_tokens(), TokenRequest("us-west-2", "hub-0", PAIR.hub_role_arn)
    for _ in range(5):
        token = await tokens.issue(wanted)
        assert await username(scene, token.text) == "open-cluster-management:c1"
        scene.clock.offset += timedelta(seconds=10)
    assert scene.aws.calls.count("sts:AssumeRole") == 2
    scene.clock.offset += timedelta(minutes=9)
    scene.token.write_text(scene.issuer.token())
    token = await tokens.issue(wanted)
    assert await username(scene, token.text) == "open-cluster-management:c1"
    assert await username(scene, (await tokens.issue(TokenRequest("us-west-2", "hub-1", PAIR.hub_role_arn))).text) == ""


async def username(scene: Scene, token: str) -> str:
    """Whom the hub's token webhook takes it for; empty where it refuses."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    asked = Request(scene.aws.webhook_url(str(PAIR.hub)), json.dumps(review).encode(), {"Content-Type": "application/json"})
    context = ssl.create_default_context(cafile=str(scene.aws.ca_file))

    def ask() -> bytes:
        try:
            with urlopen(asked, context=context, timeout=20) as answer:
                return bytes(answer.read())
        except HTTPError as refusal:
            return bytes(refusal.read())

    status = json.loads(await asyncio.to_thread(ask))["status"]
    return str(status["user"]["username"]) if status.get("authenticated") else ""


async def test_a_role_that_the_hub_has_not_made_is_refused_and_found_once_it_has(scene: Scene) -> None:
    _, hub = await prepared(scene)
    tokens, wanted = scene.issuer_of_tokens(), TokenRequest("us-west-2", "hub-0", PAIR.hub_role_arn)
    for _ in range(3):
        with pytest.raises(errors.AccessDenied):
            await tokens.issue(wanted)
    assert scene.aws.calls.count("sts:AssumeRole") == 1
    await hub.create_role(PAIR.hub_role, hub_trust(PAIR), {})
    scene.clock.offset += timedelta(seconds=2)
    await tokens.issue(wanted)


async def test_who_one_is_is_asked_of_aws_itself(scene: Scene) -> None:
    await prepared(scene)
    client = connect(scene.pod, clock=scene.clock)
    try:
        who = await client.caller_identity()
    finally:
        await client.close()
    assert (who.account, who.arn) == ("222222222222", f"arn:aws:sts::222222222222:assumed-role/{PAIR.managed_role}/muster")


async def test_faults_are_what_they_are_and_wrong_keys_are_no_identity(scene: Scene) -> None:
    keys = await scene.aws.administrator(PAIR.hub.account)
    wrong = AwsCredentials(keys.access_key_id, keys.secret_access_key + "x")
    with pytest.raises(errors.NoIdentity):
        await scene.client(wrong, "us-west-2").caller_identity()
    untrusting = ProcessEnv({"AWS_ENDPOINT_URL": scene.aws.url})
    with pytest.raises(errors.Unavailable, match=r"127\.0\.0\.1"):
        await AwsClient("us-west-2", untrusting, FixedCredentials(keys), threads=scene.threads).caller_identity()
