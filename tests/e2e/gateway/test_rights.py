"""Who may send what to which cluster: the hub's RBAC on `clustergateways/proxy`, then virtual verbs on what is behind it."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from tests.e2e.gateway.conftest import GATEWAYS, GROUP, GatewaySite, rule
from tests.e2e.gateway.test_attacks import EXEC, SWITCHED, WEBSOCKET, Trap
from tests.support.administrator import HUB_NAMESPACE, wait_for
from tests.support.planes import USERS
from tests.support.recording_cluster import RecordingCluster, Talk
from tests.support.sites import KUBE

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="module")
def rights(site: GatewaySite) -> GatewaySite:
    """Alice may read one namespace of foo; carol may use both gateways and nothing behind them; bob may read everything of foo."""
    site.may_use("alice", "foo")
    site.grant("alice", rule(["namespaces"], ["foo/get"], ["default"]))
    site.may_use("carol", "foo", "bar", verbs=("get", "create", "update", "patch", "delete"))
    site.may_use("bob", "foo", "bar", verbs=("get", "create", "delete"))
    site.grant("bob", rule(["pods", "namespaces", "configmaps", "secrets"], ["foo/get", "foo/list", "foo/watch"]))
    site.grant("bob", rule(["pods"], ["bar/*"]))
    wait_for(lambda: site.proxy("foo", f"{NAMESPACES}/default", "alice").status == 200, "alice's rights")
    wait_for(lambda: site.proxy("foo", NAMESPACES, "bob").status == 200, "bob's rights")
    wait_for(lambda: site.proxy("foo", "/api", "carol").status == 200, "carol's rights")
    return site


def test_another_cluster_is_refused_by_the_hub(rights: GatewaySite) -> None:
    """B1."""
    refused = rights.proxy("bar", "/api", "alice")
    assert refused.status == 403
    assert f'clustergateways.{GROUP} "bar" is forbidden' in refused.json["message"]
    assert 'cannot get resource "clustergateways/proxy"' in refused.json["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_other_verbs_are_refused_by_the_hub(rights: GatewaySite, method: str) -> None:
    """B2."""
    body: dict[str, str] | None = None if method == "DELETE" else {}
    refused = rights.proxy("foo", f"{NAMESPACES}/default", "alice", method, body=body)
    assert refused.status == 403
    assert "clustergateways/proxy" in refused.json["message"]


def test_a_request_is_one_question_to_the_hub(rights: GatewaySite) -> None:
    """B3: what it asks in detail is shown in unit/gateway/authorization. That alice may use foo is remembered for a while."""

    def questions() -> int:
        lines = (rights.ground.directory / "audit.log").read_bytes().splitlines()
        found = [orjson.loads(line) for line in lines if b"subjectaccessreviews" in line and line.endswith(b"}")]
        account = f"system:serviceaccount:{HUB_NAMESPACE}:cluster-gateway-sa"
        return sum(one["user"]["username"] == account and one["stage"] == "ResponseComplete" for one in found)

    def asked_once() -> bool:
        assert rights.proxy("foo", f"{NAMESPACES}/default", "alice").status == 200
        before = questions()
        assert rights.proxy("foo", f"{NAMESPACES}/{rights.name('asked')}", "alice").status == 403
        wait_for(lambda: questions() > before, "the question")
        return questions() == before + 1

    wait_for(asked_once, "a request after one question")


@pytest.fixture
def trap(rights: GatewaySite) -> Iterator[Trap]:
    with RecordingCluster() as cluster:
        made = Trap(rights, cluster)
        made.begin()
        rights.may_use("alice", made.name)
        yield made
        rights.forget(made.name)


def test_a_cluster_hears_nothing_of_what_is_refused(trap: Trap) -> None:
    """B4, B6: until there is a virtual verb for it, and for a command that is `create`."""

    def accept(talk: Talk, head: bytes) -> None:
        talk.say(SWITCHED % b"websocket")
        talk.listen()

    trap.cluster.behaviour = accept
    alice = f"Authorization: Bearer {USERS['alice'].token}"
    trap.site.grant("alice", rule(["pods/exec"], [f"{trap.name}/get"]))
    wait_for(lambda: trap.ask("/api", alice, direct=True).status != 403, "alice's right to the gateway")
    trap.begin()
    trap.cluster.behaviour = accept
    for path, fields in ((NAMESPACES, ()), (EXEC, WEBSOCKET)):
        assert trap.ask(path, alice, *fields, direct=False).status == 403
    assert trap.arrived == b""
    trap.site.grant("alice", rule(["pods/exec"], [f"{trap.name}/create"]))
    wait_for(lambda: trap.ask(EXEC, alice, *WEBSOCKET, direct=False).status == 101, "a command")
    assert b"GET /k8s/clusters/c-1/api/v1/namespaces/default/pods/p/exec" in trap.arrived


def test_what_no_virtual_verb_allows_is_refused_by_the_gateway(rights: GatewaySite) -> None:
    """B4: and the cluster has not heard of it."""
    refused = rights.proxy("foo", f"{NAMESPACES}/kube-system", "alice")
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    message = refused.json["message"]
    assert 'User "alice" cannot get resource "namespaces"' in message
    assert '"foo"' in message
    assert "foo/get" in message
    assert refused.json["details"]["causes"][0]["reason"] == "VirtualVerbForbidden"

    def told() -> bool:
        return any(
            one["user"]["username"] == "alice"
            and one["responseStatus"]["code"] == 403
            and "kube-system" in orjson.dumps(one).decode()
            for one in rights.audited()
        )

    wait_for(told, "a line in the audit log")


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        (NAMESPACES, "list"),
        (f"{NAMESPACES}?watch=1&timeoutSeconds=1", "watch"),
        (f"{NAMESPACES}?watch=0", "list"),
        ("/api/v1/watch/namespaces?timeoutSeconds=1", "watch"),
    ],
)
def test_the_verb_is_that_of_the_inner_request(rights: GatewaySite, path: str, verb: str) -> None:
    """B5."""
    refused = rights.proxy("foo", path, "alice")
    assert refused.status == 403
    assert f"foo/{verb}" in refused.json["message"]
    # The embedded server has no verbs in paths.
    assert rights.proxy("foo", path, "bob").status == (404 if "/watch/" in path and not KUBE else 200)


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("DELETE", f"{NAMESPACES}/default/secrets", "foo/deletecollection"),
        ("DELETE", f"{NAMESPACES}/default/secrets/s", "foo/delete"),
        ("GET", f"{NAMESPACES}/default/pods/p/log", "pods/log"),
        ("GET", "/metrics", "foo/get"),
    ],
)
def test_all_that_a_request_says_counts(rights: GatewaySite, method: str, path: str, said: str) -> None:
    """B5."""
    refused = rights.proxy("foo", path, "carol", method)
    assert refused.status == 403
    assert said in refused.json["message"]


def test_a_name_in_a_selector_counts(rights: GatewaySite) -> None:
    assert rights.proxy("foo", f"{NAMESPACES}?fieldSelector=metadata.name%3Ddefault", "alice").status == 403
    rights.grant("alice", rule(["namespaces"], ["foo/list"], ["default"]))
    wait_for(
        lambda: rights.proxy("foo", f"{NAMESPACES}?fieldSelector=metadata.name%3Ddefault", "alice").status == 200,
        "the right to list one",
    )
    assert rights.proxy("foo", f"{NAMESPACES}?fieldSelector=metadata.name%3Dkube-system", "alice").status == 403


def test_paths_that_are_no_resource_are_judged_too(rights: GatewaySite) -> None:
    refused = rights.proxy("foo", "/metrics", "bob")
    assert refused.status == 403
    assert "/metrics" in refused.json["message"]


@pytest.mark.parametrize("command", ["exec", "attach", "portforward"])
def test_reading_everything_is_no_shell(rights: GatewaySite, command: str) -> None:
    """B6: a WebSocket opens a command with a GET."""
    rights.grant("bob", rule([f"pods/{command}"], ["foo/get"]))
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
    }
    refused = rights.proxy("foo", f"{NAMESPACES}/default/pods/p/{command}?command=id", "bob", headers=headers)
    assert refused.status == 403
    assert "foo/create" in refused.json["message"]


def test_discovery_needs_no_virtual_verb(rights: GatewaySite) -> None:
    """B7."""
    for path in ("/api", "/apis", "/version", "/openapi/v3", "/apis/apps/v1", "/api/v1"):
        assert rights.proxy("foo", path, "carol").status == 200, path
    refused = rights.kubectl("foo", "get", "pods", user="carol")
    assert refused.code == 1
    assert "forbidden" in refused.err.lower()
    assert "doesn't have a resource type" not in refused.err


def test_a_grant_for_one_cluster_never_opens_another(rights: GatewaySite) -> None:
    """B10."""
    assert rights.proxy("foo", NAMESPACES, "bob").status == 200
    assert rights.proxy("bar", NAMESPACES, "bob").status == 403
    assert rights.proxy("bar", "/api/v1/pods", "bob").status == 403, "bar/* is no wildcard"
    rights.grant("carol", rule(["configmaps"], ["*"]))
    path = "/api/v1/configmaps"
    wait_for(lambda: {rights.proxy(cluster, path, "carol").status for cluster in ("foo", "bar")} == {200}, "every verb")


def test_kubectl_as_is_judged_as_that_user(rights: GatewaySite) -> None:
    """B9."""
    allowed = rights.kubectl("foo", "get", "ns", "default", "--as", "alice")
    assert allowed.code == 0, allowed.err
    name = rights.name("not-for-alice-")
    refused = rights.kubectl("foo", "get", "ns", name, "--as", "alice")
    assert refused.code == 1
    assert '"alice"' in refused.err

    def audited() -> list[str]:
        return [one["user"]["username"] for one in rights.audited() if name in orjson.dumps(one).decode()]

    assert set(wait_for(audited, "a line in the audit log")) == {"alice"}


def test_auth_can_i_is_answered_by_the_hubs_rules(rights: GatewaySite) -> None:
    def can(*asked: str) -> str:
        return rights.kubectl("foo", "auth", "can-i", *asked, user="bob").out.strip()

    assert can("list", "pods") == "yes"
    assert can("delete", "pods").startswith("no")
    assert "bob" in rights.kubectl("foo", "auth", "whoami", user="bob").expect().out


def test_who_may_only_use_a_gateway_does_not_see_the_list(rights: GatewaySite) -> None:
    assert rights.hub.client("alice").get(GATEWAYS).status == 403
    assert rights.hub.client("alice").get(f"{GATEWAYS}/foo").status == 403
