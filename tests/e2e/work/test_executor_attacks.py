"""Works that try to get more than their executor has: by rules that are hard to read, by fields that are said to be ignored, and by
being quicker than the agent. Whether one got through is asked of the cluster.
"""

from __future__ import annotations

from typing import Any

import pytest

from muster.machinery.objects import GVR, Object
from muster.runtime.auth.rbac import CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from muster.runtime.client.errors import Invalid
from muster.runtime.client.rest import JSON, Query
from tests.support.executing import FULL, GROUP, Keeper, binding, role, rule
from tests.support.working import Running, Workplace, condition, identifier

SECRETS = rule(("get",), "secrets")
POLICIES = GVR("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
ODD_RULES: dict[str, Any] = {
    "a field too many": {**SECRETS, "note": "for later"},
    "a field too many that is empty": {**SECRETS, "note": None},
    "a null among resources": {**SECRETS, "resources": [None, "secrets"]},
    "a null among verbs": {**SECRETS, "verbs": ["get", None]},
    "a null among groups": {**SECRETS, "apiGroups": ["", None]},
    "a field twice, in another case": {**SECRETS, "Verbs": []},
}
MANAGING = rule(FULL, "roles,rolebindings", GROUP)


def wide(name: str, *rules: Any, labels: Object | None = None) -> Object:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)}


def by(strategy: str, document: Object, plural: str, **server_side: Any) -> list[Object]:
    """The manifestConfigs of a work with one manifest."""
    how = {"type": strategy, **({"serverSideApply": server_side} if server_side else {})}
    return [identifier(document, plural, updateStrategy=how)]


async def judged(place: Workplace, name: str) -> Object:
    """What came of the work's only manifest, once that is known."""

    async def look() -> Object:
        status = (await place.work(name) or {}).get("status") or {}
        entries = (status.get("resourceStatus") or {}).get("manifests") or [{}]
        return condition(entries[0], "Applied")

    found: Object = await place.wait(look, f"a verdict on {name}")
    return found


@pytest.mark.parametrize("strategy", ["CreateOnly", "Update", "ServerSideApply"])
async def test_a_rule_that_is_hard_to_read_is_no_way_around_the_gate(place: Workplace, keeper: Keeper, strategy: str) -> None:
    await keeper.grant("managing", MANAGING)
    await keeper.grant("managing", rule(FULL, "clusterroles", GROUP), namespace="")
    async with place.agent():
        for number, odd in enumerate(ODD_RULES.values()):
            local = role(f"odd{number}", place.namespace, odd)
            await place.create(f"r{number}", local, executor=keeper.executor(), manifestConfigs=by(strategy, local, "roles"))
            everywhere = wide(keeper.wide(f"odd{number}"), odd)
            configs = by(strategy, everywhere, "clusterroles")
            await place.create(f"c{number}", everywhere, executor=keeper.executor(), manifestConfigs=configs)
        for number, what in enumerate(ODD_RULES):
            for name in (f"r{number}", f"c{number}"):
                verdict = await judged(place, name)
                assert verdict["status"] == "False", what
                assert "permission escalation" in verdict["message"], what
                assert "what cannot be read counts as everything" in verdict["message"], what
            assert await place.find(ROLES, f"odd{number}", place.namespace) is None, what
            assert await place.find(CLUSTER_ROLES, keeper.wide(f"odd{number}")) is None, what


IGNORING = {
    "JSON paths": lambda field: {"jsonPaths": [f".{field}"]},
    "JSON pointers": lambda field: {"jsonPointers": [f"/{field}"]},
    "jq": lambda field: {"jqPathExpressions": [f".{field}"]},
}


@pytest.mark.parametrize("way", IGNORING)
@pytest.mark.parametrize("force", [True, False])
async def test_nobody_joins_a_strong_binding_by_ignoring_what_it_binds(
    place: Workplace, keeper: Keeper, way: str, force: bool
) -> None:
    await keeper.grant("managing", MANAGING, rule())
    await keeper.role("weak", rule(("get",)))
    await keeper.role("strong", SECRETS)
    admins = binding("admins", place.namespace, "strong", keeper.account("somebody"))
    await place.admin.create(ROLE_BINDINGS, admins)
    attack = binding("admins", place.namespace, "weak", keeper.account("thief"))
    fields = [{"condition": "OnSpokePresent", **IGNORING[way]("roleRef")}]
    configs = by("ServerSideApply", attack, "rolebindings", force=force, ignoreFields=fields)
    async with place.agent() as agent:
        await place.create("w", attack, executor=keeper.executor(), manifestConfigs=configs)
        verdict = await judged(place, "w")
        await agent.quiet(0.4)
        found = await place.find(ROLE_BINDINGS, "admins", place.namespace)
        assert found is not None
        assert [subject["name"] for subject in found["subjects"]] == ["somebody"]
        assert verdict["status"] == "False"
        assert "permission escalation" in verdict["message"]


@pytest.mark.parametrize("way", IGNORING)
async def test_nobody_has_a_strong_role_gathered_by_ignoring_its_rules(place: Workplace, keeper: Keeper, way: str) -> None:
    await keeper.grant("managing", rule(FULL, "clusterroles", GROUP), namespace="")
    label = {keeper.wide("gathered"): "yes"}
    strong = wide(keeper.wide("strong"), SECRETS)
    await place.admin.create(CLUSTER_ROLES, strong)
    attack = wide(keeper.wide("strong"), labels=label)
    fields = [{"condition": "OnSpokePresent", **IGNORING[way]("rules")}]
    configs = by("ServerSideApply", attack, "clusterroles", force=True, ignoreFields=fields)
    async with place.agent() as agent:
        await place.create("w", attack, executor=keeper.executor(), manifestConfigs=configs)
        verdict = await judged(place, "w")
        await agent.quiet(0.4)
        found = await place.find(CLUSTER_ROLES, keeper.wide("strong"))
        assert found is not None
        assert not found["metadata"].get("labels")
        assert verdict["status"] == "False"
        assert "permission escalation" in verdict["message"]
    await place.admin.delete(CLUSTER_ROLES, keeper.wide("strong"))


