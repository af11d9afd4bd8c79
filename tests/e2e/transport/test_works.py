"""Works that travel over gRPC: applied, changed, reported on and taken away again, also when nobody was there to hear of it."""

from __future__ import annotations

import time
import urllib.request
from typing import Any

import pytest

from tests.e2e.transport.conftest import WORK_API, GrpcAgent, GrpcServer, Site
from tests.support.sites import beside_kube

ON_SQL = True
FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"


def works(agent: GrpcAgent, name: str = "") -> str:
    return f"{WORK_API}/namespaces/{agent.name}/manifestworks" + (f"/{name}" if name else "")


def config_map(agent: GrpcAgent, greeting: str, suffix: str = "") -> dict[str, Any]:
    meta = {"name": f"greeting-{agent.name}{suffix}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"greeting": greeting}}


def greeting(agent: GrpcAgent, suffix: str = "") -> str | None:
    reply = agent.site.spoke.admin.get(f"/api/v1/namespaces/default/configmaps/greeting-{agent.name}{suffix}")
    return str(reply.json["data"]["greeting"]) if reply.status == 200 else None


def make(agent: GrpcAgent, name: str, text: str, suffix: str = "") -> None:
    post(agent, name, {"workload": {"manifests": [config_map(agent, text, suffix)]}})


def post(agent: GrpcAgent, name: str, spec: dict[str, Any]) -> None:
    body = {"metadata": {"name": name}, "spec": spec}
    work = {"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", **body}
    agent.site.hub.admin.post(works(agent), work).expect(201)


def condition(agent: GrpcAgent, name: str, kind: str) -> dict[str, Any] | None:
    work = agent.site.hub.admin.get(works(agent, name)).json
    conditions: list[dict[str, Any]] = (work.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), None)


def applied(agent: GrpcAgent, name: str) -> bool:
    """Whether the hub was told that the work is applied as it is now."""
    work = agent.site.hub.admin.get(works(agent, name)).json
    told = condition(agent, name, "Applied")
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


def streams(server: GrpcServer, cluster: str) -> set[str]:
    """Of which data types an agent of the cluster listens at a server."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.health_port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    own = [line for line in lines if line.startswith("grpc_server_ce_subscribers{") and f'"{cluster}"' in line]
    return {line.split('data_type="')[1].split('"')[0] for line in own if float(line.rpartition(" ")[2])}


@beside_kube
def test_agents_go_to_another_server_when_theirs_is_killed(site: Site) -> None:
    if not site.has_several_servers:
        pytest.skip("SQLite is for one server")
    first, second = site.server("left"), site.server("right")
    agent, hub = site.joined("nomad", first, second), site.hub
    agent.start_work()
    names = [f"follows{number}" for number in range(5)]
    for name in names:
        make(agent, name, "one", f"-{name}")
    for name in names:
        hub.wait(lambda name=name: applied(agent, name) or None, f"the status of {name}")  # type: ignore[misc]
    hub.patch("nomad", {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    hub.wait_renewed("nomad", times=2)
    before = streams(first, "nomad")
    assert len(before) >= 3, before
    first.kill()
    killed = time.monotonic()
    for name in names:
        change = {"spec": {"workload": {"manifests": [config_map(agent, "two", f"-{name}")]}}}
        hub.admin.patch(works(agent, name), change).expect(200)
    make(agent, "later", "three", "-later")
    hub.wait(lambda: streams(second, "nomad") >= before or None, "all streams at the other server", timeout=30)
    moved = time.monotonic() - killed
    for name in (*names, "later"):
        hub.wait(lambda name=name: applied(agent, name) or None, f"the status of {name}", timeout=30)  # type: ignore[misc]
    assert [greeting(agent, f"-{name}") for name in (*names, "later")] == ["two"] * len(names) + ["three"]
    hub.wait_renewed("nomad", times=2)
    # Five seconds on a machine at rest.
    print(f"{len(before)} streams were at the other server after {moved:.1f} s")


def test_works_that_are_deleted_while_their_agent_is_away_are_taken_away_when_it_is_back(site: Site) -> None:
    agent, hub = serving(site, "traveller"), site.hub
    make(agent, "cut-off", "one")
    hub.wait(lambda: applied(agent, "cut-off") or None, "the status on the hub")
    agent.links[0].cut()
    hub.admin.delete(works(agent, "cut-off")).expect(200)
    assert "deletionTimestamp" in hub.admin.get(works(agent, "cut-off")).json["metadata"], "its agent has to let go of it"
    agent.links[0].mend()
    hub.wait(lambda: hub.admin.get(works(agent, "cut-off")).status == 404 or None, "the end of the work", timeout=30)
    assert greeting(agent) is None

    make(agent, "not-running", "two")
    hub.wait(lambda: applied(agent, "not-running") or None, "the status on the hub")
    work = agent.processes[-1]
    work.stop(kill=True)
    hub.admin.delete(works(agent, "not-running")).expect(200)
    work.start()
    hub.wait(lambda: hub.admin.get(works(agent, "not-running")).status == 404 or None, "the end of the work", timeout=30)
    assert greeting(agent) is None


def test_what_happened_while_no_server_was_up_is_made_up_for(site: Site) -> None:
    """Where the only server is the hub's API server too, nothing can happen meanwhile but that the agent is cut off."""
    server, hub = site.server("asleep"), site.hub
    agent = site.joined("sleeper", server)
    agent.start_work()
    for name in ("kept", "gone"):
        make(agent, name, name, suffix=f"-{name}")
        hub.wait(lambda name=name: applied(agent, name) or None, f"the status of {name}")  # type: ignore[misc]
    kept = uid(agent, "-kept")
    server.kill() if site.has_several_servers else agent.links[0].cut()
    hub.admin.delete(works(agent, "gone")).expect(200)
    make(agent, "new", "new", suffix="-new")
    change = {"spec": {"workload": {"manifests": [config_map(agent, "changed", "-kept")]}}}
    hub.admin.patch(works(agent, "kept"), change).expect(200)
    if site.has_several_servers:
        server.start()
    else:
        server.kill()
        server.start()
        agent.links[0].mend()
    for name in ("kept", "new"):
        hub.wait(lambda name=name: applied(agent, name) or None, f"the status of {name}", timeout=40)  # type: ignore[misc]
    hub.wait(lambda: hub.admin.get(works(agent, "gone")).status == 404 or None, "the end of the work", timeout=30)
    assert (greeting(agent, "-kept"), greeting(agent, "-new"), greeting(agent, "-gone")) == ("changed", "new", None)
    assert uid(agent, "-kept") == kept, "it was changed, not made anew"


