"""`clusteradm doctor` on a hub whose clusters register by AWS: every link from a cluster's annotation to the hub, broken in turn.

The hub and the managed cluster are embedded, AWS is the local one; nobody's controllers run, so what is broken stays so.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api.crds import OPERATOR, definitions
from muster.apiserver.auth.access import Access
from muster.apiserver.auth.tokenwebhook import WebhookTarget
from muster.aws import policies
from muster.aws.arns import parse_cluster_arn
from muster.aws.interfaces import ClusterDescription
from muster.aws.role_names import HUB_ARN_TAG, RoleNames
from muster.fleet.aws import LocalAws
from muster.machinery.clock import SYSTEM
from muster.operator.names import CLUSTER_MANAGERS, KLUSTERLETS
from muster.registration.drivers.awsirsa.claims import marked
from muster.registration.drivers.awsirsa.records import Mapping, Phase, document, recorded
from muster.registration.drivers.awsirsa.spoke import AwsIrsaSpoke
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.interfaces import SpokeContext
from muster.registration.drivers.kubeconfigs import hub_kubeconfig
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import HUB_NAMESPACE, AgentIdentity
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from muster.runtime.install import await_definitions
from tests.support.local_aws import REGION, Botocore, local_aws, trusting
from tests.support.operating import running
from tests.unit.cli.clusteradm.conftest import AVAILABLE, HUB, PLAIN, Fleet

NAME = "managed-0"
HUB_ARN = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
PAIR = RoleNames(parse_cluster_arn(HUB_ARN), parse_cluster_arn("arn:aws:eks:us-west-2:222222222222:cluster/managed-0"))
AGENTS = "open-cluster-management-agent"
INIT = ("init", "--registration-drivers=csr,awsirsa", f"--hub-cluster-arn={HUB_ARN}", "--force")
ROLE = {"RoleName": PAIR.hub_role}
Found = dict[str, tuple[str, str]]


@dataclass
class Site:
    fleet: Fleet
    aws: LocalAws
    monkeypatch: pytest.MonkeyPatch

    async def become(self, account: str = "") -> None:
        """Whoever runs `clusteradm` is the administrator of this account; of none, nobody."""
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONFIG_FILE"):
            self.monkeypatch.delenv(name, raising=False)
        who = await self.aws.administrator(account) if account else None
        for name, value in self.aws.environ(REGION, who).items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")

    async def admin(self, account: str = "111111111111") -> Botocore:
        return Botocore(self.aws, await self.aws.administrator(account))

    async def findings(self, verdict: str = "problem", *words: str, about: str = NAME) -> Found:
        result = await self.fleet.run("doctor", "-o", "json", *words)
        assert result.stdout, result.stderr
        found = json.loads(result.stdout)
        assert result.exit_code == any(one["verdict"] == "problem" for ones in found.values() for one in ones)
        return {one["subject"]: (one["text"], one["remedy"]) for one in found[about] if one["verdict"] == verdict}

    async def of_hub(self, verdict: str = "problem") -> Found:
        return await self.findings(verdict, about="AWS")

    async def change_record(self, **changes: Any) -> None:
        found = await self.fleet.admin().get(CONFIG_MAPS, PAIR.hub_role, HUB_NAMESPACE)
        record = recorded(found)
        assert record is not None
        changed = document(msgspec.structs.replace(record, **changes), HUB_NAMESPACE)
        await self.fleet.admin().update(CONFIG_MAPS, {**found, "data": changed["data"]})

    async def describe(self, mode: str) -> None:
        issuer = self.fleet.server.cluster_url(HUB)
        await self.aws.register_cluster(ClusterDescription(HUB_ARN, issuer, self.fleet.server.ca_pem, mode, issuer))


@pytest.fixture
async def site(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A cluster that an administrator has accepted, and all that the hub's controllers would have made of it."""
    async with local_aws(tmp_path / "aws") as aws:
        made = Site(fleet, aws, monkeypatch)
        await made.become("111111111111")
        await made.describe("API_AND_CONFIG_MAP")
        await aws.trust_issuer("111111111111", fleet.server.cluster_url(HUB))
        spokes = await made.admin("222222222222")
        trust = trusting({"AWS": "222222222222"})
        await spokes.iam("create_role", RoleName=PAIR.managed_role, AssumeRolePolicyDocument=trust)
        await fleet.admin().apply(NAMESPACES, {"metadata": {"name": HUB_NAMESPACE}}, manager="test")
        await fleet.ok(*INIT)
        creator = {"annotations": {"eks.amazonaws.com/role-arn": PAIR.hub.role_arn("hub-0_managed-cluster-identity-creator")}}
        account = {"metadata": {"name": "registration-controller-sa", "namespace": HUB_NAMESPACE, **creator}}
        await fleet.admin().apply(SERVICE_ACCOUNTS, account, manager="test")
        apply = ("--hub-cluster-arn", HUB_ARN, "--oidc-provider", fleet.server.cluster_url(HUB), "--apply")
        await fleet.ok("aws", "prerequisites", "hub", *apply)
        await fleet.cluster(NAME, metadata={"annotations": dict(marked(PAIR))})
        await fleet.ok("accept", "--clusters", NAME)
        await fleet.admin().patch(MANAGED_CLUSTERS, NAME, {"status": {"conditions": AVAILABLE}}, subresource="status")
        await made.change_record(phase=Phase.GRANTED)
        yield made


