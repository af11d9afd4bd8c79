"""Registration through AWS IAM between upstream's Go programs and ours, on a local AWS: our agent with upstream's hub, upstream's
agent with our hub as far as its credential goes.

Every program has the AWS identity that its service account has, by roles that `clusteradm aws prerequisites` makes; upstream's
asks AWS by AWS' own library for Go, under the names that AWS has. The credential that upstream's agent stores names a program that
only its image has, `aws`; the real one is run here in its place, with the same words and in the same surroundings.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from muster.aws import policies
from muster.aws.arns import EksCluster
from muster.aws.role_names import HUB_ARN_TAG, RoleNames
from muster.registration.drivers.awsirsa.claims import marked
from tests.interop.ocm import AGENT_NAMESPACE, Fleet
from tests.support import peers
from tests.support.administrator import ACCEPTED, AVAILABLE, MANAGED_CLUSTERS, Administrator, managed_cluster, read_secret
from tests.support.aws_thread import AwsThread
from tests.support.client import Client
from tests.support.local_aws import REGION, Botocore
from tests.support.planes import ControlPlane, EmbeddedPlane
from tests.support.registration import HUB_SECRET, MUSTER, Agent, Hub, Spoke

pytestmark = pytest.mark.timeout(180)

HUB_ACCOUNT, MANAGED_ACCOUNT = "111111111111", "222222222222"
OUR_HUB, GO_HUB = (EksCluster("aws", REGION, HUB_ACCOUNT, name) for name in ("hub-0", "go-hub"))
PYTHON, GOPHER = (EksCluster("aws", REGION, MANAGED_ACCOUNT, name) for name in ("python", "gopher"))
OUR_AGENT, GO_AGENT = RoleNames(GO_HUB, PYTHON), RoleNames(OUR_HUB, GOPHER)
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsThread]:
    with AwsThread(tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture(scope="module")
def ground(aws: AwsThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Two hubs, each with its tokens judged by AWS, and a cluster for both agents."""
    webhooks = {"default": aws.webhook(OUR_HUB), "go-hub": aws.webhook(GO_HUB)}
    flags = [flag for name, file in webhooks.items() for flag in ("--token-webhook-config", f"{name}={file}")]
    ground = EmbeddedPlane(tmp_path_factory.mktemp("aws-peers"), ("go-hub", "spoke"), flags=flags)
    ground.start()
    aws.register(OUR_HUB, ground.cluster)
    aws.register(GO_HUB, ground.extra("go-hub"))
    for managed in (PYTHON, GOPHER):
        aws.register(managed, ground.extra("spoke"))
    yield ground
    ground.stop(kill=True)


def arns(pair: RoleNames) -> list[str]:
    return [f"--hub-cluster-arn={pair.hub}", f"--managed-cluster-arn={pair.managed}"]


@pytest.fixture(scope="module")
def go_hub(ground: ControlPlane, aws: AwsThread) -> Iterator[Administrator]:
    cluster = ground.extra("go-hub")
    fleet = Fleet(cluster, cluster, ground.directory / "go-hub")
    fleet.prepare_hub()
    administrator = Administrator(cluster)
    options = ("--enabled-registration-drivers=csr,awsirsa", f"--hub-cluster-arn={GO_HUB}")
    fleet.start_hub(*options, environment=aws.by_names(aws.hub_pod(GO_HUB, administrator.admin)))
    administrator.servers += fleet.servers
    yield administrator
    fleet.stop()


@pytest.fixture(scope="module")
def our_agent(ground: ControlPlane, aws: AwsThread, go_hub: Administrator) -> Iterator[Agent]:
    spoke = Spoke(ground.extra("spoke"), ground.directory / "our-agent")
    agent = Agent(spoke, go_hub, "python", go_hub.trusted_kubeconfig(), ["--registration-auth=aws-irsa", *arns(OUR_AGENT)])
    agent.process.environment |= aws.agent_pod(OUR_AGENT, spoke.admin, agent.namespace)
    # Its kubeconfig names a program, as images have it: in the path.
    agent.process.environment["PATH"] = os.pathsep.join((str(MUSTER.parent), os.environ["PATH"]))
    agent.start()
    yield agent
    agent.stop()