class Quicker:
    """Somebody who does something just before the agent's first write to an object, once it has been judged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, agent: Running, ending: str, deed: Any) -> None:
        self.done = False
        passing = agent.spoke.exchange

        async def exchange(
            method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
        ) -> bytes:
            if method in ("PATCH", "PUT") and path.endswith(ending) and not query.get("dryRun") and not self.done:
                self.done = True
                await deed()
            return await passing(method, path, query, body, media, idempotent=idempotent)

        monkeypatch.setattr(agent.spoke, "exchange", exchange)


@pytest.mark.parametrize("strategy", ["ServerSideApply", "Update"])
async def test_what_becomes_strong_between_judging_and_writing_is_judged_anew(
    place: Workplace, keeper: Keeper, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    await keeper.grant("managing", MANAGING, rule())
    await keeper.role("growing", rule(("get",)))
    attack = role("growing", place.namespace)
    attack["metadata"]["labels"] = {"mine": "yes"}
    if strategy == "ServerSideApply":
        del attack["rules"]
    else:
        # What is said is there already, so that only labels differ.
        attack["rules"] = [rule(("get",))]
    async with place.agent() as agent:
        quicker = Quicker(monkeypatch, agent, "/roles/growing", lambda: keeper.role("growing", rule(("get",)), SECRETS))
        configs = by(strategy, attack, "roles", **({"force": False} if strategy == "ServerSideApply" else {}))
        await place.create("w", attack, executor=keeper.executor(), manifestConfigs=configs)

        async def met() -> bool:
            return quicker.done

        await place.wait(met, "somebody to be quicker")
        if strategy == "Update":
            # The rules that were added are not the manifest's: they go.
            await place.wait_applied("w")
        else:
            await keeper.wait_refused("w", "permission escalation")
        found = await place.find(ROLES, "growing", place.namespace)
        assert found is not None
        labelled = bool((found["metadata"].get("labels") or {}).get("mine"))
        assert not (labelled and any("secrets" in one["resources"] for one in found["rules"]))


@pytest.mark.parametrize("named", [False, True])
async def test_what_is_only_created_takes_no_more_than_that(place: Workplace, keeper: Keeper, named: bool) -> None:
    names = ("r", "b") if named else ()
    await keeper.grant("managing", rule(("create", "get", "delete"), "roles,rolebindings", GROUP, names), rule())
    await keeper.role("theirs", rule(("get",)))
    made, bound = role("r", place.namespace, rule()), binding("b", place.namespace, "theirs", keeper.account("x"))
    configs = by("CreateOnly", made, "roles") + by("CreateOnly", bound, "rolebindings")
    async with place.agent():
        await place.create("w", made, bound, executor=keeper.executor(), manifestConfigs=configs)
        await place.wait_applied("w")
        assert await place.find(ROLES, "r", place.namespace) is not None
        assert await place.find(ROLE_BINDINGS, "b", place.namespace) is not None


@pytest.mark.parametrize("resource", [ROLES, ROLE_BINDINGS])
async def test_what_an_administrator_took_away_is_not_made_anew(place: Workplace, keeper: Keeper, resource: GVR) -> None:
    """The executor's own rights have not changed; those that the object would grant have."""
    await keeper.grant("managing", MANAGING, rule(("get",)))
    await keeper.role("theirs", rule(("get",)))
    made, bound = role("r", place.namespace, rule(("get",))), binding("b", place.namespace, "theirs", keeper.account("x"))
    document, plural = (made, "roles") if resource is ROLES else (bound, "rolebindings")
    name = document["metadata"]["name"]
    async with place.agent():
        await place.create("w", document, executor=keeper.executor(), manifestConfigs=by("CreateOnly", document, plural))
        await place.wait_applied("w")
        if resource is ROLES:
            await keeper.role("managing", MANAGING)
        else:
            await keeper.role("theirs", rule(("get",)), SECRETS)
        await place.admin.delete(resource, name, place.namespace)
        await keeper.wait_refused("w", "permission escalation")
        assert await place.find(resource, name, place.namespace) is None


async def test_a_policy_whose_parameters_the_executor_may_not_read_is_written_only_if_it_could_write_it_itself(
    place: Workplace, keeper: Keeper
) -> None:
    # Kubernetes asks whoever writes a policy for the right to read what it takes its parameters from: a policy tells of them.
    await keeper.grant("policies", rule(FULL, POLICIES.plural, POLICIES.group), namespace="")
    spec: Object = {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
        },
        "validations": [{"expression": "false", "messageExpression": "string(params.data)"}],
    }
    policy = {"apiVersion": POLICIES.api_version, "kind": POLICIES.kind, "metadata": {"name": keeper.wide("curious")}, "spec": spec}
    try:
        await place.admin.as_user(keeper.user()).create(POLICIES, policy, dry_run=True)
        alone = "True"
    except Invalid:
        alone = "False"
    async with place.agent():
        await place.create("w", policy, executor=keeper.executor())
        verdict = await judged(place, "w")
        assert verdict["status"] == alone, verdict
        assert (await place.find(POLICIES, keeper.wide("curious")) is None) is (alone == "False")
        await place.delete("w")
        await place.wait_gone("w")