async def test_all_of_it_is_there(site: Site) -> None:
    assert {subject for subject in await site.findings() if "AWS" in subject} == set()
    well = await site.findings("ok")
    assert well["AWS role"][0] == f"{PAIR.hub_role_arn} trusts the cluster's role and no other"
    assert f"knows {PAIR.hub_role_arn} as open-cluster-management:managed-0" in well["AWS mapping"][0]
    assert await site.of_hub() == {}
    assert set(await site.of_hub("ok")) == {"AWS identity", "hub's AWS role", "AWS mapping"}
    said = (await site.fleet.run("doctor")).stdout
    assert said.startswith("AWS: nothing wrong\n")


async def test_nobody_on_aws_is_told_what_could_not_be_looked_at(site: Site) -> None:
    await site.become()
    notes = await site.findings("note")
    assert PAIR.hub_role_arn in notes["AWS role"][0]
    assert "there is no AWS identity here" in notes["AWS role"][0]
    assert "account 111111111111" in notes["AWS role"][1]
    assert "AWS mapping" in await site.findings("ok"), "aws-auth is the hub's own"
    assert "not checked" in (await site.of_hub("note"))["AWS identity"][0]
    await site.become("222222222222")
    assert "of account 222222222222" in (await site.findings("note"))["AWS role"][0]


async def test_a_role_that_is_gone_changed_or_made_by_somebody_else(site: Site) -> None:
    admin = await site.admin()

    async def said() -> str:
        text, remedy = (await site.findings())["AWS role"]
        assert "accept --clusters managed-0" in remedy
        return text

    await admin.iam("delete_role_policy", **ROLE, PolicyName=policies.ACCESS_POLICY)
    assert "has not the policy open-cluster-management" in await said()
    await admin.iam(
        "put_role_policy", **ROLE, PolicyName=policies.ACCESS_POLICY, PolicyDocument=json.dumps(policies.hub_access(PAIR.hub))
    )
    await admin.iam("tag_role", **ROLE, Tags=[{"Key": HUB_ARN_TAG, "Value": "arn:another"}])
    assert f"is tagged {HUB_ARN_TAG}=arn:another" in await said()
    await admin.iam("tag_role", **ROLE, Tags=[{"Key": HUB_ARN_TAG, "Value": HUB_ARN}])
    assert "AWS role" not in await site.findings()
    spokes = await site.admin("222222222222")
    await spokes.iam("delete_role", RoleName=PAIR.managed_role)
    await spokes.iam("create_role", RoleName=PAIR.managed_role, AssumeRolePolicyDocument=trusting({"AWS": "222222222222"}))
    assert "was deleted and made anew since" in await said()
    await admin.iam("update_assume_role_policy", **ROLE, PolicyDocument=trusting({"AWS": "111111111111"}))
    assert f"does not trust {PAIR.managed_role_arn}" in await said()
    await admin.iam("delete_role_policy", **ROLE, PolicyName=policies.ACCESS_POLICY)
    await admin.iam("delete_role", **ROLE)
    assert await said() == f"{PAIR.hub_role_arn} is not there"


