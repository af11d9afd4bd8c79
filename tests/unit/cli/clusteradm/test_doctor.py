"""`clusteradm doctor` finds what is wrong with a cluster and says what to do; `upgrade` changes the version and nothing else."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.api.crds import OPERATOR, definitions
from muster.machinery.clock import SYSTEM
from muster.operator.names import KLUSTERLETS, OPERATOR_NAMESPACE
from muster.registration.hub.install import HOOKS, WebhookEndpoint
from muster.registration.names import LEASE, cluster_role, registration_binding
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SIGNING_REQUESTS,
)
from muster.runtime.install import await_definitions
from muster.work.hub import install as work_install
from muster.work.kinds import MANIFEST_WORKS
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.pages import documented_fields
from tests.unit.cli.clusteradm.conftest import AVAILABLE, FRESH, PLAIN, Fleet, condition

NAME = "cluster1"


async def findings(fleet: Fleet, *flags: str, verdict: str = "problem") -> dict[str, tuple[str, str]]:
    """Subject to text and remedy, of what has this verdict; the exit code agrees."""
    result = await fleet.run("doctor", NAME, "-o", "json", *flags)
    assert result.stdout, result.stderr
    found = json.loads(result.stdout)[NAME]
    assert result.exit_code == any(one["verdict"] == "problem" for one in found)
    return {one["subject"]: (one["text"], one["remedy"]) for one in found if one["verdict"] == verdict}


async def grant(fleet: Fleet) -> None:
    """What the hub's controller makes for an accepted cluster."""
    admin, role = fleet.admin(), cluster_role(NAME)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    await admin.apply(NAMESPACES, {"metadata": {"name": NAME}}, manager="test")
    await admin.apply(CLUSTER_ROLES, {"metadata": {"name": role}, "rules": []}, manager="test")
    await admin.apply(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": role}, "roleRef": reference}, manager="test")
    binding = {"metadata": {"name": registration_binding(NAME), "namespace": NAME}, "roleRef": reference}
    await admin.apply(ROLE_BINDINGS, binding, manager="test")


async def renew(fleet: Fleet, age: timedelta) -> None:
    moment = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await fleet.admin().apply(
        LEASES, {"metadata": {"name": LEASE, "namespace": NAME}, "spec": {"renewTime": moment}}, manager="test"
    )


async def healthy(fleet: Fleet, conditions: list[dict[str, Any]] | None = None) -> None:
    await fleet.cluster(NAME, spec={"hubAcceptsClient": True}, status={"conditions": conditions or AVAILABLE})
    await grant(fleet)
    await renew(fleet, timedelta(seconds=5))


async def test_a_cluster_that_is_well_has_no_problem(fleet: Fleet) -> None:
    await healthy(fleet)
    assert await findings(fleet) == {}
    assert "cluster1: nothing wrong" in await fleet.ok("doctor")
    assert set(await findings(fleet, verdict="ok")) == {"acceptance", "permissions", "lease", "availability"}


async def test_clusters_with_problems_are_listed_by_name_and_findings_as_a_table(fleet: Fleet) -> None:
    await healthy(fleet)
    assert await fleet.ok("doctor", "-o", "name") == ""
    result = await fleet.run("doctor", NAME, "ghost", "-o", "name")
    assert (result.exit_code, result.stdout.split()) == (1, ["managedcluster.cluster.open-cluster-management.io/ghost"])
    head, *rows = (await fleet.run("doctor", NAME, "ghost", "-o", "wide")).stdout.splitlines()
    assert head.split() == ["CLUSTER", "VERDICT", "SUBJECT", "TEXT", "REMEDY"]
    assert {row.split()[0] for row in rows} == {NAME, "ghost"}
    assert "problem" not in {row.split()[1] for row in rows if row.startswith(NAME)}
    assert "problem" in {row.split()[1] for row in rows if row.startswith("ghost")}
    found = json.loads((await fleet.run("doctor", NAME, "-o", "json")).stdout)
    assert {frozenset(one) for one in found[NAME]} == {frozenset(documented_fields("clusteradm doctor"))}


async def test_a_cluster_that_nobody_introduced(fleet: Fleet) -> None:
    found = await findings(fleet)
    assert found["ManagedCluster"][0] == "there is none of this name: the agent has not introduced the cluster"
    assert "run join" in found["ManagedCluster"][1]


async def test_a_cluster_that_waits_to_be_accepted(fleet: Fleet) -> None:
    await fleet.cluster(NAME)
    csr = await fleet.request(NAME)
    found = await findings(fleet)
    text, remedy = found["certificate requests"]
    assert text.startswith(f"CSR {csr} waits for approval: key sha256:")
    assert remedy == "run accept --clusters cluster1"
    assert found["acceptance"] == ("the cluster is not accepted", "run accept --clusters cluster1")


async def test_requests_that_were_denied_or_are_not_the_agents(fleet: Fleet) -> None:
    await fleet.cluster(NAME)
    csr = await fleet.request(NAME)
    denied = await fleet.admin().get(SIGNING_REQUESTS, csr)
    denied["status"] = {"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": "not today"}]}
    await fleet.admin().update(SIGNING_REQUESTS, denied, subresource="approval")
    text, remedy = (await findings(fleet))["certificate requests"]
    assert text == f"CSR {csr} is denied: not today"
    assert f"kubectl delete csr {csr}" in remedy
    await fleet.admin().delete(SIGNING_REQUESTS, csr)
    await fleet.request("cluster2", label=NAME)
    assert "its subject is of cluster 'cluster2'" in (await findings(fleet))["certificate requests"][0]


