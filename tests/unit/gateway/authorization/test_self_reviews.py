"""`kubectl auth can-i` and `whoami` through the gateway: its own rules answer, not the cluster's for the gateway's account."""

from typing import Any

import orjson
import pytest

from muster.gateway.authorization import AuthorizationOptions, GatewayAuthorizer, HubAccess, parse_denial
from muster.gateway.authorization.authorizer import DEFAULTS
from muster.gateway.authorization.self_reviews import MAX_BODY_SIZE
from muster.gateway.request_decision import Answered, Granted, Refused, RequestDecision
from muster.kube.request_info import RequestInfo
from muster.machinery.authorization import AccessAttributes
from muster.runtime.client.errors import Unreachable
from tests.unit.gateway.authorization.hub import USER1, RecordingHub, content, may_use, request, resource, rule

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
ACCESS = resource("create", "selfsubjectaccessreviews", group=AUTHORIZATION)
RULES = resource("create", "selfsubjectrulesreviews", group=AUTHORIZATION)
WHOAMI = resource("create", "selfsubjectreviews", group=AUTHENTICATION)
USING = may_use("foo", "create get")


async def posted(
    hub: RecordingHub,
    inner: RequestInfo,
    body: bytes,
    media: str = "application/json",
    options: AuthorizationOptions | None = None,
) -> RequestDecision:
    judge = GatewayAuthorizer(HubAccess(hub), options or AuthorizationOptions())
    return await judge.authorize(USER1, "foo", inner, request(body=body, media=media))


async def can_i(hub: RecordingHub, options: AuthorizationOptions = DEFAULTS, /, **asked: str) -> dict[str, Any]:
    key = "nonResourceAttributes" if "path" in asked else "resourceAttributes"
    verdict = await posted(hub, ACCESS, orjson.dumps({"spec": {key: asked}}), options=options)
    assert isinstance(verdict, Answered)
    answer = content(verdict.answer)
    assert verdict.answer.status == 201
    assert (answer["kind"], answer["apiVersion"]) == ("SelfSubjectAccessReview", "authorization.k8s.io/v1")
    assert answer["spec"] == {key: {name: value for name, value in asked.items() if value}}
    status: dict[str, Any] = answer["status"]
    return status


async def test_can_i_is_answered_by_the_virtual_verb() -> None:
    hub = RecordingHub(USING, rule("foo/get", "pods", names="p"))
    wanted = {"namespace": "a", "verb": "get", "version": "v1", "resource": "pods"}
    assert (await can_i(hub, **wanted, name="p"))["allowed"] is True
    assert hub.questions[-1] == AccessAttributes("foo/get", "", "v1", "pods", "", "a", "p")
    refused = await can_i(hub, **wanted)
    assert refused["allowed"] is False
    assert 'requires the verb "foo/get"' in refused["reason"]


async def test_every_verb_is_asked_for_as_such() -> None:
    everything = {"verb": "*", "group": "*", "resource": "*"}
    assert not (await can_i(RecordingHub(USING, rule("foo/*", "*", "*")), **everything))["allowed"]
    assert (await can_i(RecordingHub(rule("*", "*", "*")), **everything))["allowed"]
    denying = AuthorizationOptions(denials=(parse_denial("secrets"),))
    assert not (await can_i(RecordingHub(rule("*", "*", "*")), denying, **everything))["allowed"]


async def test_the_answer_is_what_the_gateway_would_do() -> None:
    hub = RecordingHub(USING, rule("foo/get", "*"), rule("foo/get", paths="/metrics"))
    assert not (await can_i(hub, verb="get", resource="pods", subresource="exec"))["allowed"]
    assert (await can_i(hub, verb="get", path="/metrics"))["allowed"]
    assert (await can_i(hub, verb="get", path="/api"))["allowed"]
    assert not (await can_i(hub, AuthorizationOptions(exempt_discovery=False), verb="get", path="/api"))["allowed"]
    assert not (await can_i(hub, AuthorizationOptions(denials=(parse_denial("secrets"),)), verb="get", resource="secrets"))[
        "allowed"
    ]


@pytest.mark.parametrize("verb", ["foo/get", "", "GET", "get\n"])
async def test_a_verb_that_no_request_has_is_not_allowed(verb: str) -> None:
    assert not (await can_i(RecordingHub(rule("*", "*", "*")), verb=verb, resource="pods"))["allowed"]


async def test_a_review_needs_the_right_to_post_to_the_gateway() -> None:
    verdict = await posted(RecordingHub(may_use("foo")), ACCESS, b"{}")
    assert isinstance(verdict, Refused)
    assert verdict.answer.status == 403


async def test_a_hub_that_cannot_be_asked_gives_no_answer() -> None:
    hub = RecordingHub()
    hub.failure = Unreachable("https://hub", "away")
    verdict = await posted(hub, ACCESS, b'{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}')
    assert isinstance(verdict, Refused)
    assert verdict.answer.status == 503