@pytest.fixture(scope="module")
def our_hub(ground: ControlPlane, aws: AwsThread) -> Iterator[Hub]:
    flags = ("--enabled-registration-drivers=csr,aws-irsa", f"--hub-cluster-arn={OUR_HUB}", "--aws-identity=hub")
    hub = Hub(ground.cluster, ground.directory / "our-hub", flags)
    hub.install(*flags)
    hub.admin.post("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "aws-auth"}}).expect(201)
    hub.process.environment |= aws.hub_pod(OUR_HUB, hub.admin)
    with aws.following_aws_auth(OUR_HUB, ground.kubeconfig):
        hub.start()
        yield hub
        hub.stop()


@pytest.fixture(scope="module")
def go_agent(ground: ControlPlane, aws: AwsThread, our_hub: Hub) -> Iterator[tuple[Fleet, Mapping[str, str]]]:
    """Upstream's agent, and the variables that its pod would have."""
    fleet = Fleet(ground.cluster, ground.extra("spoke"), ground.directory / "go-agent", "gopher")
    fleet.prepare_registration_agent()
    pod = aws.by_names(aws.agent_pod(GO_AGENT, fleet.spoke_admin, AGENT_NAMESPACE))
    flags = ["--registration-auth=awsirsa", *arns(GO_AGENT), f"--managed-cluster-role-suffix={GO_AGENT.suffix}"]
    fleet.start_registration_agent("", *flags, environment=pod)
    our_hub.servers += fleet.servers
    yield fleet, pod
    fleet.stop()


async def _or_none(asked: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """In one request: what is asked for twice may be taken away in between."""
    try:
        return await asked
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchEntity", "ResourceNotFoundException"):
            return None
        raise


def on_aws(aws: AwsThread, pair: RoleNames) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """The role that the hub made for a cluster, and its access entry."""

    async def found() -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        admin = Botocore(aws.aws, await aws.aws.administrator(HUB_ACCOUNT))
        entry = {"clusterName": pair.hub.name, "principalArn": pair.hub_role_arn}
        role = await _or_none(admin.iam("get_role", RoleName=pair.hub_role))
        listed = await _or_none(admin.eks("describe_access_entry", **entry))
        return role and role["Role"], listed and listed["accessEntry"]

    return aws.run(found())


def test_our_agent_registers_with_upstreams_hub_is_denied_taken_back_and_deleted(
    aws: AwsThread, go_hub: Administrator, our_agent: Agent
) -> None:
    go_hub.accept("python", lease=2)
    go_hub.wait_available("python", timeout=90)
    go_hub.wait_renewed("python", times=2)
    role, entry = on_aws(aws, OUR_AGENT)
    assert role is not None
    assert role["AssumeRolePolicyDocument"] == policies.hub_trust(OUR_AGENT)
    assert entry is not None
    assert (entry["username"], entry["kubernetesGroups"]) == ("python", ["open-cluster-management:python"])
    assert go_hub.requests("python") == [], "nobody asked for a certificate"
    before = our_agent.secret

    go_hub.deny("python")
    go_hub.wait_condition("python", ACCEPTED, "False", "HubClusterAdminDenied", timeout=60)
    go_hub.wait(lambda: on_aws(aws, OUR_AGENT) == (None, None), "its role and its entry to be gone")
    go_hub.wait_condition("python", AVAILABLE, "Unknown", timeout=60)
    go_hub.set_accepted("python", True)
    go_hub.wait_condition("python", AVAILABLE, timeout=60)
    go_hub.wait_renewed("python", times=2)
    assert our_agent.secret == before

    go_hub.delete("python")
    go_hub.wait_gone("python", timeout=60)
    assert on_aws(aws, OUR_AGENT) == (None, None)
    assert our_agent.process.running


def test_our_hub_takes_over_from_upstreams(ground: ControlPlane, aws: AwsThread, go_hub: Administrator, our_agent: Agent) -> None:
    """On the same cluster, with the same role and mapping: what upstream's hub made is set right, and its agents notice nothing."""
    if go_hub.find("python") is None:
        cluster = managed_cluster("python", accepted=True, leaseDurationSeconds=2)
        cluster["metadata"]["annotations"] = dict(marked(OUR_AGENT))
        go_hub.admin.post(MANAGED_CLUSTERS, cluster).expect(201)
    go_hub.accept("python", lease=2)
    go_hub.wait_available("python", timeout=90)
    before, _ = on_aws(aws, OUR_AGENT)
    stored = our_agent.secret
    (controller,) = [server for server in go_hub.servers if server.name == "registration-controller"]
    controller.stop()
    flags = ("--enabled-registration-drivers=csr,aws-irsa", f"--hub-cluster-arn={GO_HUB}", "--aws-mapping=access-entry")
    ours = Hub(go_hub.cluster, ground.directory / "successor", flags, webhooks=False)
    ours.install(*flags)
    ours.process.environment |= aws.hub_pod(GO_HUB, ours.admin)
    try:
        ours.start()
        ours.wait(lambda: said_by_entry(aws, OUR_AGENT) == "open-cluster-management:python", "the entry to be set right", 60)
        ours.wait_renewed("python", times=2)
        ours.wait_available("python", timeout=60)
        after, _ = on_aws(aws, OUR_AGENT)
        assert before is not None
        assert after is not None
        assert after["RoleId"] == before["RoleId"]
        assert {one["Key"]: one["Value"] for one in after["Tags"]}[HUB_ARN_TAG] == str(GO_HUB)
        assert our_agent.secret == stored
        ours.delete("python")
        ours.wait_gone("python", timeout=60)
        ours.wait(lambda: on_aws(aws, OUR_AGENT) == (None, None), "its role and its entry to be gone")
    finally:
        ours.stop()


def said_by_entry(aws: AwsThread, pair: RoleNames) -> str:
    """Whom the cluster's role is on the hub."""
    _, entry = on_aws(aws, pair)
    return entry["username"] if entry else ""


def test_upstreams_agent_gets_its_credential_from_our_hub(
    aws: AwsThread, our_hub: Hub, go_agent: tuple[Fleet, Mapping[str, str]], tmp_path: Path
) -> None:
    fleet, pod = go_agent
    our_hub.accept("gopher")
    our_hub.wait_condition("gopher", ACCEPTED, timeout=60)
    role, entry = on_aws(aws, GO_AGENT)
    assert role is not None
    assert role["AssumeRolePolicyDocument"] == policies.hub_trust(GO_AGENT)
    assert entry is None, "aws-auth has it"

    stored = our_hub.wait(lambda: kubeconfig_of(fleet), "upstream's agent to store its kubeconfig", 60)
    (user,) = yaml.safe_load(stored)["users"]
    plugin = user["user"]["exec"]
    assert plugin["command"] == "/awscli/dist/aws"
    token = token_by(plugin["args"], pod, tmp_path)
    client = Client(our_hub.cluster.url, ca=our_hub.cluster.ca, token=token)
    identity = client.post(WHO, {}).expect(201)["status"]["userInfo"]
    assert (identity["username"], identity["groups"][0]) == (
        "open-cluster-management:gopher",
        "system:open-cluster-management:gopher",
    )
    assert client.get(f"{MANAGED_CLUSTERS}/gopher").status == 200
    assert client.get(MANAGED_CLUSTERS).status == 403
    assert our_hub.requests("gopher") == []

    our_hub.delete("gopher")
    our_hub.wait_gone("gopher", timeout=60)
    assert on_aws(aws, GO_AGENT) == (None, None)
    again = token_by(plugin["args"], pod, tmp_path, fails=True)
    assert again == "", "there is no role any more"


def kubeconfig_of(fleet: Fleet) -> bytes:
    return read_secret(fleet.spoke_admin, AGENT_NAMESPACE, HUB_SECRET).get("kubeconfig", b"")


def token_by(arguments: list[str], pod: Mapping[str, str], home: Path, *, fails: bool = False) -> str:
    """What AWS' own program prints where upstream's agent runs."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), **pod}
    line: list[str | Path] = [peers.python_program("awscli", "aws"), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode != 0) is fails, done.stderr
    return "" if fails else str(json.loads(done.stdout)["status"]["token"])
