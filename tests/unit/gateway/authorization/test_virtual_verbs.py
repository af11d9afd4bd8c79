"""Who may do what on which cluster, by the hub's virtual verbs (the scenarios B1 to B10 of the gateway)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gateway.authorization import AuthorizationOptions, GatewayAuthorizer, HubAccess, parse_denial
from muster.gateway.authorization.attributes import NoVirtualVerb, hub_attributes, inner_attributes, virtual_verb
from muster.gateway.request_decision import Granted, Refused, RequestDecision
from muster.http import Request
from muster.kube.request_info import RequestInfo
from muster.machinery.authorization import AccessAttributes
from muster.runtime.client.errors import Forbidden, Unreachable
from tests.unit.gateway.authorization.hub import USER1, RecordingHub, content, may_use, path, request, resource, rule


async def judged(
    hub: RecordingHub,
    inner: RequestInfo,
    cluster: str = "foo",
    asking: Request | None = None,
    options: AuthorizationOptions | None = None,
    timeout: float = 10.0,
) -> RequestDecision:
    judge = GatewayAuthorizer(HubAccess(hub, timeout=timeout), options or AuthorizationOptions())
    return await judge.authorize(USER1, cluster, inner, asking or request())


def refusal(verdict: RequestDecision) -> Any:
    assert isinstance(verdict, Refused)
    status = content(verdict.answer)
    assert status["kind"] == "Status"
    assert status["code"] == verdict.answer.status
    return status


# B1, B2 ------------------------------------------------------------------------------------------------------------------------


async def test_a_gateway_that_is_not_ones_own_is_refused_in_the_hubs_words() -> None:
    hub = HubAccess(RecordingHub(may_use("foo")))
    assert await hub.may_use(USER1, "foo", "get") is None
    refused = await hub.may_use(USER1, "bar", "get")
    assert refused is not None
    status = refusal(refused)
    assert status["reason"] == "Forbidden"
    assert status["code"] == 403
    assert status["message"] == (
        'clustergateways.proxy.open-cluster-management.io "bar" is forbidden: User "user1" cannot get resource '
        '"clustergateways/proxy" in API group "proxy.open-cluster-management.io" at the cluster scope'
    )
    assert status["details"] == {"name": "bar", "group": "proxy.open-cluster-management.io", "kind": "clustergateways"}


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
async def test_who_may_get_a_gateway_may_not_write_through_it(verb: str) -> None:
    refused = await HubAccess(RecordingHub(may_use("foo"))).may_use(USER1, "foo", verb)
    assert refused is not None
    assert refusal(refused)["code"] == 403


async def test_gateways_themselves_are_asked_for_without_a_subresource() -> None:
    hub = RecordingHub(rule("list watch", "clustergateways", "proxy.open-cluster-management.io"))
    access = HubAccess(hub)
    assert await access.may_use(USER1, "", "list", "") is None
    assert await access.may_use(USER1, "foo", "get", "health") is not None
    assert hub.questions == [
        AccessAttributes("list", "proxy.open-cluster-management.io", "v1alpha1", "clustergateways"),
        AccessAttributes("get", "proxy.open-cluster-management.io", "v1alpha1", "clustergateways", "health", name="foo"),
    ]


# B3, B4 ------------------------------------------------------------------------------------------------------------------------


async def test_a_granted_namespace_is_forwarded_after_exactly_one_question() -> None:
    hub = RecordingHub(rule("foo/get", "namespaces", names="default"))
    verdict = await judged(hub, resource("get", "namespaces", namespace="default", name="default"))
    assert isinstance(verdict, Granted)
    assert verdict.impersonated is None
    asked = AccessAttributes("foo/get", version="v1", resource="namespaces", namespace="default", name="default")
    assert hub.asked == [(USER1, asked)]


async def test_another_namespace_is_refused_by_the_gateway_which_says_who_what_where_and_by_which_verb() -> None:
    hub = RecordingHub(rule("foo/get", "namespaces", names="default"))
    status = refusal(await judged(hub, resource("get", "namespaces", namespace="kube-system", name="kube-system")))
    assert status["code"] == 403
    assert status["reason"] == "Forbidden"
    assert status["message"] == (
        'namespaces "kube-system" is forbidden: User "user1" cannot get resource "namespaces" in API group "" in the namespace '
        '"kube-system" of cluster "foo": the cluster gateway requires the verb "foo/get" for this on the hub'
    )
    assert status["details"]["name"] == "kube-system"
    assert status["details"]["kind"] == "namespaces"
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["VirtualVerbForbidden"]


async def test_a_refused_path_is_named() -> None:
    status = refusal(await judged(RecordingHub(), path("/metrics")))
    assert status["message"] == (
        'forbidden: User "user1" cannot get path "/metrics" of cluster "foo": the cluster gateway requires the verb "foo/get" '
        "for this on the hub"
    )
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["VirtualVerbForbidden"]


# B5 ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inner", "asked"),
    [
        (resource("list", "pods"), AccessAttributes("foo/list", version="v1", resource="pods")),
        (resource("watch", "pods"), AccessAttributes("foo/watch", version="v1", resource="pods")),
        (
            resource("list", "pods", namespace="a", name="x", field_selector="metadata.name=x", label_selector="app in (b)"),
            AccessAttributes(
                "foo/list", "", "v1", "pods", "", "a", "x", field_selector="metadata.name=x", label_selector="app in (b)"
            ),
        ),
        (
            resource("deletecollection", "deployments", group="apps", namespace="a"),
            AccessAttributes("foo/deletecollection", "apps", "v1", "deployments", "", "a"),
        ),
        (
            resource("get", "pods", namespace="a", name="p", subresource="log"),
            AccessAttributes("foo/get", "", "v1", "pods", "log", "a", "p"),
        ),
        (resource("proxy", "nodes", name="n"), AccessAttributes("foo/proxy", "", "v1", "nodes", name="n")),
        (path("/metrics"), AccessAttributes("foo/get", path="/metrics")),
        (path("/logs/x", "post"), AccessAttributes("foo/post", path="/logs/x")),
    ],
)
async def test_the_hub_is_asked_about_everything_that_the_request_says(inner: RequestInfo, asked: AccessAttributes) -> None:
    hub = RecordingHub()
    refusal(await judged(hub, inner))
    assert hub.questions == [asked]


def test_selectors_go_into_the_review_as_they_stand_in_the_query() -> None:
    asked = AccessAttributes("foo/list", resource="pods", field_selector="a=b", label_selector="c")
    assert asked.spec() == {
        "resourceAttributes": {
            "verb": "foo/list",
            "resource": "pods",
            "fieldSelector": {"rawSelector": "a=b"},
            "labelSelector": {"rawSelector": "c"},
        }
    }


# B6 ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
@pytest.mark.parametrize("upgrade", [True, False])
async def test_commands_in_pods_need_create_whatever_the_method(subresource: str, upgrade: bool) -> None:
    inner = resource("get", "pods", namespace="a", name="p", subresource=subresource)
    asking = request({"upgrade": "websocket", "connection": "Upgrade"}) if upgrade else request()
    reading = RecordingHub(rule("foo/get", "*"))
    status = refusal(await judged(reading, inner, asking=asking))
    assert 'requires the verb "foo/create"' in status["message"]
    creating = RecordingHub(rule("foo/create", f"pods/{subresource}"))
    assert isinstance(await judged(creating, inner, asking=asking), Granted)


@pytest.mark.parametrize("headers", [{"upgrade": "websocket"}, {"connection": "keep-alive, UPGRADE"}])
async def test_upgrades_through_a_nodes_proxy_need_create(headers: dict[str, str]) -> None:
    inner = resource("get", "nodes", name="n", subresource="proxy")
    hub = RecordingHub(rule("foo/get", "*"))
    assert isinstance(await judged(hub, inner), Granted)
    assert 'the verb "foo/create"' in refusal(await judged(hub, inner, asking=request(headers)))["message"]


@pytest.mark.parametrize("kind", ["pods", "services"])
async def test_other_proxies_keep_the_methods_verb(kind: str) -> None:
    inner = resource("get", kind, namespace="a", name="x", subresource="proxy")
    hub = RecordingHub(rule("foo/get", f"{kind}/proxy"))
    assert isinstance(await judged(hub, inner, asking=request({"upgrade": "websocket"})), Granted)


async def test_a_custom_resource_called_pods_has_its_own_rules() -> None:
    inner = resource("get", "pods", group="example.org", name="p", subresource="exec")
    assert isinstance(await judged(RecordingHub(rule("foo/get", "pods/exec", "example.org")), inner), Granted)


# B7 ----------------------------------------------------------------------------------------------------------------------------

DISCOVERY = [
    "/api",
    "/api/",
    "/api/v1",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/apps/v1/",
    "/healthz",
    "/livez",
    "/openapi/v2",
    "/openapi/v3/apis/apps/v1",
    "/readyz",
    "/version",
    "/version/",
]


@pytest.mark.parametrize("text", DISCOVERY)
@pytest.mark.parametrize("verb", ["get", "head"])
async def test_discovery_is_for_whoever_may_use_the_gateway(text: str, verb: str) -> None:
    hub = RecordingHub(may_use("foo"))
    assert isinstance(await judged(hub, path(text, verb)), Granted)
    assert isinstance(await judged(hub, path(text, verb), "bar"), Refused)
    switched_off = AuthorizationOptions(exempt_discovery=False)
    assert isinstance(await judged(hub, path(text, verb), options=switched_off), Refused)


@pytest.mark.parametrize(
    "text",
    [
        *("/", "/metrics", "/healthz/etcd", "/readyz/", "/apiserver", "/apis/../metrics", "/api/..", "/api/./v1", "/api//v1"),
        *("/openapi/..%2fmetrics", "/api/v1\n", "/version/x", "//api", "/api/%2e%2e", "api", "/APIS", "/api/v1;x", "/logs/"),
    ],
)
async def test_nothing_else_is_discovery(text: str) -> None:
    assert isinstance(await judged(RecordingHub(may_use("foo")), path(text)), Refused)


async def test_resources_and_writes_are_no_discovery() -> None:
    hub = RecordingHub(may_use("foo", "get create"))
    assert isinstance(await judged(hub, path("/api", "post")), Refused)
    pods = RequestInfo(True, "/api/v1/pods", "list", "api", "", "v1", "", "pods")
    assert "forbidden" in refusal(await judged(hub, pods))["message"]


# B8 ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [resource("get", "pods", name="p"), path("/api"), path("/metrics")])
@pytest.mark.parametrize(
    "failure", [Unreachable("https://hub", "away"), Forbidden(403, "Forbidden", "no"), RuntimeError("engine"), TimeoutError()]
)
async def test_a_hub_that_cannot_be_asked_forwards_nothing(inner: RequestInfo, failure: Exception) -> None:
    hub = RecordingHub(rule("*", "*", "*"), rule("*", paths="*"))
    hub.failure = failure
    status = refusal(await judged(hub, inner))
    assert status["code"] == (504 if isinstance(failure, TimeoutError) else 503)
    assert "nothing was forwarded" in status["message"]
    assert ("system:auth-delegator" in status["message"]) == isinstance(failure, Forbidden)
    assert "engine" not in status["message"]


async def test_a_hub_that_does_not_answer_forwards_nothing() -> None:
    hub = RecordingHub(rule("*", "*", "*"))
    hub.hangs = True
    status = refusal(await judged(hub, resource("get", "pods", name="p"), timeout=0.01))
    assert (status["code"], status["reason"]) == (504, "Timeout")
    refused = await HubAccess(hub, timeout=0.01).may_use(USER1, "foo", "get")
    assert refused is not None
    assert refusal(refused)["code"] == 504


# B10 ---------------------------------------------------------------------------------------------------------------------------


async def test_a_grant_for_one_cluster_opens_no_other() -> None:
    pods = resource("get", "pods", name="p")
    one = RecordingHub(rule("foo/get", "pods"))
    assert isinstance(await judged(one, pods, "foo"), Granted)
    assert isinstance(await judged(one, pods, "bar"), Refused)
    every = RecordingHub(rule("*", "pods"))
    assert isinstance(await judged(every, pods, "foo"), Granted)
    assert isinstance(await judged(every, pods, "bar"), Granted)
    assert isinstance(await judged(RecordingHub(rule("foo/*", "pods")), pods, "foo"), Refused)


words = st.text(alphabet="abfgo/*-.: \n\0é", max_size=6)
infos = st.builds(
    RequestInfo,
    is_resource=st.booleans(),
    path=words,
    verb=words,
    resource=words,
    subresource=words,
    namespace=words,
    name=words,
    group=words,
    field_selector=words,
    label_selector=words,
)


@given(words, words, infos, infos, st.booleans())
def test_requests_for_two_clusters_never_share_an_answer(
    one: str, other: str, first: RequestInfo, second: RequestInfo, upgrade: bool
) -> None:
    if one == other:
        return
    try:
        asked = hub_attributes(one, inner_attributes(first, upgrade)), hub_attributes(other, inner_attributes(second, upgrade))
    except NoVirtualVerb:
        return
    assert asked[0].verb != asked[1].verb


@pytest.mark.parametrize("cluster", ["", "foo/get", "foo/", "/", "*", "FOO", "foo bar", "foo\n", "foo\0", "..", "é", "a" * 300])
def test_what_cannot_be_a_cluster_has_no_virtual_verb(cluster: str) -> None:
    with pytest.raises(NoVirtualVerb):
        virtual_verb(cluster, "get")


@pytest.mark.parametrize("verb", ["", "*", "get/x", "/", "GET", "get ", " get", "get\n", "g*", "gét", "get,list", "x" * 100])
async def test_a_verb_that_is_no_word_is_neither_asked_about_nor_forwarded(verb: str) -> None:
    hub = RecordingHub(rule("*", "*", "*"), rule("*", paths="*"))
    for inner in (resource(verb, "pods"), path("/metrics", verb)):
        assert refusal(await judged(hub, inner))["code"] == 405
    assert hub.asked == []


async def test_a_request_that_names_no_resource_is_not_judged_as_a_path() -> None:
    hub = RecordingHub(rule("*", paths="*"))
    assert isinstance(await judged(hub, RequestInfo(True, "/api/v1/x", "get")), Refused)
    assert hub.asked == []


# Options -----------------------------------------------------------------------------------------------------------------------


async def test_role_bindings_of_the_hubs_namespaces_can_be_left_out_of_account() -> None:
    hub = RecordingHub()
    await judged(hub, resource("get", "pods", namespace="a", name="p"), options=AuthorizationOptions(hub_namespaces=False))
    assert hub.questions == [AccessAttributes("foo/get", version="v1", resource="pods", name="p")]


async def test_what_is_denied_is_forwarded_for_nobody() -> None:
    hub = RecordingHub(rule("*", "*", "*"))
    options = AuthorizationOptions(denials=(parse_denial("tokens"), parse_denial("secrets@foo")))
    token = resource("create", "serviceaccounts", namespace="a", name="robot", subresource="token")
    status = refusal(await judged(hub, token, options=options))
    assert status["code"] == 403
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["GatewayDenied"]
    assert refusal(await judged(hub, token, "bar", options=options))
    for verb in ("get", "list", "watch", "patch", "delete"):
        assert isinstance(await judged(hub, resource(verb, "secrets"), options=options), Refused)
        assert isinstance(await judged(hub, resource(verb, "secrets"), "bar", options=options), Granted)
    assert isinstance(await judged(hub, resource("get", "serviceaccounts", name="robot"), options=options), Granted)


@pytest.mark.parametrize("text", ["", "pods", "tokens@", "tokens@a/b", "secrets@FOO", "@foo"])
def test_a_denial_that_means_nothing_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"write tokens\|secrets\[@CLUSTER\]"):
        parse_denial(text)
