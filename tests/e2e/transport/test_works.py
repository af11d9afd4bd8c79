"""Works that travel over gRPC: applied, changed, reported on and taken away again, also when nobody was there to hear of it."""

from __future__ import annotations

from typing import Any

from tests.e2e.transport.conftest import WORK_API, GrpcAgent, Site

FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"


def works(agent: GrpcAgent, name: str = "") -> str:
    return f"{WORK_API}/namespaces/{agent.name}/manifestworks" + (f"/{name}" if name else "")


def config_map(agent: GrpcAgent, greeting: str) -> dict[str, Any]:
    meta = {"name": f"greeting-{agent.name}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"greeting": greeting}}


def greeting(agent: GrpcAgent) -> str | None:
    reply = agent.site.spoke.admin.get(f"/api/v1/namespaces/default/configmaps/greeting-{agent.name}")
    return str(reply.json["data"]["greeting"]) if reply.status == 200 else None


def make(agent: GrpcAgent, name: str, text: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"workload": {"manifests": [config_map(agent, text)]}}}
    work = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", **body}
    agent.site.hub.admin.post(works(agent), work).expect(201)


def applied(agent: GrpcAgent, name: str) -> bool:
    """Whether the hub was told that the work is applied as it is now."""
    work = agent.site.hub.admin.get(works(agent, name)).json
    conditions = {one["type"]: one for one in (work.get("status") or {}).get("conditions") or ()}
    told = conditions.get("Applied")
    return told is not None and told["status"] == "True" and told["observedGeneration"] == work["metadata"]["generation"]


def serving(site: Site, name: str) -> GrpcAgent:
    agent = site.joined(name)
    agent.start_work()
    return agent


def test_a_work_is_applied_changed_and_taken_away(site: Site) -> None:
    agent, hub = serving(site, "worker"), site.hub
    make(agent, "w1", "hello")
    hub.wait(lambda: greeting(agent) == "hello" or None, "the ConfigMap")
    hub.wait(lambda: applied(agent, "w1") or None, "the status on the hub")
    assert FINALIZER in hub.admin.get(works(agent, "w1")).json["metadata"]["finalizers"]

    change = {"spec": {"workload": {"manifests": [config_map(agent, "hello again")]}}}
    hub.admin.patch(works(agent, "w1"), change).expect(200)
    hub.wait(lambda: greeting(agent) == "hello again" or None, "the change")
    hub.wait(lambda: applied(agent, "w1") or None, "the status of the change")

    hub.admin.delete(works(agent, "w1")).expect(200)
    hub.wait(lambda: hub.admin.get(works(agent, "w1")).status == 404 or None, "the end of the work")
    assert greeting(agent) is None


def test_what_happened_while_the_way_was_cut_is_made_up_for(site: Site) -> None:
    agent, hub = serving(site, "islander"), site.hub
    make(agent, "stays", "first")
    hub.wait(lambda: applied(agent, "stays") or None, "the status on the hub")

    agent.links[0].cut()
    change = {"spec": {"workload": {"manifests": [config_map(agent, "second")]}}}
    hub.admin.patch(works(agent, "stays"), change).expect(200)
    agent.links[0].mend()
    hub.wait(lambda: applied(agent, "stays") or None, "the status of what was changed meanwhile", timeout=30)
    assert greeting(agent) == "second"

    agent.links[0].cut()
    hub.admin.delete(works(agent, "stays")).expect(200)
    hub.admin.patch(works(agent, "stays"), {"metadata": {"finalizers": None}}).expect(200)
    hub.wait(lambda: hub.admin.get(works(agent, "stays")).status == 404 or None, "the removal by force")
    agent.links[0].mend()
    hub.wait(lambda: greeting(agent) is None or None, "the ConfigMap to go", timeout=60)


def test_agents_go_to_another_server_when_theirs_is_killed(site: Site) -> None:
    first, second = site.server("left"), site.server("right")
    agent = site.joined("nomad", first, second)
    agent.start_work()
    make(agent, "follows", "one")
    site.hub.wait(lambda: applied(agent, "follows") or None, "the status on the hub")
    first.kill()
    change = {"spec": {"workload": {"manifests": [config_map(agent, "two")]}}}
    site.hub.admin.patch(works(agent, "follows"), change).expect(200)
    site.hub.wait(lambda: applied(agent, "follows") or None, "the status by the other server", timeout=20)
    assert greeting(agent) == "two"
    site.hub.patch("nomad", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    site.hub.wait_renewed("nomad", times=2, timeout=20)