async def test_a_mapping_that_is_gone_changed_or_not_heeded(site: Site) -> None:
    auth, admin = "aws-auth", site.fleet.admin()
    whole = (await admin.get(CONFIG_MAPS, auth, "kube-system"))["data"]["mapRoles"]

    async def said() -> str:
        return (await site.findings())["AWS mapping"][0]

    for text, complaint in (
        ("", "has no entry for"),
        (whole.replace("system:open", "system:masters:open"), "is not the hub's"),
        (whole + whole, "is not the hub's"),
        ("- rolearn: [", "is not YAML"),
    ):
        await admin.patch(CONFIG_MAPS, auth, {"data": {"mapRoles": text}}, "kube-system")
        assert complaint in await said()
    assert "is not YAML" in (await site.of_hub())["AWS mapping"][0]
    await admin.delete(CONFIG_MAPS, auth, "kube-system")
    assert "is missing" in await said()
    assert "kubectl create configmap aws-auth -n kube-system" in (await site.of_hub())["AWS mapping"][1]
    await site.describe("API")
    assert "which EKS does not read" in await said()


async def test_access_entries(site: Site) -> None:
    await site.change_record(mapping=Mapping.ACCESS_ENTRY)
    assert "there is no access entry" in (await site.findings())["AWS mapping"][0]
    entry = {"clusterName": "hub-0", "principalArn": PAIR.hub_role_arn}
    eks = await site.admin()
    await eks.eks("create_access_entry", **entry, username="somebody", kubernetesGroups=["others"])
    assert "says user somebody, groups others" in (await site.findings())["AWS mapping"][0]
    ours = {"username": "open-cluster-management:managed-0", "kubernetesGroups": ["open-cluster-management:managed-0"]}
    await eks.eks("update_access_entry", **entry, **ours)
    assert "an access entry knows" in (await site.findings("ok"))["AWS mapping"][0]
    await site.change_record(other=Mapping.AWS_AUTH)
    assert "may be known by aws-auth too" in (await site.findings("note"))["AWS mapping"][0]
    await site.become()
    await site.change_record(other=None)
    assert "the access entry of" in (await site.findings("note"))["AWS mapping"][0]
    await site.become("111111111111")
    await site.describe("CONFIG_MAP")
    assert "authentication mode is CONFIG_MAP" in (await site.findings())["AWS mapping"][0]


async def test_what_the_cluster_says_and_what_is_on_record(site: Site) -> None:
    admin = site.fleet.admin()

    async def said() -> str:
        return (await site.findings())["AWS identity"][0]

    await site.change_record(phase=Phase.GRANTING)
    assert "says Granting" in await said()
    await site.change_record(cluster="other")
    assert "as that of cluster other" in await said()
    await admin.delete(CONFIG_MAPS, PAIR.hub_role, HUB_NAMESPACE)
    assert "nothing is on record" in await said()
    wrong = {"metadata": {"annotations": {"eks-managed-cluster-arn": "arn:aws:eks:us-west-2:222222222222:cluster/other"}}}
    await admin.patch(MANAGED_CLUSTERS, NAME, wrong)
    assert "contradict each other" in await said()
    await site.fleet.ok("init", "--registration-drivers=csr", "--force")
    found = await site.findings("problem", NAME)
    assert "no ClusterManager enables the driver on the hub" in found["AWS identity"][0]


