"""What the managed cluster's own people are told of works: in the agent's log, and by Events about the records."""

from __future__ import annotations

from muster.machinery import logs
from muster.machinery.objects import Object
from muster.runtime.auth.rbac import ROLE_BINDINGS, ROLES
from muster.runtime.client.builtin import EVENTS, NAMESPACES
from tests.unit.work.agent.conftest import Site, config_map, namespace, until

EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "app", "name": "deployer"}}}
LACKING = "system:serviceaccount:app:deployer may not create, update, patch, get, delete it"


async def events(site: Site, kind: str) -> list[Object]:
    """About records, of one type."""
    found = (await site.spoke.list(EVENTS, "default")).items
    return [one for one in found if one["regarding"]["kind"] == "AppliedManifestWork" and one["type"] == kind]


async def allow(site: Site) -> None:
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch", "get", "delete"]}
    metadata = {"name": "deployer", "namespace": "app"}
    await site.spoke.create(ROLES, {"metadata": metadata, "rules": [rule]})
    reference = {"apiGroup": group, "kind": "Role", "name": "deployer"}
    subjects = [{"kind": "ServiceAccount", "namespace": "app", "name": "deployer"}]
    await site.spoke.create(ROLE_BINDINGS, {"metadata": metadata, "roleRef": reference, "subjects": subjects})


async def test_what_an_executor_lacks_is_told_on_the_managed_cluster_and_that_it_has_it(site: Site) -> None:
    lines: list[str] = []
    with logs.diverted(lines.append):
        async with site.agent():
            await site.create("w", config_map("a"), executor=EXECUTOR)
            (event,) = await until(lambda: events(site, "Warning"), "the Event")
            assert event["note"] == f"configmaps app/a: not allowed to apply the resource  configmaps, app a, error: {LACKING}"
            assert event["reason"] == "AppliedManifestFailed"
            (record,) = await site.records()
            assert (event["regarding"]["name"], event["regarding"]["uid"]) == (
                record["metadata"]["name"],
                record["metadata"]["uid"],
            )
            assert any("a manifest cannot be applied" in line and "w" in line and LACKING in line for line in lines), lines
            await allow(site)
            (event,) = await until(lambda: events(site, "Normal"), "the Event that it is over")
            assert event["reason"] == "AppliedManifestWorkComplete"
            assert any("a work is applied" in line for line in lines), lines


async def test_what_only_waits_for_another_manifest_is_not_told(site: Site) -> None:
    async with site.agent():
        await site.create("w", config_map("a"), {**config_map("b"), "kind": "Secret"}, executor=EXECUTOR)
        await allow(site)

        async def withheld() -> bool:
            status = (await site.work("w") or {}).get("status") or {}
            messages = [str(one["conditions"]) for one in (status.get("resourceStatus") or {}).get("manifests") or ()]
            return bool(messages) and "withheld" in messages[0]

        await until(withheld, "the first to be withheld")
        # Events come in order, so when this one is there those before it are.
        await site.create("z", config_map("c", "nowhere"))
        told = await until(lambda: about(site, "configmaps nowhere/c"), "the later Event")
        assert not [note for note in told if "withheld" in note]


async def about(site: Site, what: str) -> list[str]:
    """All notes, once there is one about it."""
    notes = [one["note"] for one in await events(site, "Warning")]
    return notes if any(note.startswith(f"{what}: ") for note in notes) else []


async def test_a_work_that_never_fails_costs_no_event(site: Site) -> None:
    async with site.agent() as life:
        await site.create("w", config_map("a"))
        await until(lambda: site.applied("w"), "the work to be applied")
        await site.change("w", config_map("a", x="1"), config_map("b"))
        await until(lambda: site.applied("w"), "the change to be applied")
        assert not [path for _, path in life.asked if "/events" in path]


async def test_trouble_that_goes_on_is_told_once(site: Site) -> None:
    lines: list[str] = []
    with logs.diverted(lines.append):
        async with site.agent():
            await site.create("w", config_map("later", "nowhere"))
            await until(lambda: events(site, "Warning"), "the Event")
            await site.change("w", config_map("later", "nowhere", x="1"))
            await site.spoke.create(NAMESPACES, namespace("nowhere"))
            await until(lambda: site.applied("w"), "the work to be applied")
    assert len([line for line in lines if "a manifest cannot be applied" in line]) == 1, lines