def uid(agent: GrpcAgent, suffix: str) -> str:
    found = agent.site.spoke.admin.get(f"/api/v1/namespaces/default/configmaps/greeting-{agent.name}{suffix}").expect(200)
    return str(found["metadata"]["uid"])


def test_a_restarted_agent_reports_nothing_anew_and_applies_nothing_that_was_finished(site: Site) -> None:
    """As over kube: the hub knows what was told, though it does not send that with its changes."""
    agent, hub = serving(site, "phoenix"), site.hub

    def manifest(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"phoenix-{name}", "namespace": "default"}}

    identifier = {"group": "", "resource": "configmaps", "namespace": "default", "name": "phoenix-finished"}
    rules = [{"type": "CEL", "condition": "Complete", "celExpressions": ["true"]}]
    configs = [{"resourceIdentifier": identifier, "conditionRules": rules}]
    post(agent, "finished", {"workload": {"manifests": [manifest("finished")]}, "manifestConfigs": configs})
    names = [f"w{number}" for number in range(5)]
    for name in names:
        post(agent, name, {"workload": {"manifests": [manifest(name)]}})
    for name in names:
        hub.wait(lambda name=name: applied(agent, name) or None, f"the status of {name}")  # type: ignore[misc]
    hub.wait(lambda: (condition(agent, "finished", "Complete") or {}).get("status") == "True" or None, "the end of one")

    agent.work_agent.stop(timeout=10)
    removed = "/api/v1/namespaces/default/configmaps/phoenix-finished"
    unfinished = "/api/v1/namespaces/default/configmaps/phoenix-w0"
    for one in (removed, unfinished):
        agent.site.spoke.admin.delete(one).expect(200)
    before = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in hub.admin.get(works(agent)).json["items"]}
    agent.work_agent.start()
    hub.wait(lambda: agent.site.spoke.admin.get(unfinished).status == 200 or None, "what was not finished to be applied again")
    post(agent, "after", {"workload": {"manifests": [manifest("after")]}})
    hub.wait(lambda: applied(agent, "after") or None, "the status of what came after")
    after = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in hub.admin.get(works(agent)).json["items"]}
    # What has lost its object may have something new to say.
    assert {name: after[name] for name in names[1:]} == {name: before[name] for name in names[1:]}
    assert (condition(agent, "finished", "Complete") or {}).get("status") == "True"
    assert agent.site.spoke.admin.get(removed).status == 404


def test_a_work_that_is_too_large_for_a_message_says_so_until_it_fits(site: Site) -> None:
    """With the rights that the server's installation gives it."""
    if type(site) is not Site:
        pytest.skip("a server on a database has the flags that all of them have")
    server = site.server("narrow", {"max_send_message_size": 20_000})
    agent, hub = site.joined("parcel", server), site.hub
    agent.start_work()
    make(agent, "large", "x" * 30_000)
    told = hub.wait(lambda: condition(agent, "large", "Delivered"), "the condition")
    assert (told["status"], told["reason"]) == ("False", "MessageTooLarge")
    change = {"spec": {"workload": {"manifests": [config_map(agent, "small")]}}}
    hub.admin.patch(works(agent, "large"), change).expect(200)
    hub.wait(lambda: applied(agent, "large") or None, "the status of what fits")
    hub.wait(lambda: condition(agent, "large", "Delivered") is None or None, "the condition to go")
    assert applied(agent, "large")