async def test_what_is_left_of_clusters_that_are_gone(site: Site) -> None:
    await site.change_record(phase=Phase.LEFT)
    text, remedy = (await site.of_hub())["left on AWS"]
    assert "could not remove" in text
    assert remedy.startswith("run aws cleanup")
    await site.change_record(phase=Phase.GRANTED, uid="another")
    assert "is gone, and its role" in (await site.of_hub())["left on AWS"][0]
    await site.fleet.admin().delete(CONFIG_MAPS, PAIR.hub_role, HUB_NAMESPACE)
    text, remedy = (await site.of_hub())["left on AWS"]
    assert text == f"role {PAIR.hub_role_arn}, made for cluster {NAME} is this hub's, and no cluster claims it"
    await site.fleet.admin().delete(MANAGED_CLUSTERS, NAME)
    said = await site.fleet.run("doctor")
    assert said.stdout.startswith("There are no managed clusters.\nAWS: 1 problem")
    assert "is removed" in await site.fleet.ok("aws", "cleanup")
    assert (await site.fleet.ok("doctor")).endswith("entries\n")


async def test_the_role_as_which_the_hub_makes_others(site: Site) -> None:
    admin, creator = await site.admin(), {"RoleName": "hub-0_managed-cluster-identity-creator"}
    account = {"metadata": {"name": "registration-controller-sa", "namespace": HUB_NAMESPACE}}
    await site.fleet.admin().apply(SERVICE_ACCOUNTS, account, manager="test")
    assert "annotation eks.amazonaws.com/role-arn is ''" in (await site.of_hub())["hub's AWS role"][0]
    await site.fleet.admin().delete(SERVICE_ACCOUNTS, "registration-controller-sa", HUB_NAMESPACE)
    less = json.dumps(policies.hub_access(PAIR.hub))
    await admin.iam("put_role_policy", **creator, PolicyName=policies.ACCESS_POLICY, PolicyDocument=less)
    assert "is not what aws prerequisites hub prints" in (await site.of_hub("note"))["hub's AWS role"][0]
    await admin.iam("update_assume_role_policy", **creator, PolicyDocument=trusting({"AWS": "111111111111"}))
    text, remedy = (await site.of_hub())["hub's AWS role"]
    assert "does not trust the hub's account" in text
    assert f"--oidc-provider {site.fleet.server.cluster_url(HUB)} --apply" in remedy
    await admin.iam("delete_role_policy", **creator, PolicyName=policies.ACCESS_POLICY)
    await admin.iam("delete_role", **creator)
    assert "is not there: the hub can make no roles" in (await site.of_hub())["hub's AWS role"][0]
    await site.fleet.ok(*INIT, "--aws-identity=administrator")
    assert "hub's AWS role" not in await site.of_hub()
    nameless = {"registrationDrivers": [{"authType": "awsirsa", "awsirsa": {"identity": "hub"}}]}
    await site.fleet.admin().patch(CLUSTER_MANAGERS, "cluster-manager", {"spec": {"registrationConfiguration": nameless}})
    assert "--hub-cluster-arn: missing" in (await site.of_hub())["ClusterManager"][0]


# The managed cluster