async def test_whoami_is_the_caller() -> None:
    verdict = await posted(RecordingHub(USING), WHOAMI, b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}')
    assert isinstance(verdict, Answered)
    assert content(verdict.answer)["status"]["userInfo"] == USER1.document()


async def test_rules_are_incomplete_and_say_where_they_are() -> None:
    verdict = await posted(RecordingHub(USING), RULES, b'{"spec": {"namespace": "default"}}')
    assert isinstance(verdict, Answered)
    status = content(verdict.answer)["status"]
    assert status["incomplete"] is True
    assert '"foo/<verb>" on the hub' in status["evaluationError"]
    assert status["nonResourceRules"][0]["nonResourceURLs"]
    refused = await posted(RecordingHub(USING), RULES, b"{}")
    assert isinstance(refused, Refused)
    assert content(refused.answer)["message"] == "no namespace on request"


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"{}", 422, "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        (b'{"spec": null}', 422, "exactly one of"),
        (b'{"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}', 422, "cannot be specified in combination"),
        (b'{"spec": {"resourceAttributes": []}}', 400, "spec.resourceAttributes"),
        (b'{"spec": {"nonResourceAttributes": 7}}', 400, "spec.nonResourceAttributes"),
        (b'{"spec": {"resourceAttributes": {"verb": 7}}}', 400, "spec.resourceAttributes.verb"),
        (b'{"spec": []}', 400, "spec"),
        (b"[]", 400, "it must be an object"),
        (b"", 400, "is not a SelfSubjectAccessReview"),
        (b'{"kind": "Pod"}', 400, "must be a SelfSubjectAccessReview"),
        (b'{"kind": ["Pod"]}', 400, "must be a SelfSubjectAccessReview"),
        (b"{" + b" " * MAX_BODY_SIZE + b"}", 413, "limit is"),
    ],
)
async def test_a_body_that_is_no_review_is_refused(body: bytes, code: int, text: str) -> None:
    verdict = await posted(RecordingHub(USING), ACCESS, body)
    assert isinstance(verdict, Refused)
    assert verdict.answer.status == code
    assert text in content(verdict.answer)["message"]


async def test_nulls_are_fields_that_are_not_there() -> None:
    body = b'{"metadata": null, "spec": {"nonResourceAttributes": null, "resourceAttributes": {"verb": "get", "name": null}}}'
    assert isinstance(await posted(RecordingHub(USING), ACCESS, body), Answered)


async def test_yaml_is_read() -> None:
    hub = RecordingHub(USING, rule("foo/get", "pods"))
    verdict = await posted(hub, ACCESS, b"spec: {resourceAttributes: {verb: get, resource: pods}}", "application/yaml")
    assert isinstance(verdict, Answered)
    assert content(verdict.answer)["status"]["allowed"]


def field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2, len(content))) + content


async def test_protobuf_is_read_as_go_clients_send_it() -> None:
    attributes = field(1, b"a") + field(2, b"get") + field(3, b"") + field(5, b"pods") + field(7, b"p")
    meta = field(1, b"authorization.k8s.io/v1") + field(2, b"SelfSubjectAccessReview")
    message = field(1, b"") + field(2, field(1, attributes))
    body = b"k8s\0" + field(1, meta) + field(2, message)
    hub = RecordingHub(USING, rule("foo/get", "pods"))
    verdict = await posted(hub, ACCESS, body, "application/vnd.kubernetes.protobuf")
    assert isinstance(verdict, Answered)
    assert content(verdict.answer)["status"]["allowed"]
    assert hub.questions[-1] == AccessAttributes("foo/get", resource="pods", namespace="a", name="p")
    torn = await posted(hub, ACCESS, body[:-3], "application/vnd.kubernetes.protobuf")
    assert isinstance(torn, Refused)
    assert torn.answer.status == 400


async def test_other_bodies_are_not() -> None:
    verdict = await posted(RecordingHub(USING), ACCESS, b"\xa1", "application/cbor")
    assert isinstance(verdict, Refused)
    assert verdict.answer.status == 415


@pytest.mark.parametrize(
    "inner",
    [
        resource("create", "subjectaccessreviews", group=AUTHORIZATION),
        resource("get", "selfsubjectaccessreviews", group=AUTHORIZATION, name="x"),
        resource("create", "selfsubjectaccessreviews", group="example.org"),
    ],
)
async def test_what_is_no_review_of_oneself_takes_the_usual_way(inner: RequestInfo) -> None:
    assert isinstance(await posted(RecordingHub(USING), inner, b"{}"), Refused)
    assert isinstance(await posted(RecordingHub(rule("*", "*", "*")), inner, b"{}"), Granted)


async def test_an_older_version_is_not_answered_for_the_gateways_account_either() -> None:
    older = RequestInfo(True, "", "create", group=AUTHORIZATION, version="v1beta1", resource="selfsubjectaccessreviews")
    verdict = await posted(RecordingHub(USING), older, b'{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}')
    assert isinstance(verdict, Answered)
    assert content(verdict.answer)["apiVersion"] == "authorization.k8s.io/v1beta1"
