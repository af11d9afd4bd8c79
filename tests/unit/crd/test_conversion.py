"""Conversion between versions, by name only and by webhook, and the contract a webhook is held to."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.apiserver.crd.converters import Converter, NopConverter, converter_for
from muster.apiserver.errors import ApiError
from muster.apiserver.webhooks import WebhookRoute
from tests.support.https_server import Answer, HttpsServer, Received


def thing(name: str = "a", version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": f"x.io/{version}", "kind": "Thing", "metadata": {"name": name, "uid": f"uid-{name}", "generation": 3}}


def answered(review: dict[str, Any], **response: Any) -> dict[str, Any]:
    return {**review, "response": {**review["response"], **response}}


class Hook:
    """A conversion webhook whose answer a test may spoil: `change` gets each object, `spoil` the whole review."""

    def __init__(self) -> None:
        self.change: Callable[[dict[str, Any]], None] = lambda obj: None
        self.spoil: Callable[[dict[str, Any]], Any] = lambda review: review
        self.server = HttpsServer(self.answer, hosts=("hook.ns.svc",))

    def answer(self, received: Received) -> Answer:
        request = received.json["request"]
        converted = copy.deepcopy(request["objects"])
        for obj in converted:
            obj["apiVersion"] = request["desiredAPIVersion"]
            self.change(obj)
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        review = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response}
        return Answer(self.spoil(review))

    def converter(self, **config: Any) -> Converter:
        given = config or {"url": f"{self.server.url}/convert"}
        client = {**given, "caBundle": base64.b64encode(self.server.ca).decode()}
        webhook = {"conversionReviewVersions": ["v2", "v1"], "clientConfig": client}

        def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
            assert (namespace, name, port) == ("ns", "hook", 443)
            return "127.0.0.1", self.server.port

        return converter_for({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}, WebhookRoute(resolve))


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()
    with hook.server:
        yield hook


async def refusal(converter: Converter, *objects: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as refused:
        await converter.convert(list(objects) or [thing()], "x.io/v2")
    assert refused.value.code == 500
    return str(refused.value)


async def test_without_a_webhook_only_the_version_changes() -> None:
    same = thing(version="v2")
    converted = await NopConverter().convert([thing(), same], "x.io/v2")
    assert converted == [{**thing(), "apiVersion": "x.io/v2"}, same]
    assert converted[1] is same


async def test_all_objects_that_need_it_go_out_in_one_review(hook: Hook) -> None:
    hook.change = lambda obj: obj.update(spec={"seen": True})
    converted = await hook.converter().convert([thing("a"), thing("b", "v2"), thing("c")], "x.io/v2")
    assert [(obj["metadata"]["name"], obj["apiVersion"], obj.get("spec")) for obj in converted] == [
        ("a", "x.io/v2", {"seen": True}),
        ("b", "x.io/v2", None),
        ("c", "x.io/v2", {"seen": True}),
    ]
    (received,) = hook.server.received
    assert [obj["metadata"]["name"] for obj in received.json["request"]["objects"]] == ["a", "c"]


async def test_nothing_to_convert_asks_nobody(hook: Hook) -> None:
    await hook.converter().convert([thing(version="v2")], "x.io/v2")
    assert hook.server.received == []


async def test_a_service_is_called_under_its_own_name(hook: Hook) -> None:
    converter = hook.converter(service={"namespace": "ns", "name": "hook", "path": "/convert", "port": 443})
    await converter.convert([thing()], "x.io/v2")
    assert hook.server.received[0].path == "/convert?timeout=30s"


async def test_only_labels_and_annotations_of_the_metadata_may_change(hook: Hook) -> None:
    hook.change = lambda obj: obj["metadata"].update(labels={"l": "1"}, annotations={"a": "b"}, generation=9, finalizers=["x.io/y"])
    (converted,) = await hook.converter().convert([thing()], "x.io/v2")
    assert converted["metadata"] == {**thing()["metadata"], "labels": {"l": "1"}, "annotations": {"a": "b"}}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            lambda obj: obj.update(apiVersion="x.io/v9"),
            "returned invalid object at index 0: invalid groupVersion (expected x.io/v2, received x.io/v9)",
        ),
        (lambda obj: obj.update(kind="Other"), "returned invalid object at index 0: invalid kind (expected Thing, received Other)"),
        (lambda obj: obj["metadata"].update(name="b"), "returned invalid object: must have the same name: a != b"),
        (lambda obj: obj["metadata"].update(uid="b"), "returned invalid object: must have the same UID: uid-a != b"),
        (
            lambda obj: obj["metadata"].update(labels={"a": 1}),
            "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
    ],
)
async def test_an_object_that_lost_its_identity_is_refused(hook: Hook, change: Callable[[dict[str, Any]], None], text: str) -> None:
    hook.change = change
    assert await refusal(hook.converter()) == f"conversion webhook for x.io/v1, Kind=Thing {text}"


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda review: {**review, "response": None}, "failed: no response provided"),
        (
            lambda review: {**review, "kind": "Other"},
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, "
            "got apiextensions.k8s.io/v1, Kind=Other",
        ),
        (lambda review: answered(review, result={"status": "Failed", "message": "no"}), "failed: no"),
        (lambda review: answered(review, result={}), "failed: response.result.status was '', not 'Success'"),
        (lambda review: answered(review, convertedObjects=[]), "returned 0 objects, expected 1"),
    ],
)
async def test_a_broken_answer_is_refused(hook: Hook, spoil: Callable[[dict[str, Any]], Any], text: str) -> None:
    hook.spoil = spoil
    assert await refusal(hook.converter()) == f"conversion webhook for x.io/v1, Kind=Thing {text}"


async def test_an_answer_to_another_request_is_refused(hook: Hook) -> None:
    hook.spoil = lambda review: answered(review, uid="other")
    text = await refusal(hook.converter())
    assert text.startswith("conversion webhook for x.io/v1, Kind=Thing failed: expected response.uid=")
    assert text.endswith(', got "other"')


async def test_a_webhook_that_is_not_there_says_so() -> None:
    hook = Hook()
    with hook.server:
        port = hook.server.port
    text = await refusal(hook.converter(url=f"https://127.0.0.1:{port}/convert"))
    assert text == (
        f'conversion webhook for x.io/v1, Kind=Thing failed: Post "https://127.0.0.1:{port}/convert?timeout=30s": '
        f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    )


async def test_a_certificate_of_another_authority_is_not_trusted(hook: Hook) -> None:
    other = Hook()
    config = {"url": f"{hook.server.url}/convert"}
    assert "certificate" in await refusal(other.converter(**config))