class Agents:
    """What the operator and the agents would have made on the managed cluster."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.admin = site.fleet.admin(PLAIN)
        self.issuer = site.fleet.server.cluster_url(PLAIN)

    async def make(self) -> None:
        for one in definitions(OPERATOR):
            await self.admin.apply(CRDS, one, manager="test")
        await await_definitions(self.admin, [one["metadata"]["name"] for one in definitions(OPERATOR)], SYSTEM)
        driver = {"hubClusterArn": HUB_ARN, "managedClusterArn": str(PAIR.managed)}
        registration = {"registrationDriver": {"authType": "awsirsa", "awsIrsa": driver}}
        spec = {"clusterName": NAME, "registrationConfiguration": registration}
        await self.admin.apply(KLUSTERLETS, {"metadata": {"name": "klusterlet"}, "spec": spec}, manager="test")
        await self.admin.apply(NAMESPACES, {"metadata": {"name": AGENTS}}, manager="test")
        for part in ("registration", "work"):
            await self.account(part, PAIR.managed_role_arn)
            await self.deployment(part, PAIR.managed_role_arn)
        context = SpokeContext(
            AgentIdentity(NAME, "agent"),
            SYSTEM,
            lambda: 0.0,
            None,  # type: ignore[arg-type]
            {"hub-cluster-arn": (HUB_ARN,), "managed-cluster-arn": (str(PAIR.managed),)},
        )
        server = self.site.fleet.server
        address = HubAddress("hub", server.cluster_url(HUB), server.ca_pem)
        await self.secret(hub_kubeconfig(address, AwsIrsaSpoke(context).kubeconfig_user()).decode())

    async def account(self, part: str, role: str) -> None:
        annotations = {"eks.amazonaws.com/role-arn": role}
        metadata = {"name": f"klusterlet-{part}-sa", "namespace": AGENTS, "annotations": annotations}
        await self.admin.apply(SERVICE_ACCOUNTS, {"metadata": metadata}, manager="test")

    async def deployment(self, part: str, role: str, audience: str = "sts.amazonaws.com") -> None:
        token = {"serviceAccountToken": {"audience": audience, "path": "token"}}
        file = "/var/run/secrets/eks.amazonaws.com/serviceaccount/token"
        env = [{"name": "AWS_ROLE_ARN", "value": role}, {"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": file}]
        pod = {
            "containers": [{"name": "agent", "image": "muster", "env": env}],
            "volumes": [{"name": "aws-iam-token", "projected": {"sources": [token]}}],
        }
        labels = {"app": part}
        template = {"metadata": {"labels": labels}, "spec": pod}
        metadata = {"name": f"klusterlet-{part}-agent", "namespace": AGENTS}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        await self.admin.apply(DEPLOYMENTS, {"metadata": metadata, "spec": spec}, manager="test")

    async def secret(self, kubeconfig: str) -> None:
        metadata = {"name": "hub-kubeconfig-secret", "namespace": AGENTS}
        data = {"stringData": {"kubeconfig": kubeconfig, "cluster-name": NAME}}
        await self.admin.apply(SECRETS, {"metadata": metadata, **data}, manager="test")

    async def findings(self, verdict: str = "problem") -> Found:
        return await self.site.findings(verdict, NAME, "--managed-cluster-context", PLAIN)


@pytest.fixture
async def agents(site: Site) -> AsyncIterator[Agents]:
    """All is well there: their role is as `prerequisites` makes it, and the hub's API server knows roles."""
    made, aws, server = Agents(site), site.aws, site.fleet.server
    await made.make()
    group = "rbac.authorization.k8s.io"
    published = {
        "metadata": {"name": "published"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:service-account-issuer-discovery"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:unauthenticated"}],
    }
    await made.admin.apply(CLUSTER_ROLE_BINDINGS, published, manager="test")
    await aws.register_cluster(ClusterDescription(str(PAIR.managed), made.issuer, server.ca_pem, "API", made.issuer))
    await aws.trust_issuer(PAIR.managed.account, made.issuer)
    await site.become(PAIR.managed.account)
    words = ("--hub-cluster-arn", HUB_ARN, "--managed-cluster-arn", str(PAIR.managed), "--oidc-provider", made.issuer)
    await site.fleet.ok("aws", "prerequisites", "managed", *words, "--apply")
    await site.become()
    tls = ssl.create_default_context(cadata=aws.ca_pem.decode())
    await server.set_token_webhook(HUB, WebhookTarget(aws.webhook_url(HUB_ARN), tls))
    watch = aws.watch_aws_auth(HUB_ARN, site.fleet.admin())
    async with running(watch.run()):
        await watch.synced()
        yield made