async def test_a_hub_whose_controller_does_not_act(fleet: Fleet) -> None:
    await fleet.cluster(NAME, spec={"hubAcceptsClient": True})
    found = await findings(fleet)
    assert "the hub's controller has not acted on it" in found["acceptance"][0]
    assert "ClusterRole open-cluster-management:managedcluster:cluster1" in found["permissions"][0]
    assert "there is no Lease" in found["lease"][0]


async def test_a_hub_that_could_not_grant_access(fleet: Fleet) -> None:
    failed = [condition("HubAcceptedManagedCluster", "False", "Error", "IAM says no")]
    await fleet.cluster(NAME, spec={"hubAcceptsClient": True}, status={"conditions": failed})
    assert "Error: IAM says no" in (await findings(fleet))["acceptance"][0]


async def test_an_agent_that_stopped(fleet: Fleet) -> None:
    stopped = [*AVAILABLE[:2], condition("ManagedClusterConditionAvailable", "Unknown", "ManagedClusterLeaseUpdateStopped")]
    await healthy(fleet, stopped)
    await renew(fleet, timedelta(hours=1))
    found = await findings(fleet)
    assert found["lease"][0].startswith("last renewed 60m ago")
    assert "ManagedClusterLeaseUpdateStopped" in found["availability"][0]
    assert "check the agent" in found["availability"][1]


async def test_a_clock_that_is_wrong(fleet: Fleet) -> None:
    await healthy(fleet, [*AVAILABLE, condition("ManagedClusterConditionClockSynced", "False", "ClockOutOfSync", "2 h apart")])
    assert (await findings(fleet))["clock"] == ("2 h apart", "set the clocks of hub and cluster right (NTP)")


async def test_webhooks_that_do_not_answer(fleet: Fleet) -> None:
    await healthy(fleet)
    for hook in HOOKS:
        endpoint = WebhookEndpoint(fleet.server.ca_pem, url="https://127.0.0.1:1")
        await fleet.admin().apply(hook.resource, hook.document(endpoint), manager="test")
    text, _ = (await findings(fleet))["webhooks"]
    assert "a write to the cluster is not answered" in text


