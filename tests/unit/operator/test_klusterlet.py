"""A Klusterlet puts agents on its cluster, keeps them right whatever happens, says how they fare, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from muster.api.crds import SPOKE
from muster.machinery.objects import Object
from muster.operator.bundle import pull_secret
from muster.operator.klusterlet.removal import APPLIED_WORK_FINALIZER, APPLIED_WORKS
from muster.operator.names import (
    ADDON_NAMESPACE,
    KLUSTERLET_FINALIZER,
    KLUSTERLET_LABEL,
    KLUSTERLETS,
    OPERATOR_NAMESPACE,
    PULL_SECRET,
)
from muster.registration.agent.reports.claims import PROPERTIES
from muster.registration.kinds import CLUSTER_CLAIMS
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_SECRET
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from muster.runtime.client.errors import Invalid
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.spokes import AGENT, IMAGE, WORK_AGENT, Hub, K, Spoke, operated

AWS: dict[str, Any] = {
    "hubClusterArn": "arn:aws:eks:us-west-2:111111111111:cluster/hub-0",
    "managedClusterArn": "arn:aws:eks:us-west-2:222222222222:cluster/managed-0",
}
SUFFIX = "a21fefa5047b57e2e7876e799a5595de"


@pytest.fixture
async def spoke(here: Cluster, far: Cluster) -> AsyncIterator[Spoke]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(operated(here, Hub(far)))


async def remains(place: Cluster) -> list[str]:
    found = []
    for resource in (DEPLOYMENTS, ROLES, ROLE_BINDINGS, SERVICE_ACCOUNTS, SECRETS):
        for obj in (await place.admin.list(resource)).items:
            if obj["metadata"]["namespace"] != OPERATOR_NAMESPACE and K in obj["metadata"]["name"]:
                found.append(f"{resource}/{obj['metadata']['namespace']}/{obj['metadata']['name']}")
    for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, NAMESPACES, CRDS):
        for obj in (await place.admin.list(resource)).items:
            name = obj["metadata"]["name"]
            if "open-cluster-management" in name and name != OPERATOR_NAMESPACE and not name.startswith("klusterlets."):
                found.append(f"{resource}/{name}")
    return found


async def test_a_klusterlet_puts_an_agent_on_the_cluster(spoke: Spoke) -> None:
    await spoke.up(clusterName="c1")
    place = spoke.place
    klusterlet = await place.until_found(KLUSTERLETS, K)
    assert klusterlet["metadata"]["finalizers"] == [KLUSTERLET_FINALIZER]
    for kind in SPOKE:
        assert await place.find(CRDS, kind.name), kind.name
    namespace = await place.until_found(NAMESPACES, AGENT_NAMESPACE)
    assert namespace["metadata"]["labels"][KLUSTERLET_LABEL] == K
    assert await place.find(NAMESPACES, ADDON_NAMESPACE)
    for account in (f"{K}-registration-sa", f"{K}-work-sa"):
        assert await place.find(SERVICE_ACCOUNTS, account, AGENT_NAMESPACE), account
    assert await place.find(CLUSTER_ROLES, "open-cluster-management:klusterlet-registration:agent")
    assert await place.find(ROLES, "open-cluster-management:management:klusterlet-registration:agent", AGENT_NAMESPACE)
    pod = (await spoke.deployment())["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == f"{K}-registration-sa"
    assert pod["containers"][0]["image"] == IMAGE
    arguments = await spoke.arguments()
    assert arguments[0] == "agent"
    assert "--cluster-name=c1" in arguments
    assert f"--bootstrap-kubeconfig-secret={BOOTSTRAP_SECRET}" in arguments
    assert not any(argument.startswith(("--agent-id", "--registration-auth")) for argument in arguments)


async def test_the_conditions_follow_the_agents(spoke: Spoke) -> None:
    await spoke.up()
    await spoke.says("Available", "False", "NoAvailablePods")
    await spoke.says("RegistrationDesiredDegraded", "True", "UnavailablePods")
    await spoke.says("WorkDesiredDegraded", "False", "DeploymentsFunctional")
    await spoke.says("ValidFeatureGates", "True", "FeatureGatesAllValid")
    await spoke.place.set_available(AGENT, AGENT_NAMESPACE)
    # The work agent is not wanted before there is a credential for the hub.
    await spoke.says("Available", "True", "KlusterletAvailable")
    await spoke.says("RegistrationDesiredDegraded", "False", "DeploymentsFunctional")
    status = (await spoke.place.until_found(KLUSTERLETS, K))["status"]
    assert status["observedGeneration"] == 1
    assert [one["name"] for one in status["generations"]] == [AGENT, WORK_AGENT]
    assert {"clusterroles", "deployments", "serviceaccounts"} <= {one["resource"] for one in status["relatedResources"]}


async def test_a_singleton_has_one_agent_with_the_klusterlets_own_id(spoke: Spoke) -> None:
    await spoke.up(deployOption={"mode": "Singleton"})
    uid = (await spoke.place.until_found(KLUSTERLETS, K))["metadata"]["uid"]
    assert f"--agent-id={uid}" in await spoke.arguments(f"{K}-agent")
    pod = (await spoke.deployment(f"{K}-agent"))["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == f"{K}-work-sa"
    assert not await spoke.place.find(DEPLOYMENTS, AGENT, AGENT_NAMESPACE)
    assert "--with-work" in await spoke.arguments(f"{K}-agent")
    await spoke.place.set_available(f"{K}-agent", AGENT_NAMESPACE, available=False)
    await spoke.says("WorkDesiredDegraded", "True", "UnavailablePods")


async def test_the_work_agent_comes_with_the_credential_for_the_hub(spoke: Spoke) -> None:
    gates = [{"feature": name, "mode": "Enable"} for name in ("RawFeedbackJsonString", "ExecutorPerManifest")]
    given = {"statusSyncInterval": "30s", "featureGates": gates}
    await spoke.bootstrap()
    await spoke.up(workConfiguration=given)
    assert (await spoke.deployment(WORK_AGENT))["spec"]["replicas"] == 0
    await spoke.credential()
    await spoke.says("HubConnectionDegraded", "False")
    await spoke.place.until(lambda: _wanted(spoke), "the work agent is wanted")
    arguments = await spoke.arguments(WORK_AGENT)
    assert "--status-sync-interval=30s" in arguments
    assert "--feature-gates=RawFeedbackJsonString=true,ExecutorPerManifest=true" in arguments
    await spoke.says("ValidFeatureGates", "True")
    pod = (await spoke.deployment(WORK_AGENT))["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == f"{K}-work-sa"
    assert {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume} == {"hub-kubeconfig-secret"}


async def _wanted(spoke: Spoke) -> bool:
    return bool((await spoke.deployment(WORK_AGENT))["spec"]["replicas"])


async def test_another_mode_replaces_the_agents(spoke: Spoke) -> None:
    await spoke.up()
    await spoke.deployment()
    await spoke.change({"deployOption": {"mode": "Singleton"}})
    await spoke.deployment(f"{K}-agent")
    await spoke.place.until_gone(DEPLOYMENTS, AGENT, AGENT_NAMESPACE)
    await spoke.place.until_gone(SERVICE_ACCOUNTS, f"{K}-registration-sa", AGENT_NAMESPACE)


async def test_what_a_klusterlet_says_goes_to_the_agent(spoke: Spoke) -> None:
    await spoke.up(
        externalServerURLs=[{"url": "https://one:6443"}, {"url": "https://two:6443"}],
        hubApiServerHostAlias={"ip": "10.0.0.1", "hostname": "hub.example.com"},
        priorityClassName="high",
        nodePlacement={"nodeSelector": {"a": "b"}},
        registrationConfiguration={
            "clientCertExpirationSeconds": 7200,
            "featureGates": [{"feature": "ClusterClaim", "mode": "Disable"}, {"feature": "ClusterProperty", "mode": "Enable"}],
            "clusterAnnotations": {"agent.open-cluster-management.io/a": "1", "other": "2"},
            "clusterClaimConfiguration": {"maxCustomClusterClaims": 7, "reservedClusterClaimSuffixes": ["x.io", "y.io"]},
        },
    )
    arguments = await spoke.arguments()
    for expected in (
        "--spoke-external-server-urls=https://one:6443",
        "--spoke-external-server-urls=https://two:6443",
        "--client-cert-expiration-seconds=7200",
        "--feature-gates=ClusterClaim=false,ClusterProperty=true",
        "--cluster-annotations=agent.open-cluster-management.io/a=1",
        "--max-custom-cluster-claims=7",
        "--reserved-cluster-claim-suffixes=x.io",
        "--reserved-cluster-claim-suffixes=y.io",
    ):
        assert expected in arguments, expected
    assert not any("other" in argument or "cluster-name" in argument for argument in arguments)
    pod = (await spoke.deployment())["spec"]["template"]["spec"]
    assert pod["hostAliases"] == [{"ip": "10.0.0.1", "hostnames": ["hub.example.com"]}]
    assert (pod["priorityClassName"], pod["nodeSelector"]) == ("high", {"a": "b"})


async def test_cluster_properties_are_defined_where_agents_read_them(spoke: Spoke) -> None:
    await spoke.up(registrationConfiguration={"featureGates": [{"feature": "ClusterProperty", "mode": "Enable"}]})
    kind = {"apiVersion": "about.k8s.io/v1alpha1", "kind": "ClusterProperty"}
    await spoke.place.admin.create(PROPERTIES, {**kind, "metadata": {"name": "a"}, "spec": {"value": "b"}})
    with pytest.raises(Invalid):
        await spoke.place.admin.create(PROPERTIES, {**kind, "metadata": {"name": "b"}, "spec": {}})
    await spoke.place.admin.delete(PROPERTIES, "a")
    await spoke.delete()
    await spoke.until_gone()
    assert not await spoke.place.find(CRDS, "clusterproperties.about.k8s.io")


async def test_several_hubs_are_several_bootstrap_secrets(spoke: Spoke) -> None:
    secrets = {"kubeConfigSecrets": [{"name": "one"}, {"name": "two"}], "hubConnectionTimeoutSeconds": 300}
    await spoke.up(
        registrationConfiguration={
            "featureGates": [{"feature": "MultipleHubs", "mode": "Enable"}],
            "bootstrapKubeConfigs": {"type": "LocalSecrets", "localSecretsConfig": secrets},
        }
    )
    arguments = await spoke.arguments()
    given = [argument for argument in arguments if argument.startswith("--bootstrap")]
    assert given == ["--bootstrap-kubeconfig-secret=one", "--bootstrap-kubeconfig-secret=two"]
    assert "--hub-connection-timeout-seconds=300" in arguments
    assert "--feature-gates=MultipleHubs=true" in arguments


async def test_registration_by_aws_identities_ties_the_accounts_to_a_role(spoke: Spoke) -> None:
    await spoke.up(registrationConfiguration={"registrationDriver": {"authType": "awsirsa", "awsIrsa": AWS}})
    for name in (f"{K}-registration-sa", f"{K}-work-sa"):
        account = await spoke.place.until_found(SERVICE_ACCOUNTS, name, AGENT_NAMESPACE)
        role = f"arn:aws:iam::222222222222:role/ocm-managed-cluster-{SUFFIX}"
        assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == role
    arguments = await spoke.arguments()
    assert {"--registration-auth=awsirsa", f"--managed-cluster-role-suffix={SUFFIX}"} <= set(arguments)
    pod = (await spoke.deployment())["spec"]["template"]["spec"]
    assert "initContainers" not in pod
    await spoke.change({"registrationConfiguration": None})

    async def untied() -> bool:
        account = await spoke.place.until_found(SERVICE_ACCOUNTS, f"{K}-registration-sa", AGENT_NAMESPACE)
        return not account["metadata"].get("annotations")

    await spoke.place.until(untied, "the account is not tied to a role any more")


BAD: list[tuple[str, Object]] = [
    ("registrationDriver.awsIrsa", {"registrationConfiguration": {"registrationDriver": {"authType": "awsirsa"}}}),
    ("spec.deployOption.mode", {"deployOption": {"mode": "Detached"}}),
    ("bootstrapKubeConfigs", {"registrationConfiguration": {"featureGates": [{"feature": "MultipleHubs", "mode": "Enable"}]}}),
    ("clientCertExpirationSeconds", {"registrationConfiguration": {"clientCertExpirationSeconds": 60}}),
    ("spec.externalServerURLs", {"externalServerURLs": [{"url": "http://plain"}]}),
    ("clusterAnnotations", {"registrationConfiguration": {"clusterAnnotations": {"agent.open-cluster-management.io/a": "b,c"}}}),
    ("spec.clusterName", {"clusterName": "managed-clusters"}),
    ("spec.namespace", {"namespace": "open-cluster-management-hub"}),
    ("spec.namespace", {"namespace": "open-cluster-management-agent-addon"}),
]


@pytest.mark.parametrize(("field", "spec"), BAD, ids=[field for field, _ in BAD])
async def test_a_bad_klusterlet_gets_a_condition_and_harms_nobody(spoke: Spoke, field: str, spec: Object) -> None:
    await spoke.create("bad", **spec)
    told = await spoke.says("Applied", "False", "KlusterletApplyFailed", "bad")
    assert field in told["message"]
    await spoke.up("good", namespace="open-cluster-management-good")
    await spoke.delete("bad")
    await spoke.until_gone("bad")
    assert await spoke.place.find(DEPLOYMENTS, "good-registration-agent", "open-cluster-management-good")


async def test_a_name_that_cannot_be_a_label_is_refused_and_can_be_deleted(spoke: Spoke) -> None:
    name = "k" * 100
    await spoke.create(name)
    assert "metadata.name" in (await spoke.says("Applied", "False", "KlusterletApplyFailed", name))["message"]
    await spoke.delete(name)
    await spoke.until_gone(name)


async def test_agents_are_spread_where_the_control_plane_is_and_one_of_them_leads(spoke: Spoke) -> None:
    await spoke.up()
    assert "--leader-elect" not in await spoke.arguments()
    for number in range(2):
        labels = {"node-role.kubernetes.io/control-plane": ""}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}}
        await spoke.place.admin.create(NODES, node)

    async def seen() -> bool:
        return bool((await spoke.deployment())["spec"]["replicas"] == 3)

    await spoke.place.until(seen, "there are three agents")
    await spoke.until_argument("--leader-elect")


@pytest.mark.parametrize("name", ["kerberos", "carrier-pigeon"])
async def test_a_driver_that_nobody_has_is_refused_naming_those_there_are(spoke: Spoke, name: str) -> None:
    await spoke.create(registrationConfiguration={"registrationDriver": {"authType": name}})
    told = await spoke.says("Applied", "False", "KlusterletApplyFailed")
    field = "spec.registrationConfiguration.registrationDriver.authType"
    assert told["message"] == f"{field}: there is no registration driver '{name}'; there are: awsirsa, csr, grpc"
    await spoke.change({"registrationConfiguration": {"registrationDriver": {"authType": "csr"}}})
    await spoke.says("Applied", "True", "KlusterletApplied")


async def test_a_bad_klusterlet_is_well_when_it_is_corrected(spoke: Spoke) -> None:
    await spoke.create(registrationConfiguration={"registrationDriver": {"authType": "awsirsa"}})
    await spoke.says("Applied", "False")
    await spoke.change({"registrationConfiguration": {"registrationDriver": {"awsIrsa": AWS}}})
    await spoke.says("Applied", "True", "KlusterletApplied")


async def test_unknown_feature_gates_are_named_and_passed_over(spoke: Spoke) -> None:
    gates = [{"feature": "Nonsense", "mode": "Enable"}, {"feature": "ClusterClaim", "mode": "Enable"}]
    await spoke.up(registrationConfiguration={"featureGates": gates}, workConfiguration={"featureGates": [{"feature": "More"}]})
    told = await spoke.says("ValidFeatureGates", "False", "InvalidFeatureGatesExisting")
    assert "Nonsense" in told["message"]
    assert "More" in told["message"]
    assert "--feature-gates=ClusterClaim=true" in await spoke.arguments()


async def test_gates_of_upstream_alone_are_valid(spoke: Spoke) -> None:
    await spoke.up(registrationConfiguration={"featureGates": [{"feature": "NetworkPolicies", "mode": "Enable"}]})
    valid = await spoke.says("ValidFeatureGates", "True", "FeatureGatesAllValid")
    assert valid["message"] == "Feature gates are all valid; without effect here: Registration: [NetworkPolicies]"


async def test_a_new_image_and_a_pull_spec_of_ones_own_are_rolled_out(spoke: Spoke) -> None:
    await spoke.up(registrationImagePullSpec="quay.io/open-cluster-management/registration:v1")
    assert (await spoke.deployment())["spec"]["template"]["spec"]["containers"][0]["image"] == IMAGE
    await spoke.change({"registrationImagePullSpec": "example.com/mine/muster:2"})

    async def new() -> bool:
        container: Object = (await spoke.deployment())["spec"]["template"]["spec"]["containers"][0]
        return bool(container["image"] == "example.com/mine/muster:2")

    await spoke.place.until(new, "the new image is deployed")
    generation = (await spoke.deployment())["metadata"]["generation"]

    async def told() -> bool:
        status = (await spoke.place.until_found(KLUSTERLETS, K))["status"]
        return bool(status["generations"][0]["lastGeneration"] == generation and status["observedGeneration"] == 2)

    await spoke.place.until(told, "the status tells of the new generation")


async def test_drift_is_repaired(spoke: Spoke) -> None:
    await spoke.up()
    place = spoke.place
    role = "open-cluster-management:klusterlet-registration:agent"
    await place.admin.patch(CLUSTER_ROLES, role, {"rules": []})
    await place.admin.delete(SERVICE_ACCOUNTS, f"{K}-registration-sa", AGENT_NAMESPACE)
    await place.admin.patch(DEPLOYMENTS, AGENT, {"spec": {"replicas": 5}}, AGENT_NAMESPACE)
    await place.admin.delete(CRDS, SPOKE[0].name)

    async def repaired() -> bool:
        roles = await place.find(CLUSTER_ROLES, role)
        agent = await spoke.deployment()
        parts = (
            (roles or {}).get("rules"),
            agent["spec"]["replicas"] == 1,
            await place.find(SERVICE_ACCOUNTS, f"{K}-registration-sa", AGENT_NAMESPACE),
            await place.find(CRDS, SPOKE[0].name),
        )
        return all(parts)

    await place.until(repaired, "all is as it was")


async def test_a_namespace_that_somebody_deletes_comes_back(spoke: Spoke) -> None:
    await spoke.up()
    before = await spoke.place.until_found(NAMESPACES, AGENT_NAMESPACE)
    await spoke.place.admin.delete(NAMESPACES, AGENT_NAMESPACE)

    async def back() -> bool:
        found = await spoke.place.find(NAMESPACES, AGENT_NAMESPACE)
        new = found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]
        return new and await spoke.place.find(DEPLOYMENTS, AGENT, AGENT_NAMESPACE) is not None

    await spoke.place.until(back, "namespace and agent are back")
    await spoke.says("Applied", "True")


async def test_an_operator_at_rest_asks_for_nothing(spoke: Spoke) -> None:
    await spoke.bootstrap()
    await spoke.credential()
    await spoke.up()
    for agent in (AGENT, WORK_AGENT):
        await spoke.place.set_available(agent, AGENT_NAMESPACE)
    await spoke.says("HubConnectionDegraded", "False")
    await spoke.says("Available", "True")
    spoke.client.taken()
    quiet = 0
    async with asyncio.timeout(20):
        while quiet < 20:
            await asyncio.sleep(0.02)
            quiet = 0 if spoke.client.taken() else quiet + 1
    assert not spoke.client.taken()


async def test_another_namespace_moves_the_agents_there(spoke: Spoke) -> None:
    await spoke.up()
    await spoke.change({"namespace": "open-cluster-management-other"})
    await spoke.deployment(AGENT, "open-cluster-management-other")
    await spoke.place.until_gone(NAMESPACES, AGENT_NAMESPACE)
    assert await spoke.place.find(NAMESPACES, ADDON_NAMESPACE)


async def test_two_klusterlets_do_not_fight_over_a_namespace(spoke: Spoke) -> None:
    await spoke.up()
    await spoke.credential()
    await asyncio.sleep(1.1)  # creation times have whole seconds
    await spoke.create("second")
    told = await spoke.says("Applied", "False", "KlusterletApplyFailed", "second")
    assert K in told["message"]
    await spoke.delete("second")
    await spoke.until_gone("second")
    assert await spoke.place.find(SECRETS, HUB_SECRET, AGENT_NAMESPACE)
    assert await spoke.place.find(DEPLOYMENTS, AGENT, AGENT_NAMESPACE)


async def test_an_older_klusterlet_does_not_take_the_namespace_of_a_younger_one(spoke: Spoke) -> None:
    await spoke.up("older", namespace="open-cluster-management-older")
    await asyncio.sleep(1.1)  # creation times have whole seconds
    await spoke.up()
    await spoke.change({"namespace": AGENT_NAMESPACE}, "older")
    assert K in (await spoke.says("Applied", "False", "KlusterletApplyFailed", "older"))["message"]
    namespace = await spoke.place.until_found(NAMESPACES, AGENT_NAMESPACE)
    assert namespace["metadata"]["labels"][KLUSTERLET_LABEL] == K


async def test_whoever_waits_for_a_namespace_gets_it_when_it_is_free(spoke: Spoke) -> None:
    await spoke.up()
    await asyncio.sleep(1.1)  # creation times have whole seconds
    await spoke.create("second")
    await spoke.says("Applied", "False", name="second")
    await spoke.delete()
    await spoke.until_gone()
    await spoke.says("Applied", "True", name="second")
    await spoke.deployment("second-registration-agent")


async def test_the_pull_secret_goes_where_pods_are(spoke: Spoke) -> None:
    await spoke.place.admin.apply(SECRETS, pull_secret(OPERATOR_NAMESPACE, b"{}"), manager="test")
    await spoke.up()
    assert await spoke.place.until_found(SECRETS, PULL_SECRET, AGENT_NAMESPACE)
    assert await spoke.place.until_found(SECRETS, PULL_SECRET, ADDON_NAMESPACE)


async def test_nothing_is_left_of_a_deleted_klusterlet(spoke: Spoke) -> None:
    await spoke.bootstrap()
    await spoke.up()
    await spoke.credential()
    await spoke.delete()
    await spoke.until_gone()
    assert await remains(spoke.place) == []


async def test_claims_keep_their_definition(spoke: Spoke) -> None:
    await spoke.up()
    claim = {
        "apiVersion": CLUSTER_CLAIMS.api_version,
        "kind": "ClusterClaim",
        "metadata": {"name": "id.k8s.io"},
        "spec": {"value": "x"},
    }
    await spoke.place.admin.create(CLUSTER_CLAIMS, claim)
    await spoke.delete()
    await spoke.until_gone()
    assert await spoke.place.find(CLUSTER_CLAIMS, "id.k8s.io")


async def test_records_of_works_are_let_go_and_what_they_applied_stays(spoke: Spoke) -> None:
    await spoke.up()
    uid = (await spoke.place.until_found(KLUSTERLETS, K))["metadata"]["uid"]
    for name, agent in (("mine", uid), ("anothers", "other")):
        work = {
            "apiVersion": APPLIED_WORKS.api_version,
            "kind": "AppliedManifestWork",
            "metadata": {"name": name, "finalizers": [APPLIED_WORK_FINALIZER]},
            "spec": {"hubHash": "h", "manifestWorkName": name, "agentID": agent},
        }
        await spoke.place.admin.create(APPLIED_WORKS, work)
    await spoke.delete()
    await spoke.until_gone()
    mine = await spoke.place.until_found(APPLIED_WORKS, "mine")
    assert not mine["metadata"].get("finalizers")
    assert not mine["metadata"].get("deletionTimestamp")
    other = await spoke.place.until_found(APPLIED_WORKS, "anothers")
    assert other["metadata"]["finalizers"] == [APPLIED_WORK_FINALIZER]


async def test_the_first_of_two_klusterlets_to_go_leaves_what_they_share(spoke: Spoke) -> None:
    await spoke.up()
    await spoke.up("second", namespace="open-cluster-management-second")
    await spoke.delete()
    await spoke.until_gone()
    assert await spoke.place.find(NAMESPACES, ADDON_NAMESPACE)
    assert await spoke.place.find(CRDS, SPOKE[0].name)
    await spoke.delete("second")
    await spoke.until_gone("second")
    assert await remains(spoke.place) == []


async def test_what_is_gone_already_does_not_hinder_removal(spoke: Spoke) -> None:
    await spoke.up()
    await spoke.place.admin.delete(NAMESPACES, AGENT_NAMESPACE)
    for kind in SPOKE:
        await spoke.place.admin.delete(CRDS, kind.name)
    await spoke.delete()
    await spoke.until_gone()
    assert await remains(spoke.place) == []


async def test_labels_are_synced_when_asked_for(here: Cluster, far: Cluster) -> None:
    async with operated(here, Hub(far), sync_labels=True) as spoke:
        await spoke.create(labels={"team": "blue"})
        await spoke.says("Applied", "True")
        agent = await spoke.deployment()
        assert agent["metadata"]["labels"]["team"] == "blue"
        role = await here.until_found(CLUSTER_ROLES, "open-cluster-management:klusterlet-registration:agent")
        assert role["metadata"]["labels"]["team"] == "blue"