async def grant(site: Site) -> None:
    """More than the agents need."""
    group = "rbac.authorization.k8s.io"
    admin, rules = site.fleet.admin(), [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await admin.apply(CLUSTER_ROLES, {"metadata": {"name": "agents"}, "rules": rules}, manager="test")
    subject = {"apiGroup": group, "kind": "User", "name": f"open-cluster-management:{NAME}"}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "agents"}
    binding = {"metadata": {"name": "agents"}, "roleRef": reference, "subjects": [subject]}
    await admin.apply(CLUSTER_ROLE_BINDINGS, binding, manager="test")


async def test_the_agents_way_is_gone_to_its_end(agents: Agents) -> None:
    found = await agents.findings()
    assert "agents' AWS role" not in found
    assert "they may not" in found["agents' way to the hub"][0], "the hub's controllers would have granted it"
    await grant(agents.site)
    well = await agents.findings("ok")
    assert PAIR.hub_role_arn in well["agents' way to the hub"][0]
    assert "agent's credential" not in {**await agents.findings(), **well}


async def test_pods_that_are_given_another_role(agents: Agents) -> None:
    await agents.account("work", "arn:aws:iam::222222222222:role/other")
    assert "klusterlet-work-sa: annotation" in (await agents.findings())["agents' AWS role"][0]
    await agents.account("work", PAIR.managed_role_arn)
    await agents.deployment("registration", "arn:aws:iam::222222222222:role/other")
    assert "variable AWS_ROLE_ARN is" in (await agents.findings())["agents' AWS role"][0]
    await agents.deployment("registration", PAIR.managed_role_arn, "other.example")
    assert "no volume has a token for sts.amazonaws.com" in (await agents.findings())["agents' AWS role"][0]


async def test_a_kubeconfig_that_is_not_there_or_another_hubs(agents: Agents) -> None:
    await agents.secret("{}")
    assert f"does not sign as {PAIR.hub_role_arn}" in (await agents.findings())["agents' way to the hub"][0]
    await agents.admin.delete(SECRETS, "hub-kubeconfig-secret", AGENTS)
    text, remedy = (await agents.findings())["agents' way to the hub"]
    assert "has no kubeconfig" in text
    assert "run accept --clusters managed-0 on the hub" in remedy


async def test_each_role_that_does_not_let_them_in_is_named(agents: Agents) -> None:
    site = agents.site
    hub, spokes = await site.admin(), await site.admin(PAIR.managed.account)

    async def said() -> tuple[str, str]:
        return (await agents.findings())["agents' way to the hub"]

    await site.fleet.admin().patch(CONFIG_MAPS, "aws-auth", {"data": {"mapRoles": ""}}, "kube-system")
    site.fleet.server.clusters[HUB].part(Access).invalidate_tokens()
    assert (await said())[0] == f"AWS accepts the agents, but the hub does not know {PAIR.hub_role_arn}"
    tags = [{"Key": key, "Value": "wrong" if key == "hub_cluster_name" else value} for key, value in PAIR.tags.items()]
    await spokes.iam("tag_role", RoleName=PAIR.managed_role, Tags=tags)
    text, remedy = await said()
    assert text.startswith(f"{PAIR.hub_role_arn} refused {PAIR.managed_role_arn}")
    assert "run accept --clusters managed-0 on the hub" in remedy
    await hub.iam("delete_role_policy", **ROLE, PolicyName=policies.ACCESS_POLICY)
    await hub.iam("delete_role", **ROLE)
    assert (await said())[0].startswith(f"{PAIR.hub_role_arn} refused")
    await site.aws.distrust_issuer(PAIR.managed.account, agents.issuer)
    text, remedy = await said()
    assert text.startswith(f"{PAIR.managed_role_arn} refused the agents' account")
    assert f"--oidc-provider {agents.issuer} --apply" in remedy
    site.monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:1")
    notes = await agents.findings("note")
    assert "AWS cannot be reached from here" in notes["agents' way to the hub"][0], "it is available, so this is no problem"
