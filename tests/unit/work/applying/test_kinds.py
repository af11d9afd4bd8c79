"""Each kind with its defaults and rules: applied once, seen again by a new process, it is not written again."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from muster.runtime.client.builtin import CRDS
from muster.runtime.client.errors import Invalid
from muster.work.agent.interfaces import ApplyProblem
from tests.support.manifests import GADGETS, HOOK, JOB, KINDS, of
from tests.unit.work.applying.conftest import OTHER, Cluster, live
from tests.unit.work.applying.test_update import web


@pytest.mark.parametrize("document", KINDS, ids=lambda document: document["kind"])
async def test_a_kind_that_is_defaulted_by_the_server_is_not_written_again(cluster: Cluster, document: dict[str, Any]) -> None:
    await cluster.apply(document)
    assert (await cluster.apply(document))[1] == []
    assert (await cluster.restarted().apply(document))[1] == []


@pytest.mark.parametrize("document", KINDS, ids=lambda document: document["kind"])
async def test_a_label_more_is_one_write_for_every_kind(cluster: Cluster, document: dict[str, Any]) -> None:
    await cluster.apply(document)
    labelled = {**document, "metadata": {**document["metadata"], "labels": {"more": "1"}}}
    changed, asked = await cluster.restarted().apply(labelled)
    assert asked == [f"PUT {document['metadata']['name']}"]
    assert changed["metadata"]["labels"]["more"] == "1"


async def test_of_namespaces_pods_and_service_accounts_only_metadata_is_kept_in_step(cluster: Cluster) -> None:
    account = of("v1", "ServiceAccount", "sa", imagePullSecrets=[{"name": "pull"}])
    await cluster.apply(account)
    await cluster.edit(account, imagePullSecrets=[{"name": "others"}])
    assert (await cluster.apply(account))[1] == []


async def test_a_service_keeps_what_was_allocated(cluster: Cluster) -> None:
    service = of("v1", "Service", "svc", spec={"type": "NodePort", "selector": {"app": "x"}, "ports": [{"port": 80, "name": "a"}]})
    made, _ = await cluster.apply(service)
    more = of(
        "v1",
        "Service",
        "svc",
        spec={"type": "NodePort", "selector": {"app": "y"}, "ports": [{"port": 81, "name": "b"}, {"port": 80, "name": "a"}]},
    )
    changed, _ = await cluster.restarted().apply(more)
    assert changed["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert changed["spec"]["ports"][1]["nodePort"] == made["spec"]["ports"][0]["nodePort"]
    assert changed["spec"]["selector"] == {"app": "y"}
    await cluster.edit(service, spec={"selector": {"app": "y", "also": "z"}})
    repaired, _ = await cluster.apply(more)
    assert repaired["spec"]["selector"] == {"app": "y"}


async def test_a_secret_of_another_type_is_made_anew_if_it_is_ours(cluster: Cluster) -> None:
    opaque = of("v1", "Secret", "s", stringData={"a": "b"})
    first, _ = await cluster.apply(opaque)
    basic = of("v1", "Secret", "s", type="kubernetes.io/basic-auth", stringData={"username": "u", "password": "p"})
    with pytest.raises(Invalid, match="immutable"):
        await cluster.apply(basic, owned=False)
    changed, asked = await cluster.apply(basic)
    assert asked == ["POST secrets", "DELETE s", "POST secrets"]
    assert changed["type"] == "kubernetes.io/basic-auth"
    assert changed["metadata"]["uid"] != first["metadata"]["uid"]
    assert changed["metadata"]["ownerReferences"] == first["metadata"]["ownerReferences"]


async def test_a_secret_is_not_given_up_for_one_that_the_server_would_not_take(cluster: Cluster) -> None:
    first, _ = await cluster.apply(of("v1", "Secret", "s", stringData={"a": "b"}))
    incomplete = of("v1", "Secret", "s", type="kubernetes.io/tls", stringData={"tls.crt": "c"})
    with pytest.raises(Invalid, match=r"tls\.key"):
        await cluster.apply(incomplete)
    assert await cluster.live(incomplete) == first


async def test_a_secret_of_another_type_that_somebody_else_made_is_not_taken_away(cluster: Cluster) -> None:
    await cluster.apply(of("v1", "Secret", "s", stringData={"a": "b"}), owner=OTHER)
    with pytest.raises(Invalid, match="immutable"):
        await cluster.apply(of("v1", "Secret", "s", type="kubernetes.io/basic-auth", stringData={"username": "u"}))


async def test_a_sealed_secret_is_made_anew_if_it_is_ours(cluster: Cluster) -> None:
    await cluster.apply(of("v1", "Secret", "s", stringData={"a": "b"}, immutable=True))
    with pytest.raises(Invalid, match="immutable"):
        await cluster.apply(of("v1", "Secret", "s", stringData={"a": "c"}, immutable=True), owned=False)
    changed, _ = await cluster.apply(of("v1", "Secret", "s", stringData={"a": "c"}, immutable=True))
    assert base64.b64decode(changed["data"]["a"]) == b"c"


async def test_a_sealed_config_map_is_reported(cluster: Cluster) -> None:
    await cluster.apply(of("v1", "ConfigMap", "cm", data={"a": "b"}, immutable=True))
    with pytest.raises(Invalid, match="immutable"):
        await cluster.apply(of("v1", "ConfigMap", "cm", data={"a": "c"}, immutable=True))


async def test_a_secret_that_contradicts_itself_is_reported(cluster: Cluster) -> None:
    await cluster.apply(of("v1", "Secret", "s", stringData={"a": "b"}))
    with pytest.raises(ApplyProblem, match=r"Secret.stringData\[\"a\"\] conflicts"):
        await cluster.apply(of("v1", "Secret", "s", data={"a": "Yw=="}, stringData={"a": "b"}))


async def test_a_tokens_data_is_also_its_controllers(cluster: Cluster) -> None:
    await cluster.apply(of("v1", "ServiceAccount", "sa"))
    token = of("v1", "Secret", "t", type="kubernetes.io/service-account-token", data={"extra": "eA=="})
    token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "sa"}
    await cluster.apply(token)
    await cluster.edit(token, data={"ca.crt": "eA=="})
    assert (await cluster.apply(token))[1] == []


async def test_a_jobs_template_cannot_change_and_that_is_said(cluster: Cluster) -> None:
    await cluster.apply(of("batch/v1", "Job", "job", spec=JOB))
    other = {"template": {"spec": {**JOB["template"]["spec"], "containers": [{"name": "app", "image": "app:2"}]}}}
    with pytest.raises(Invalid, match="field is immutable"):
        await cluster.apply(of("batch/v1", "Job", "job", spec=other))


async def test_a_job_may_be_suspended(cluster: Cluster) -> None:
    await cluster.apply(of("batch/v1", "Job", "job", spec=JOB))
    changed, _ = await cluster.restarted().apply(of("batch/v1", "Job", "job", spec={**JOB, "suspend": True}))
    assert changed["spec"]["suspend"] is True


async def test_injected_authorities_stay_where_the_manifest_has_none(cluster: Cluster) -> None:
    hooks = of("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "hooks", webhooks=[HOOK])
    await cluster.apply(hooks)
    injected = [{**HOOK, "clientConfig": {**HOOK["clientConfig"], "caBundle": CERTIFICATE}}]  # type: ignore[dict-item]
    await cluster.edit(hooks, webhooks=injected)
    assert (await cluster.apply(hooks))[1] == []
    placeholder = [{**HOOK, "timeoutSeconds": 5, "clientConfig": {**HOOK["clientConfig"], "caBundle": "Cg=="}}]  # type: ignore[dict-item]
    changed, _ = await cluster.apply({**hooks, "webhooks": placeholder})
    assert changed["webhooks"][0]["clientConfig"]["caBundle"] == CERTIFICATE
    assert changed["webhooks"][0]["timeoutSeconds"] == 5


async def test_injected_trust_stays_in_a_config_map_that_asks_for_it(cluster: Cluster) -> None:
    trusting = of("v1", "ConfigMap", "trust", data={"a": "1"})
    trusting["metadata"]["labels"] = {"config.openshift.io/inject-trusted-cabundle": "true"}
    await cluster.apply(trusting)
    await cluster.edit(trusting, data={"ca-bundle.crt": "x"})
    assert (await cluster.apply(trusting))[1] == []


@pytest.mark.parametrize("data", [{"a": "1"}, None])
async def test_an_injected_service_authority_stays_in_a_config_map_that_asks_for_it(cluster: Cluster, data: Any) -> None:
    trusting = of("v1", "ConfigMap", "trust", **({} if data is None else {"data": data}))
    trusting["metadata"]["annotations"] = {"service.beta.openshift.io/inject-cabundle": "true"}
    await cluster.apply(trusting)
    await cluster.edit(trusting, data={"service-ca.crt": "x"})
    assert (await cluster.apply(trusting))[1] == []


ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
SUBJECT = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dave"}
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("document", "field", "value"),
    [
        (of("v1", "ConfigMap", "cm"), "data", {"a": "1"}),
        (of("v1", "ConfigMap", "cm"), "binaryData", {"a": "AQI="}),
        (of("v1", "Secret", "s"), "data", {"a": "AQI="}),
        (of("rbac.authorization.k8s.io/v1", "Role", "role"), "rules", [RULE]),
        (of("rbac.authorization.k8s.io/v1", "RoleBinding", "binding", roleRef=ROLE_REF), "subjects", [SUBJECT]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_what_is_closed_is_empty_where_the_manifest_does_not_have_it_at_all(
    cluster: Cluster, document: dict[str, Any], field: str, value: Any
) -> None:
    await cluster.apply({**document, field: value})
    emptied, _ = await cluster.restarted().apply(document)
    assert not emptied.get(field)
    await cluster.edit(document, **{field: value})
    repaired, _ = await cluster.apply(document)
    assert not repaired.get(field)
    assert (await cluster.apply(document))[1] == []


async def test_a_port_whose_number_changes_does_not_lead_where_the_old_one_led(cluster: Cluster) -> None:
    spec = {"type": "NodePort", "selector": {"app": "x"}}
    await cluster.apply(of("v1", "Service", "svc", spec={**spec, "ports": [{"name": "web", "port": 8080}]}))
    changed, _ = await cluster.apply(of("v1", "Service", "svc", spec={**spec, "ports": [{"name": "web", "port": 80}]}))
    assert changed["spec"]["ports"][0]["targetPort"] == 80
    await cluster.edit(changed, spec={"ports": [{"name": "web", "port": 80, "targetPort": 9090}]})
    same = of("v1", "Service", "svc", spec={**spec, "ports": [{"name": "web", "port": 80}]})
    assert (await cluster.apply(same))[1] == [], "where it leads is not said"


async def test_a_service_without_a_selector_is_not_to_select_anything(cluster: Cluster) -> None:
    service = of("v1", "Service", "svc", spec={"ports": [{"port": 80}]})
    await cluster.apply(service)
    await cluster.edit(service, spec={"selector": {"app": "x"}})
    repaired, _ = await cluster.restarted().apply(service)
    assert "selector" not in repaired["spec"]
    assert (await cluster.apply(service))[1] == []


async def test_a_custom_resource_whose_manifest_no_longer_has_any_content_loses_it(cluster: Cluster) -> None:
    await cluster.apply(GADGETS)
    await established(cluster)
    gadget = of("example.com/v1", "Gadget", "g")
    await cluster.apply({**gadget, "spec": {"size": 1}})
    changed, _ = await cluster.apply(gadget)
    assert "spec" not in changed


async def test_rules_of_a_role_are_exactly_those_of_the_manifest(cluster: Cluster) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    role = of("rbac.authorization.k8s.io/v1", "Role", "role", rules=[rule])
    await cluster.apply(role)
    await cluster.edit(role, rules=[{**rule, "resourceNames": ["one"]}])
    repaired, _ = await cluster.apply(role)
    assert repaired["rules"] == [rule]


async def test_custom_resources_keep_what_others_said_and_their_status(cluster: Cluster) -> None:
    await cluster.apply(GADGETS)
    await established(cluster)
    gadget = of("example.com/v1", "Gadget", "g", spec={"size": 1, "on": False}, status={"phase": "said"})
    made, _ = await cluster.apply(gadget)
    assert made["spec"]["color"] == "red"
    await cluster.edit(gadget, spec={"color": "blue"}, status={"phase": "Running"})
    assert (await cluster.restarted().apply(gadget))[1] == []
    changed, _ = await cluster.apply({**gadget, "spec": {"size": 2, "on": False}})
    assert changed["spec"] == {"size": 2, "on": False, "color": "blue"}
    assert changed["status"] == {"phase": "Running"}


async def test_an_empty_value_that_went_from_a_custom_resource_comes_back(cluster: Cluster) -> None:
    await cluster.apply(GADGETS)
    await established(cluster)
    gadget = of("example.com/v1", "Gadget", "g", spec={"size": 1, "on": False})
    await cluster.apply(gadget)
    await cluster.edit(gadget, spec={"on": None})
    repaired, _ = await cluster.apply(gadget)
    assert repaired["spec"]["on"] is False


async def established(cluster: Cluster) -> None:
    async for event in cluster.client.watch(CRDS, initial_events=True, timeout=10):
        found = await live(cluster.client, GADGETS)
        conditions = {entry["type"]: entry["status"] for entry in (found.get("status") or {}).get("conditions") or ()}
        if conditions.get("Established") == "True":
            return
        assert event is not None


async def test_a_deployment_is_repaired_where_it_drifted_only(cluster: Cluster) -> None:
    await cluster.apply(web())
    await cluster.edit(web(), spec={"replicas": 4, "template": {"spec": {"containers": [{"name": "app", "image": "evil:1"}]}}})
    repaired, asked = await cluster.apply(web())
    assert asked == ["PUT web"]
    assert repaired["spec"]["template"]["spec"]["containers"][0]["image"] == "app:1"
    assert repaired["spec"]["replicas"] == 4


CERTIFICATE = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").decode()
