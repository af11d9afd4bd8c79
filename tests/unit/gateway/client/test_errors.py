"""Who refused, by what the server's Status says, whichever library read it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from muster.gateway import target
from muster.gateway.client import (
    ClusterForbidden,
    ClusterUnavailable,
    ClusterUnknown,
    GatewayApi,
    GatewayError,
    GatewayForbidden,
    HubForbidden,
    VirtualVerbForbidden,
    blame,
    blaming,
    refusal,
)
from muster.runtime.client import status_error

GROUP = "proxy.open-cluster-management.io"
GATEWAY = {"group": GROUP, "kind": "clustergateways", "name": "foo"}


def status(code: int, message: str = "no", cause: str = "", **details: Any) -> dict[str, Any]:
    causes = {"causes": [{"reason": "SomethingElse"}, {"reason": cause, "message": "m"}]} if cause else {}
    return {"kind": "Status", "apiVersion": "v1", "code": code, "message": message, "details": {**details, **causes}}


CASES: list[tuple[dict[str, Any], dict[str, str], type[GatewayError] | None]] = [
    (status(403, **GATEWAY), {}, HubForbidden),
    (status(403, **GATEWAY), {"Warning": '299 - "asked as x"'}, ClusterForbidden),
    (status(403, **{**GATEWAY, "name": "bar"}), {}, ClusterForbidden),
    (status(403, cause="VirtualVerbForbidden", kind="pods"), {}, VirtualVerbForbidden),
    (status(403, kind="pods"), {"warning": '299 - "asked as x"'}, ClusterForbidden),
    (status(403, cause="GatewayDenied", kind="pods"), {}, GatewayForbidden),
    (status(404, **GATEWAY), {}, ClusterUnknown),
    (status(400, cause="UnacceptablePath", **GATEWAY), {}, GatewayError),
    (status(503, cause="AccessReviewFailed"), {}, GatewayError),
    (status(404, kind="pods", name="foo"), {}, None),
    (status(404), {}, None),
    (status(409, kind="pods"), {}, None),
    (status(503, kind="pods"), {}, None),
    (status(503, cause=target.CREDENTIAL_EXPIRED), {}, ClusterUnavailable),
    (status(504, cause=target.CLUSTER_TIMEOUT), {}, ClusterUnavailable),
    (status(502, cause=target.CERTIFICATE_MISMATCH), {}, ClusterUnavailable),
    (status(429, cause=target.CLUSTER_BUSY), {}, ClusterUnavailable),
]


@pytest.mark.parametrize(("answer", "headers", "expected"), CASES)
def test_an_answer_tells_who_refused(answer: dict[str, Any], headers: dict[str, str], expected: type[GatewayError] | None) -> None:
    for body in (answer, json.dumps(answer), json.dumps(answer).encode()):
        found = refusal("foo", answer["code"], body, headers)
        assert (None if found is None else type(found)) is expected
        if found is not None:
            assert (found.cluster, found.code, found.status) == ("foo", answer["code"], answer)
            assert str(found) == "cluster foo: no"


def test_the_cause_is_told() -> None:
    found = refusal("foo", 503, status(503, cause=target.CREDENTIAL_MISSING))
    assert found is not None
    assert found.cause == target.CREDENTIAL_MISSING


@pytest.mark.parametrize("body", [b"", b"unavailable\n", "[]", b"\xff", {"kind": "Pod"}, {"kind": "Status", "details": []}, None])
def test_answers_that_are_no_status_blame_nobody_but_the_cluster_for_403(body: Any) -> None:
    assert refusal("foo", 503, body) is None
    assert isinstance(refusal("foo", 403, body), ClusterForbidden)


def test_another_group_is_recognised_when_told() -> None:
    api = GatewayApi("cluster.core.oam.dev")
    answer = status(404, **{**GATEWAY, "group": "cluster.core.oam.dev"})
    assert refusal("foo", 404, answer) is None
    assert isinstance(refusal("foo", 404, answer, api=api), ClusterUnknown)


class LibraryError(Exception):
    def __init__(self, **fields: Any) -> None:
        super().__init__("of a library")
        vars(self).update(fields)


def library_errors(answer: dict[str, Any]) -> dict[str, Exception]:
    """Shaped as those of the libraries; the real ones are in tests/interop."""
    code, text = answer["code"], json.dumps(answer)
    response = SimpleNamespace(status_code=code, content=text.encode(), headers={})
    return {
        "kubernetes": LibraryError(status=code, reason="Forbidden", body=text, headers={"Content-Type": "x"}),
        "kubernetes, with nothing read": LibraryError(status=code, reason="x", body=text, headers=None),
        "httpx, requests": LibraryError(response=response),
        "kr8s": LibraryError(status=answer, response=response),
        "ours": status_error(code, text.encode()),
    }


@pytest.mark.parametrize("library", library_errors(status(404)))
def test_errors_of_libraries_tell_who_refused(library: str) -> None:
    error = library_errors(status(403, cause="VirtualVerbForbidden", kind="pods"))[library]
    assert isinstance(blame("foo", error), VirtualVerbForbidden)
    assert isinstance(blame("foo", library_errors(status(404, **GATEWAY))[library]), ClusterUnknown)
    assert blame("foo", library_errors(status(404, kind="pods"))[library]) is None


def test_refusals_come_out_of_a_block_as_what_they_are() -> None:
    error = library_errors(status(404, **GATEWAY))["kubernetes"]
    with pytest.raises(ClusterUnknown) as refused, blaming("foo"):
        raise error
    assert refused.value.__cause__ is error
    with pytest.raises(KeyError), blaming("foo"):
        raise KeyError
    with pytest.raises(LibraryError), blaming("foo"):
        raise library_errors(status(409))["kubernetes"]


def test_a_response_that_was_not_read_is_no_reason_to_fail() -> None:
    class Unread:
        status_code = 503
        headers = None

        @property
        def content(self) -> bytes:
            raise RuntimeError("not read")

    assert blame("foo", LibraryError(response=Unread())) is None
    assert blame("foo", ValueError("no answer at all")) is None