async def test_webhooks_of_works_that_do_not_answer(fleet: Fleet) -> None:
    await healthy(fleet)
    assert "not configured: " in (await findings(fleet, verdict="note"))["webhooks of works"][0]
    for hook in work_install.HOOKS:
        endpoint = WebhookEndpoint(fleet.server.ca_pem, url="https://127.0.0.1:1")
        await fleet.admin().apply(hook.resource, hook.document(endpoint), manager="test")
    assert "a write to the cluster is not answered" in (await findings(fleet))["webhooks of works"][0]


@pytest.mark.parametrize(("code", "verdict"), [(403, "ok"), (500, "problem")])
async def test_a_webhook_that_refuses_has_answered(fleet: Fleet, code: int, verdict: str) -> None:
    def refuse(request: Received) -> Answer:
        if code == 500:
            return Answer("broken", 500)
        response = {"uid": request.json["request"]["uid"], "allowed": False, "status": {"code": code, "message": "no"}}
        return Answer({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    await healthy(fleet)
    with HttpsServer(refuse) as server:
        for hook in work_install.HOOKS:
            await fleet.admin().apply(hook.resource, hook.document(WebhookEndpoint(server.ca, url=server.url)), manager="test")
        assert "webhooks of works" in await findings(fleet, verdict=verdict)


async def test_works_that_nobody_takes_up_and_works_that_fail(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    await healthy(fleet)
    for name in ("a", "b", "c"):
        await fleet.admin().create(
            MANIFEST_WORKS,
            {
                "apiVersion": MANIFEST_WORKS.api_version,
                "kind": MANIFEST_WORKS.kind,
                "metadata": {"name": name, "namespace": NAME},
                "spec": {"workload": {"manifests": []}},
            },
        )
    assert "works" not in await findings(fleet)
    monkeypatch.setattr("muster.administration.work_diagnosis.UNATTENDED_SECONDS", -1.0)
    assert (await findings(fleet))["works"][0] == "3 of 3 not taken up by the work agent: a, b, c"
    for name, status in (("a", "True"), ("b", "False"), ("c", "True")):
        said = {**condition("Applied", status, "Because"), "observedGeneration": 1}
        await fleet.admin().patch(MANIFEST_WORKS, name, {"status": {"conditions": [said]}}, NAME, subresource="status")
    assert "works" not in await findings(fleet)
    text, remedy = (await findings(fleet, verdict="note"))["works"]
    assert (text, remedy) == ("1 of 3 cannot be applied: b", f"see get works --clusters {NAME} -o wide")
    await fleet.admin().delete(MANIFEST_WORKS, "b", NAME)
    assert (await findings(fleet, verdict="ok"))["works"][0] == "2 applied"


async def test_an_operator_that_does_not_run(fleet: Fleet) -> None:
    await healthy(fleet)
    await fleet.ok("init")
    assert "the operator does not run" in (await findings(fleet))["hub"][0]


async def test_the_managed_side(fleet: Fleet) -> None:
    await fleet.cluster(NAME, spec={"hubAcceptsClient": True})
    flags = ("--managed-cluster-context", PLAIN)
    assert (await findings(fleet, *flags))["agent"] == ("no klusterlet is installed there", "run join there under this name")
    admin = fleet.admin(PLAIN)
    for document in definitions(OPERATOR):
        await admin.apply(CRDS, document, manager="test")
    await await_definitions(admin, [document["metadata"]["name"] for document in definitions(OPERATOR)], SYSTEM)
    await admin.apply(KLUSTERLETS, {"metadata": {"name": "klusterlet"}, "spec": {"clusterName": "other"}}, manager="test")
    assert "there is other" in (await findings(fleet, *flags))["agent"][0]
    await admin.apply(KLUSTERLETS, {"metadata": {"name": "klusterlet"}, "spec": {"clusterName": NAME}}, manager="test")
    found = await findings(fleet, *flags)
    assert found["klusterlet klusterlet"][0] == "its operator has not acted on it"
    assert "bootstrap-hub-kubeconfig to introduce itself with" in found["agent's credential"][0]
    degraded = condition("HubConnectionDegraded", "True", "BootstrapSecretUnauthorized,HubKubeConfigSecretMissing", "no")
    await admin.patch(KLUSTERLETS, "klusterlet", {"status": {"conditions": [degraded]}}, subresource="status")
    agent = "open-cluster-management-agent"
    await admin.apply(NAMESPACES, {"metadata": {"name": agent}}, manager="test")
    await admin.apply(SECRETS, {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": agent}}, manager="test")
    found = await findings(fleet, *flags)
    assert "BootstrapSecretUnauthorized" in found["klusterlet klusterlet"][0]
    assert "has the bootstrap token expired?" in found["klusterlet klusterlet"][1]
    assert found["agent's credential"][1] == "run accept on the hub"


async def test_who_may_not_look_is_told_so(fleet: Fleet) -> None:
    result = await fleet.run("doctor", NAME, context="mallory@hub")
    assert result.exit_code == 1
    assert "cannot be read" in result.stdout
    assert "Traceback" not in result.output


async def test_wrong_use_of_the_doctor(fleet: Fleet) -> None:
    assert "non-hub cluster" in await fleet.fails("doctor", context=PLAIN)
    assert "name the one cluster" in await fleet.fails("doctor", "--managed-cluster-context", PLAIN, code=2)
    assert await fleet.ok("doctor") == "There are no managed clusters.\n"


async def test_the_doctor_writes_nothing(fleet: Fleet) -> None:
    await healthy(fleet)
    before = await fleet.revision()
    await fleet.ok("doctor", NAME)
    assert await fleet.revision() == before


async def operator(fleet: Fleet) -> Any:
    found = await fleet.admin(FRESH).get(DEPLOYMENTS, "cluster-manager", OPERATOR_NAMESPACE)
    return found["spec"]["template"]["spec"]["containers"][0]


async def test_an_upgrade_changes_the_image_and_keeps_what_was_chosen(fleet: Fleet, tmp_path: Path) -> None:
    await fleet.ok("init", "--enable-sync-labels", "--resource-qos-class=BestEffort", context=FRESH)
    before = await operator(fleet)
    said = await fleet.ok("upgrade", "clustermanager", "--bundle-version=v9", "--image-registry=example.io/x", context=FRESH)
    assert "to example.io/x/muster:v9" in said
    assert await operator(fleet) == {**before, "image": "example.io/x/muster:v9"}
    again = await fleet.ok("upgrade", "clustermanager", "--bundle-version=v9", "--image-registry=example.io/x", context=FRESH)
    assert "already" in again
    overrides = tmp_path / "versions.json"
    overrides.write_text('{"ocm": "v10"}')
    await fleet.ok("upgrade", "clustermanager", "--bundle-version-overrides", str(overrides), context=FRESH)
    assert (await operator(fleet))["image"] == "muster:v10"


@pytest.mark.parametrize("what", ["clustermanager", "klusterlet"])
async def test_what_is_not_installed_is_not_upgraded(fleet: Fleet, what: str) -> None:
    assert f"{what} is not installed" in await fleet.fails("upgrade", what, context=PLAIN)
    assert "forbidden" in await fleet.fails("upgrade", what, context="mallory@plain")


async def test_an_upgrade_in_a_dry_run_writes_nothing(fleet: Fleet) -> None:
    await fleet.ok("init", context=FRESH)
    before = await fleet.revision(FRESH)
    said = await fleet.ok("upgrade", "clustermanager", "--bundle-version=v9", "--wait", "--dry-run", context=FRESH)
    assert "would go from muster:" in said
    assert await fleet.revision(FRESH) == before


async def test_waiting_for_an_upgrade_that_nobody_rolls_out_ends_with_1(fleet: Fleet) -> None:
    await fleet.ok("init", context=FRESH)
    complaint = await fleet.fails("upgrade", "clustermanager", "--wait", "--timeout", "1", context=FRESH)
    assert "operator cluster-manager: not so after 1 s" in complaint
