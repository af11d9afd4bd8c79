"""Through the gateway a cluster looks as it does directly, to kubectl and to plain clients: reads, writes, watches."""

from __future__ import annotations

import time

import orjson

from tests.e2e.gateway.conftest import GATEWAYS, SECRETS, GatewaySite, account, base64_of, powerless
from tests.support.administrator import wait_for
from tests.support.kubectl import background, kubectl
from tests.support.planes import USERS

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> str:
    return orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).decode()


def test_healthz_answers_for_the_cluster(site: GatewaySite) -> None:
    """A3."""
    assert kubectl(site.hub, "get", "--raw", f"{GATEWAYS}/foo/proxy/healthz").expect().out == "ok"


def test_the_root_is_served_without_a_redirect(site: GatewaySite) -> None:
    for path in ("", "/"):
        reply = site.proxy("foo", path)
        direct = site.spokes["foo"].client().get("/")
        assert (reply.status, reply.body) == (direct.status, direct.body)


def test_an_answer_is_the_clusters_own(site: GatewaySite) -> None:
    """A5: byte by byte."""
    path = "/api/v1/namespaces/default"
    assert site.through("foo").get(path).body == site.spokes["foo"].client().get(path).body


def test_kubectl_works_as_with_the_cluster_itself(site: GatewaySite) -> None:
    """A4, as far as it needs no pods."""
    name = site.name("through")
    assert "default" in site.kubectl("foo", "get", "ns").expect().out
    site.kubectl("foo", "create", "ns", name).expect()
    try:
        run = ("-n", name)
        site.kubectl("foo", *run, "apply", "-f", "-", input=config_map("one", a="1")).expect()
        site.kubectl("foo", *run, "apply", "--server-side", "-f", "-", input=config_map("two", a="1")).expect()
        site.kubectl("foo", *run, "apply", "--dry-run=server", "-f", "-", input=config_map("three", a="1")).expect()
        assert site.kubectl("foo", *run, "get", "configmap", "three").code == 1
        assert site.kubectl("foo", *run, "diff", "-f", "-", input=config_map("one", a="2")).code == 1
        site.kubectl("foo", *run, "patch", "configmap", "one", "--type=merge", "-p", '{"data":{"b":"2"}}').expect()
        assert site.kubectl("foo", *run, "get", "configmap", "one", "-o", "jsonpath={.data.b}").expect().out == "2"
        site.kubectl("foo", *run, "wait", "--for=jsonpath={.data.b}=2", "configmap/one", "--timeout=10s").expect()
        assert "KIND" in site.kubectl("foo", "explain", "configmaps").expect().out
        site.kubectl("foo", "get", "pods", "-A").expect()
        with background(site.behind("foo"), *run, "get", "configmap", "-w", "-o", "name", user=USERS["admin"].token) as watching:
            assert watching.stdout is not None
            seen = {watching.stdout.readline().strip() for _ in ("one", "two", "kube-root-ca.crt")}
            assert seen == {"configmap/one", "configmap/two", "configmap/kube-root-ca.crt"}
        # There are no metrics here, which is told as the cluster itself tells it.
        top, direct = site.kubectl("foo", "top", "nodes"), kubectl(site.spokes["foo"], "top", "nodes")
        assert (top.code, top.err) == (direct.code, direct.err)
        site.kubectl("foo", *run, "delete", "configmap", "one").expect()
    finally:
        site.kubectl("foo", "delete", "ns", name, "--wait=false").expect()
    assert site.spokes["bar"].client().get(f"/api/v1/namespaces/{name}").status == 404


def test_a_watch_is_told_at_once(site: GatewaySite) -> None:
    name = site.name("seen")
    direct = site.spokes["foo"].client()
    events = site.through("foo").watch(CONFIG_MAPS, {"fieldSelector": f"metadata.name={name}"}, timeout=20)
    direct.post(CONFIG_MAPS, orjson.loads(config_map(name))).expect(201)
    assert next(iter(events))["type"] == "ADDED"
    began = time.monotonic()
    direct.patch(f"{CONFIG_MAPS}/{name}", {"data": {"a": "b"}}).expect(200)
    assert next(iter(events))["type"] == "MODIFIED"
    assert time.monotonic() - began < 5
    direct.delete(f"{CONFIG_MAPS}/{name}").expect(200)


def test_large_bodies_go_both_ways(site: GatewaySite) -> None:
    name, text = site.name("large"), "x" * 900_000
    through = site.through("foo")
    through.post(CONFIG_MAPS, orjson.loads(config_map(name, text=text))).expect(201)
    assert through.get(f"{CONFIG_MAPS}/{name}").expect(200)["data"]["text"] == text
    through.delete(f"{CONFIG_MAPS}/{name}").expect(200)


def test_a_token_that_is_renewed_cuts_no_watch(site: GatewaySite) -> None:
    """D10."""
    name, watched = site.name("renewed"), site.name("kept")
    site.register(name, site.spokes["foo"], account(site.spokes["foo"], "first"))
    events = site.through(name).watch(CONFIG_MAPS, {"fieldSelector": f"metadata.name={watched}"}, timeout=30)
    direct = site.spokes["foo"].client()
    direct.post(CONFIG_MAPS, orjson.loads(config_map(watched))).expect(201)
    assert next(iter(events))["type"] == "ADDED"
    token = powerless(site.spokes["foo"], site.name("second"))
    site.admin.patch(f"{SECRETS}/{name}", {"data": base64_of({"token": token})}).expect(200)

    # An account without rights, so that whose token was sent can be told by the answer.
    wait_for(lambda: site.proxy(name, "/api/v1/secrets").status == 403, "requests as the second account")
    direct.delete(f"{CONFIG_MAPS}/{watched}").expect(200)
    assert next(iter(events))["type"] == "DELETED"
    site.forget(name)
