"""The seed's way from a service account to a user of the hub, all of it: web identity → managed role → hub role → token → review.

Then the attacks of whoever has some of this and wants more, on the way into the hub's account; those with tokens are in
`test_token_attacks.py`.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from muster.aws import policies
from muster.aws.client import Threads
from muster.aws.process_env import ROLE_ARN, TOKEN_FILE, ProcessEnv
from muster.aws.role_names import RoleNames
from muster.aws.token_issuer import TokenIssuer, TokenRequest
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from tests.support.local_aws import REGION, Botocore, credentials_in, make_managed_role
from tests.unit.fleet.aws.registration_stage import AGENTS, GROUP, HUB, MANAGED, NAMESPACE, Stage, arn, until


def mapping(pair: RoleNames) -> dict[str, Any]:
    text = f"- rolearn: {pair.hub_role_arn}\n  username: {GROUP}\n  groups: [system:{GROUP}]\n"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "aws-auth", "namespace": "kube-system"},
        "data": {"mapRoles": text},
    }


async def test_an_agent_is_a_user_of_the_hub_by_its_access_entry(stage: Stage) -> None:
    await stage.map_by_entry()
    user = await stage.user(await stage.token())
    assert user["username"] == GROUP
    assert user["groups"] == [GROUP, "system:authenticated"]
    role_id = (await Botocore(stage.aws, await stage.aws.administrator(HUB)).iam("get_role", RoleName=stage.pair.hub_role))["Role"][
        "RoleId"
    ]
    assert user["uid"] == f"aws-iam-authenticator:{HUB}:{role_id}"
    extra = {name: values[0] for name, values in user["extra"].items()}
    assert extra["arn"] == f"arn:aws:sts::{HUB}:assumed-role/{stage.pair.hub_role}/EKSGetTokenAuth"
    assert extra["canonicalArn"] == stage.pair.hub_role_arn
    assert (extra["sessionName"], extra["principalId"]) == ("EKSGetTokenAuth", role_id)
    assert extra["accessKeyId"].startswith("ASIA")


async def test_an_agent_is_a_user_of_the_hub_by_aws_auth_and_is_not_once_it_is_gone(stage: Stage) -> None:
    await stage.describe("CONFIG_MAP")
    token = await stage.token()
    assert await stage.refused(token)
    await stage.client("hub").create(CONFIG_MAPS, mapping(stage.pair), "kube-system")
    await until(stage, token, refused=False)
    user = await stage.user(token)
    assert (user["username"], user["groups"]) == (GROUP, [f"system:{GROUP}", "system:authenticated"])
    await stage.client("hub").delete(CONFIG_MAPS, "aws-auth", "kube-system")
    await until(stage, token, refused=True)


async def test_our_own_tokens_come_from_a_pods_variables_and_files(stage: Stage, tmp_path: Path) -> None:
    """As `muster aws-token` makes them. A session serves many tokens, and another one follows when it ends."""
    await stage.map_by_entry()
    file = tmp_path / "token"
    file.write_text(await stage.account_token())
    role = {ROLE_ARN: stage.pair.managed_role_arn, TOKEN_FILE: str(file)}
    threads = Threads(2)
    issuer = TokenIssuer(ProcessEnv({**stage.aws.environ(REGION), **role}), threads, clock=stage.clock)
    request = TokenRequest(REGION, "hub-0", stage.pair.hub_role_arn)
    stage.aws.calls.clear()
    try:
        for _ in range(3):
            assert (await stage.aws.user_of(str(stage.pair.hub), (await issuer.issue(request)).text)).name == GROUP
        assert stage.aws.calls.count("sts:AssumeRole") == stage.aws.calls.count("sts:AssumeRoleWithWebIdentity") == 1
        stage.clock.offset = timedelta(minutes=58)
        assert (await stage.aws.user_of(str(stage.pair.hub), (await issuer.issue(request)).text)).name == GROUP
        assert stage.aws.calls.count("sts:AssumeRole") == stage.aws.calls.count("sts:AssumeRoleWithWebIdentity") == 2
        assert {one.result for one in stage.aws.calls} == {"OK"}
    finally:
        threads.close()


async def test_both_agents_come_in_and_no_other_account_does(stage: Stage) -> None:
    assert await (await stage.agent("klusterlet-work-sa")).code("sts", "get_caller_identity") == "OK"
    refused = await Botocore(stage.aws, None).code(
        "sts",
        "assume_role_with_web_identity",
        RoleArn=stage.pair.managed_role_arn,
        RoleSessionName="agent",
        WebIdentityToken=await stage.account_token("other-sa"),
    )
    assert refused == "AccessDenied"


async def test_the_hub_role_describes_the_hub(stage: Stage) -> None:
    hub = Botocore(stage.aws, await stage.session())
    assert (await hub.eks("describe_cluster", name="hub-0"))["cluster"]["arn"] == str(stage.pair.hub)
    assert await hub.code("eks", "list_access_entries", clusterName="hub-0") == "AccessDeniedException"
    assert await hub.code("iam", "get_role", RoleName=stage.pair.hub_role) == "AccessDenied"


# Attacks on the way into the hub's account


async def test_a_wrong_or_missing_tag_is_refused(stage: Stage) -> None:
    admin = Botocore(stage.aws, await stage.aws.administrator(MANAGED))
    agent = await stage.agent()
    role, wanted = stage.pair.managed_role, {"RoleArn": stage.pair.hub_role_arn, "RoleSessionName": "s1"}
    assert len(stage.pair.tags) == 4
    for tag, right in stage.pair.tags.items():
        await admin.iam("tag_role", RoleName=role, Tags=[{"Key": tag, "Value": "wrong"}])
        assert await agent.code("sts", "assume_role", **wanted) == "AccessDenied", tag
        await admin.iam("untag_role", RoleName=role, TagKeys=[tag])
        assert await agent.code("sts", "assume_role", **wanted) == "AccessDenied", tag
        await admin.iam("tag_role", RoleName=role, Tags=[{"Key": tag, "Value": right}])
        assert await agent.code("sts", "assume_role", **wanted) == "OK", tag


async def test_the_right_name_in_another_account_is_refused(stage: Stage) -> None:
    """With all its tags, and every right at home."""
    elsewhere = "333333333333"
    admin = Botocore(stage.aws, await stage.aws.administrator(elsewhere))
    trust = json.dumps({"Statement": [{"Effect": "Allow", "Principal": {"AWS": elsewhere}, "Action": "sts:AssumeRole"}]})
    tags = [{"Key": key, "Value": value} for key, value in stage.pair.tags.items()]
    await admin.iam("create_role", RoleName=stage.pair.managed_role, AssumeRolePolicyDocument=trust, Tags=tags)
    everything = json.dumps({"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
    await admin.iam("put_role_policy", RoleName=stage.pair.managed_role, PolicyName="all", PolicyDocument=everything)
    impostor = await admin.assume(f"arn:aws:iam::{elsewhere}:role/{stage.pair.managed_role}")
    assert await impostor.code("sts", "assume_role", RoleArn=stage.pair.hub_role_arn, RoleSessionName="s1") == "AccessDenied"


async def test_another_clusters_role_is_refused(stage: Stage) -> None:
    """managed-1 may not be managed-0, whatever its account gives it."""
    pair = RoleNames(stage.pair.hub, arn(MANAGED, "managed-1"))
    await make_managed_role(stage.aws, pair, stage.server.cluster_url("managed"), AGENTS)
    admin = Botocore(stage.aws, await stage.aws.administrator(MANAGED))
    everything = json.dumps({"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
    await admin.iam("put_role_policy", RoleName=pair.managed_role, PolicyName="all", PolicyDocument=everything)
    found = await Botocore(stage.aws, None).sts(
        "assume_role_with_web_identity",
        RoleArn=pair.managed_role_arn,
        RoleSessionName="agent",
        WebIdentityToken=await stage.account_token(),
    )
    other = Botocore(stage.aws, credentials_in(found))
    assert await other.code("sts", "assume_role", RoleArn=stage.pair.hub_role_arn, RoleSessionName="s1") == "AccessDenied"
    assert await admin.code("sts", "assume_role", RoleArn=stage.pair.hub_role_arn, RoleSessionName="s1") == "AccessDenied"


async def test_a_managed_role_made_again_is_refused_until_the_trust_is_written_anew(stage: Stage) -> None:
    admin = Botocore(stage.aws, await stage.aws.administrator(MANAGED))
    await admin.iam("delete_role_policy", RoleName=stage.pair.managed_role, PolicyName="access")
    await admin.iam("delete_role", RoleName=stage.pair.managed_role)
    await make_managed_role(stage.aws, stage.pair, stage.server.cluster_url("managed"), AGENTS)
    agent = await stage.agent()
    wanted = {"RoleArn": stage.pair.hub_role_arn, "RoleSessionName": "s1"}
    assert await agent.code("sts", "assume_role", **wanted) == "AccessDenied"
    hub = Botocore(stage.aws, await stage.aws.administrator(HUB))
    trust = json.dumps(policies.hub_trust(stage.pair))
    await hub.iam("update_assume_role_policy", RoleName=stage.pair.hub_role, PolicyDocument=trust)
    assert await agent.code("sts", "assume_role", **wanted) == "OK"


async def test_tokens_of_another_cluster_or_for_another_audience_are_refused(stage: Stage) -> None:
    async def code(token: str) -> str:
        wanted = {"RoleArn": stage.pair.managed_role_arn, "RoleSessionName": "s1", "WebIdentityToken": token}
        return await Botocore(stage.aws, None).code("sts", "assume_role_with_web_identity", **wanted)

    client = stage.client("hub")
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    metadata = {"name": "klusterlet-registration-sa", "namespace": NAMESPACE}
    await client.create(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, NAMESPACE)
    assert await code(await stage.account_token(cluster="hub")) == "InvalidIdentityToken"
    assert await code(await stage.account_token(audience="https://kubernetes.default.svc")) == "InvalidIdentityToken"
    assert await code(await stage.account_token()) == "OK"
