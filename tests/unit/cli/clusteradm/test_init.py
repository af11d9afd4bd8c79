"""`clusteradm init`: what it installs, what it refuses, and what it says."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.administration.hub import probe
from muster.administration.hub.initialize import InitOptions, initialize
from muster.administration.hubs import HubAddress
from muster.machinery.authentication import UserInfo
from muster.operator.names import CLUSTER_MANAGERS, OPERATOR_NAMESPACE
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SIGNING_REQUESTS,
)
from muster.runtime.client.errors import Forbidden
from muster.runtime.client.rest import JSON, Query
from tests.unit.cli.clusteradm.conftest import FRESH, Fleet, Told


async def spec(fleet: Fleet) -> dict[str, Any]:
    found = await fleet.admin(FRESH).get(CLUSTER_MANAGERS, "cluster-manager")
    return dict(found["spec"])


async def test_operator_bootstrap_permissions_and_cluster_manager_are_there(fleet: Fleet) -> None:
    said = await fleet.ok("init", context=FRESH)
    assert "The multicluster hub control plane has been initialized successfully!" in said
    assert await fleet.find(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE, FRESH)
    assert await fleet.find(SERVICE_ACCOUNTS, "agent-registration-bootstrap", OPERATOR_NAMESPACE, FRESH)
    assert await fleet.find(CLUSTER_ROLE_BINDINGS, "open-cluster-management:bootstrap:agent-registration", "", FRESH)
    assert await fleet.find(CONFIG_MAPS, "cluster-info", "kube-public", FRESH)
    made = await spec(fleet)
    assert made["registrationConfiguration"]["autoApproveUsers"] == [
        "system:bootstrap:ocmhub",
        "system:serviceaccount:open-cluster-management:agent-registration-bootstrap",
    ]
    assert "registrationDrivers" not in made["registrationConfiguration"]


async def test_the_join_command_carries_a_token_that_works_the_address_and_the_authority(fleet: Fleet) -> None:
    said = await fleet.ok("init", context=FRESH)
    command = re.search(r"clusteradm join --hub-token (\S+) --hub-apiserver (\S+) --hub-ca-hash (\S+) --cluster-name", said)
    assert command
    token, server, digest = command.groups()
    assert server == fleet.server.cluster_url(FRESH)
    assert digest == HubAddress(server, fleet.server.ca_pem).ca_hash
    assert re.fullmatch("sha256:[0-9a-f]{64}", digest)
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
    assert claims["exp"] - claims["iat"] == 3600


async def test_everybody_may_read_where_the_hub_is_and_nothing_else_there(fleet: Fleet) -> None:
    await fleet.ok("init", context=FRESH)
    nobody = fleet.user(UserInfo("system:anonymous", groups=("system:unauthenticated",)), FRESH)
    found = await nobody.get(CONFIG_MAPS, "cluster-info", "kube-public")
    (cluster,) = yaml.safe_load(found["data"]["kubeconfig"])["clusters"]
    assert cluster["cluster"]["server"] == fleet.server.cluster_url(FRESH)
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == fleet.server.ca_pem
    with pytest.raises(Forbidden):
        await nobody.get(CONFIG_MAPS, "kube-root-ca.crt", "kube-public")


async def test_a_cluster_info_that_is_there_is_left_alone(fleet: Fleet) -> None:
    theirs = {"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": {"kubeconfig": "theirs"}}
    await fleet.admin(FRESH).apply(CONFIG_MAPS, theirs, manager="kubeadm")
    await fleet.ok("init", context=FRESH)
    found = await fleet.find(CONFIG_MAPS, "cluster-info", "kube-public", FRESH)
    assert found
    assert found["data"] == {"kubeconfig": "theirs"}


async def test_initializing_again_changes_nothing_but_what_is_asked_differently(fleet: Fleet) -> None:
    await fleet.ok("init", "--registration-drivers", "csr", context=FRESH)
    before = await fleet.admin(FRESH).get(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE)
    made = await fleet.admin(FRESH).get(CLUSTER_MANAGERS, "cluster-manager")
    await fleet.ok("init", "--registration-drivers", "csr", context=FRESH)
    after = await fleet.admin(FRESH).get(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    again = await fleet.admin(FRESH).get(CLUSTER_MANAGERS, "cluster-manager")
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    await fleet.ok("init", "--feature-gates", "ManagedClusterAutoApproval=true", context=FRESH)
    configured = (await spec(fleet))["registrationConfiguration"]
    assert configured["featureGates"] == [{"feature": "ManagedClusterAutoApproval", "mode": "Enable"}]
    assert "registrationDrivers" not in configured


async def test_a_cluster_manager_that_is_being_deleted_is_let_go_first(fleet: Fleet) -> None:
    await fleet.ok("init", context=FRESH)
    admin, told = fleet.admin(FRESH), Told()
    await admin.patch(CLUSTER_MANAGERS, "cluster-manager", {"metadata": {"finalizers": ["example.io/hold"]}})
    old = await admin.delete(CLUSTER_MANAGERS, "cluster-manager")
    address = HubAddress(fleet.server.cluster_url(FRESH), fleet.server.ca_pem)
    again = asyncio.create_task(initialize(admin, address, InitOptions(), told))
    await fleet.until(lambda: told.heard("an earlier ClusterManager cluster-manager: it is being deleted"))
    await admin.patch(CLUSTER_MANAGERS, "cluster-manager", {"metadata": {"finalizers": None}})
    await again
    new = await admin.get(CLUSTER_MANAGERS, "cluster-manager")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert "deletionTimestamp" not in new["metadata"]


async def test_json_is_for_programs(fleet: Fleet) -> None:
    found = json.loads(await fleet.ok("init", "-o", "json", context=FRESH))
    assert set(found) == {"hub-token", "hub-apiserver", "hub-ca-hash"}
    assert "--output" in await fleet.fails("init", "-o", "json", "--wait", context=FRESH, code=2)


async def test_a_bootstrap_token_is_kept_and_reused(fleet: Fleet) -> None:
    first = json.loads(await fleet.ok("init", "-o", "json", "--use-bootstrap-token", context=FRESH))["hub-token"]
    second = json.loads(await fleet.ok("init", "-o", "json", "--use-bootstrap-token", context=FRESH))["hub-token"]
    assert first == second
    assert re.fullmatch(r"ocmhub\.[a-z0-9]{16}", first)
    secret = await fleet.find(SECRETS, "bootstrap-token-ocmhub", "kube-system", FRESH)
    assert secret
    assert secret["metadata"]["labels"] == {"app": "cluster-manager"}
    assert base64.b64decode(secret["data"]["auth-extra-groups"]) == b"system:bootstrappers:managedcluster"


async def test_drivers_and_identities_go_to_the_cluster_manager_and_the_join_command(fleet: Fleet) -> None:
    arn = "arn:aws:eks:us-west-2:111111111111:cluster/hub-0"
    flags = ["--registration-auth=aws-irsa", "--eks-hub-cluster-arn", arn, "--feature-gates=ManagedClusterAutoApproval=true"]
    pattern = r"arn:aws:eks:us-west-2:\d{12,12}:cluster/.*"
    said = await fleet.ok("init", *flags, "--auto-approved-arn-patterns", pattern, "--aws-resource-tags", "a=b,c=d", context=FRESH)
    drivers = (await spec(fleet))["registrationConfiguration"]["registrationDrivers"]
    own = {"hubClusterArn": arn, "autoApprovedIdentities": [pattern], "tags": ["a=b", "c=d"]}
    assert drivers == [{"authType": "awsirsa", "awsirsa": own}]
    assert f"--registration-auth awsirsa --hub-cluster-arn {arn}" in said


async def test_aws_auth_is_made_where_it_is_missing_and_wanted_and_left_alone_where_it_is_there(fleet: Fleet) -> None:
    flags = ("init", "--registration-auth=aws-irsa", "--hub-cluster-arn=arn:aws:eks:us-west-2:111111111111:cluster/hub-0")
    await fleet.ok(*flags, "--aws-mapping=access-entry", context=FRESH)
    assert await fleet.find(CONFIG_MAPS, "aws-auth", "kube-system", FRESH) is None
    await fleet.ok(*flags, context=FRESH)
    made = await fleet.find(CONFIG_MAPS, "aws-auth", "kube-system", FRESH)
    assert made
    assert not made.get("data")
    made["data"] = {"mapRoles": "- rolearn: theirs # kept\n"}
    changed = await fleet.admin(FRESH).update(CONFIG_MAPS, made)
    await fleet.ok(*flags, context=FRESH)
    assert await fleet.find(CONFIG_MAPS, "aws-auth", "kube-system", FRESH) == changed


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--registration-drivers=magic"], "there is no registration driver 'magic'; there are: awsirsa, csr, grpc"),
        (["--registration-drivers=awsirsa"], "--hub-cluster-arn is required"),
        (["--registration-drivers=grpc"], "grpc server should not be empty if the grpc endpoint type is hostname"),
        (["--registration-drivers=grpc", "--grpc-endpoint-type=route"], "not be empty if the grpc endpoint type is route"),
        (["--feature-gates=Nonsense=true"], "Nonsense is no feature gate"),
        (["--feature-gates=ClusterProfile=true"], "ClusterProfile is not supported"),
        (["--auto-approved-csr-identities=u"], "if not initializing hub with csr registration"),
        (
            ["--registration-drivers=csr", "--auto-approved-csr-identities=u"],
            "should enable feature gate ManagedClusterAutoApproval",
        ),
        (["--registration-drivers=csr", "--auto-approved-grpc-identities=u"], "if not initializing hub with grpc registration"),
        (["--image-registry="], "registry should not be empty"),
        (["--image-pull-credential-file=/nowhere"], "--image-pull-credential-file /nowhere"),
        (["--cluster-manager-values-file=/nowhere"], "--cluster-manager-values-file /nowhere"),
        (["--bundle-version-overrides=/nowhere"], "--bundle-version-overrides /nowhere"),
    ],
)
async def test_wrong_options_are_refused_by_name_before_anything_is_written(fleet: Fleet, flags: list[str], complaint: str) -> None:
    before = await fleet.revision(FRESH)
    assert complaint in await fleet.fails("init", *flags, context=FRESH)
    assert await fleet.revision(FRESH) == before


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (
            ["--registration-drivers=csr,kerberos"],
            "--registration-drivers: there is no registration driver 'kerberos'",
        ),
        (
            ["--registration-drivers=pigeon", "--force"],
            "there is no registration driver 'pigeon'; there are: awsirsa, csr, grpc",
        ),
        (["--driver-option=acme.a=b"], "--driver-option: 'acme' is none of the given drivers"),
        (["--driver-option=csr.auto-approved-csr-users=u"], "--driver-option: 'csr' is none of the given drivers"),
        (["--driver-option=acme"], "expected DRIVER.OPTION=VALUE"),
    ],
)
async def test_what_no_driver_hears_is_refused(fleet: Fleet, flags: list[str], complaint: str) -> None:
    before = await fleet.revision(FRESH)
    assert complaint in await fleet.fails("init", *flags, context=FRESH)
    assert await fleet.revision(FRESH) == before


async def test_a_driver_of_a_values_file_has_to_be_there_too(fleet: Fleet, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    drivers = [{"authType": "carrier-pigeon"}]
    values.write_text(yaml.safe_dump({"clusterManager": {"registrationConfiguration": {"registrationDrivers": drivers}}}))
    complaint = await fleet.fails("init", f"--cluster-manager-values-file={values}", context=FRESH)
    assert "--cluster-manager-values-file: " in complaint
    assert "there is no registration driver 'carrier-pigeon'; there are: awsirsa, csr" in complaint


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--resource-qos-class=Best"], "--resource-qos-class"),
        (["--resource-limits=cpu=1"], "--resource-qos-class=ResourceRequirement"),
        (["--resource-qos-class=ResourceRequirement", "--resource-limits=cpu=much"], "--resource-limits"),
        (["--feature-gates=DefaultClusterSet=perhaps"], "--feature-gates"),
        (["--singleton"], "see muster up"),
        (["--nonsense"], "--nonsense"),
    ],
)
async def test_wrong_usage_ends_with_2(fleet: Fleet, flags: list[str], complaint: str) -> None:
    assert complaint in await fleet.fails("init", *flags, context=FRESH, code=2)


@pytest.mark.parametrize(
    "arn",
    [
        "arn:eks:us-west-2:111111111111:cluster/hub-0",
        "arn:aws:eks:us-west-2:11111111111:cluster/hub-0",
        "arn:aws:eks:us-west-2:111111111111:hub-0",
        f"arn:aws:eks:us-west-2:111111111111:cluster/{'h' * 32}",
    ],
)
async def test_an_arn_that_is_none_is_refused_before_anything_is_written(fleet: Fleet, arn: str) -> None:
    before = await fleet.revision(FRESH)
    complaint = await fleet.fails("init", "--registration-drivers=awsirsa", f"--hub-cluster-arn={arn}", context=FRESH)
    assert "--hub-cluster-arn: " in complaint
    assert "hubClusterArn: " in complaint
    assert await fleet.revision(FRESH) == before


async def test_images_resources_and_values_reach_the_operator(fleet: Fleet, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump(
            {
                "replicaCount": 2,
                "images": {"tag": "v9"},
                "clusterManager": {
                    "registrationConfiguration": {"featureGates": [{"feature": "ResourceCleanup", "mode": "Disable"}]}
                },
            }
        )
    )
    credential = tmp_path / "config.json"
    credential.write_text('{"auths": {"example.io": {"auth": "eDp5"}}}')
    flags = ["--image-registry=example.io/team", "--cluster-manager-values-file", str(values), "--enable-sync-labels"]
    flags += ["--resource-qos-class=ResourceRequirement", "--resource-requests=cpu=5m", "--resource-limits=memory=1Gi"]
    await fleet.ok("init", *flags, "--image-pull-credential-file", str(credential), context=FRESH)
    deployment = await fleet.find(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE, FRESH)
    assert deployment
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "example.io/team/muster:v9"
    assert container["args"][-1] == "--enable-sync-labels"
    assert container["resources"] == {"requests": {"cpu": "5m"}, "limits": {"memory": "1Gi"}}
    assert deployment["spec"]["replicas"] == 2
    assert await fleet.find(SECRETS, "open-cluster-management-image-pull-credentials", OPERATOR_NAMESPACE, FRESH)
    made = await spec(fleet)
    assert made["registrationConfiguration"]["featureGates"] == [{"feature": "ResourceCleanup", "mode": "Disable"}]
    assert made["resourceRequirement"]["type"] == "ResourceRequirement"
    values.write_text("surprise: 1")
    assert "surprise is not supported" in await fleet.fails("init", "--cluster-manager-values-file", str(values), context=FRESH)


async def test_files_are_replaced_whole_and_are_the_owners_alone(fleet: Fleet, tmp_path: Path) -> None:
    resources, join = tmp_path / "all.yaml", tmp_path / "join.sh"
    resources.write_text("x" * 5_000_000)
    await fleet.ok("init", "--output-file", str(resources), "--output-join-command-file", str(join), context=FRESH)
    kinds = [document["kind"] for document in yaml.safe_load_all(resources.read_text())]
    assert {"CustomResourceDefinition", "Namespace", "Deployment", "ClusterManager"} <= set(kinds)
    assert "x" * 100 not in resources.read_text()
    assert os.stat(resources).st_mode & 0o777 == 0o600
    assert os.stat(join).st_mode & 0o777 == 0o700
    assert join.read_text().rstrip().endswith("--cluster-name $1")


async def test_a_dry_run_writes_nothing_and_issues_no_token(fleet: Fleet, tmp_path: Path) -> None:
    before = await fleet.revision(FRESH)
    path = tmp_path / "all.yaml"
    said = await fleet.ok("init", "--dry-run", "--wait", "--output-file", str(path), "--use-bootstrap-token", context=FRESH)
    assert "would apply customresourcedefinitions.apiextensions.k8s.io clustermanagers.operator.open-cluster-management.io" in said
    assert "would apply clustermanagers.operator.open-cluster-management.io cluster-manager" in said
    assert "--hub-token <token>" in said
    assert "certificatesigningrequests" not in said
    assert await fleet.revision(FRESH) == before
    assert not await fleet.find(CRDS, "clustermanagers.operator.open-cluster-management.io", "", FRESH)
    assert "kind: ClusterManager" in path.read_text()


async def test_missing_permission_is_explained(fleet: Fleet) -> None:
    complaint = await fleet.fails("init", context="mallory@fresh")
    assert "forbidden" in complaint
    assert await fleet.find(NAMESPACES, OPERATOR_NAMESPACE, "", FRESH) is None


async def test_without_a_namespace_of_its_own_the_operators_must_be_there(fleet: Fleet) -> None:
    assert "not found" in await fleet.fails("init", "--create-namespace=false", context=FRESH)


async def test_waiting_tells_that_no_node_runs_the_operator(fleet: Fleet) -> None:
    complaint = await fleet.fails("init", "--wait", "--timeout", "1", context=FRESH)
    assert "Deployment open-cluster-management/cluster-manager" in complaint


async def probes(fleet: Fleet) -> list[str]:
    return [one["metadata"]["name"] for one in (await fleet.admin(FRESH).list(SIGNING_REQUESTS)).items]


async def test_a_hub_that_signs_is_not_warned_about_and_the_probe_is_gone(fleet: Fleet) -> None:
    result = await fleet.run("init", context=FRESH)
    assert "CSR support check Passed with 0 warnings" in result.stderr
    assert await probes(fleet) == []


class Unsigning:
    """A client of a hub whose signer never signs."""

    @staticmethod
    def of(fleet: Fleet) -> Any:
        inner = fleet.admin(FRESH)
        exchange = inner.exchange

        async def without_certificates(
            method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
        ) -> bytes:
            answer = await exchange(method, path, query, body, media, idempotent=idempotent)
            if method == "GET" and "/certificatesigningrequests/" in path:
                found = json.loads(answer)
                found.get("status", {}).pop("certificate", None)
                return json.dumps(found).encode()
            return answer

        inner.exchange = without_certificates  # type: ignore[method-assign]
        return inner


async def test_a_hub_that_never_signs_is_warned_about_and_still_initialized(fleet: Fleet) -> None:
    told = Told()
    options = InitOptions(probe_within=0.3)
    address = HubAddress(fleet.server.cluster_url(FRESH), fleet.server.ca_pem)
    await initialize(Unsigning.of(fleet), address, options, told)
    assert await told.heard("warning: this hub does not issue client certificates: approved, and not signed within 0.3 s")
    assert await probes(fleet) == []
    assert await fleet.find(CLUSTER_MANAGERS, "cluster-manager", "", FRESH)


async def test_a_probe_that_is_interrupted_is_cleaned_up(fleet: Fleet) -> None:
    asking = asyncio.create_task(probe.probe_signing(Unsigning.of(fleet), within=60))
    await fleet.until(lambda: probes(fleet))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await probes(fleet) == []


async def test_a_probe_that_is_interrupted_while_it_cleans_up_does_so_and_is_interrupted(fleet: Fleet) -> None:
    client = fleet.admin(FRESH)
    exchange, cleaning, go_on = client.exchange, asyncio.Event(), asyncio.Event()

    async def slow_to_delete(
        method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        if method == "DELETE":
            cleaning.set()
            await go_on.wait()
        return await exchange(method, path, query, body, media, idempotent=idempotent)

    client.exchange = slow_to_delete  # type: ignore[method-assign]
    asking = asyncio.create_task(probe.probe_signing(client))
    await cleaning.wait()
    asking.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await probes(fleet) == []


async def test_who_may_not_ask_for_certificates_is_told_so_and_nothing_fails(fleet: Fleet) -> None:
    nobody = fleet.user(UserInfo("mallory", groups=("system:authenticated",)), FRESH)
    found = await probe.probe_signing(nobody)
    assert found.answer is probe.Answer.UNKNOWN
    assert "no permission" in found.detail


async def test_clusters_that_register_otherwise_need_no_probe(fleet: Fleet) -> None:
    result = await fleet.run("init", "--registration-drivers=grpc", "--grpc-server=hub.example.io:8443", context=FRESH)
    assert result.exit_code == 0, result.output
    assert "CSR support check" not in result.stderr
    assert "--registration-auth grpc --grpc-server hub.example.io:8443" in result.stdout


async def test_a_hub_that_works_already_is_left_working(fleet: Fleet) -> None:
    await fleet.cluster("cluster1")
    await fleet.ok("init")
    assert await fleet.find(MANAGED_CLUSTERS, "cluster1")
