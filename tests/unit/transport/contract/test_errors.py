"""Refusals, from the hub's KubeErrors to the wire and back to the agent's."""

from __future__ import annotations

import orjson
import pytest

from muster.machinery.objects import GVR
from muster.runtime.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerFailure,
    StatusError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from muster.transport.contract.errors import from_rpc, to_rpc
from muster.transport.contract.event import InvalidEvent
from muster.transport.contract.types import InvalidType
from muster.transport.rpc.status import Code, RpcError

LEASES = GVR("coordination.k8s.io/v1", "leases", "Lease")
DETAILS = {"name": "x", "group": "coordination.k8s.io", "kind": "leases"}


@pytest.mark.parametrize(
    "error",
    [
        AlreadyExists(409, "AlreadyExists", "already exists", DETAILS),
        Conflict(409, "Conflict", "modified", DETAILS),
        NotFound(404, "NotFound", "not found", DETAILS),
        Forbidden(403, "Forbidden", "no", DETAILS),
        Invalid(422, "Invalid", "bad", {**DETAILS, "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec"}]}),
        BadRequest(400, "BadRequest", "bad"),
        TooManyRequests(429, "TooManyRequests", "later", {"retryAfterSeconds": 3}, 3),
        ServerFailure(500, "InternalError", "broken"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_status_comes_back_as_it_was(error: StatusError) -> None:
    sent = to_rpc(error)
    assert sent.code is Code.FAILED_PRECONDITION
    assert orjson.loads(sent.message)["ErrStatus"]["status"] == "Failure"
    received = from_rpc(sent, "hub:443", LEASES, "x")
    assert type(received) is type(error)
    assert isinstance(received, StatusError)
    assert (received.code, received.reason, received.message) == (error.code, error.reason, error.message)
    assert (received.details, received.retry_after) == (error.details, error.retry_after)


@pytest.mark.parametrize(
    "error",
    [Unreachable("https://10.0.0.1:6443", "connection refused"), Unauthorized(401, "Unauthorized", "token of hub-sa has expired")],
)
def test_what_is_the_hubs_own_business_is_not_told(error: KubeError) -> None:
    sent = to_rpc(error)
    assert sent.code is Code.UNAVAILABLE
    assert "10.0.0.1" not in sent.message
    assert "hub-sa" not in sent.message
    assert orjson.loads(sent.message)["ErrStatus"]["code"] == 503, "Go's clients read this whatever the code is"
    received = from_rpc(sent, "hub:443", LEASES)
    assert isinstance(received, Unreachable)
    assert received.server == "hub:443"


@pytest.mark.parametrize("error", [InvalidEvent("attribute 'x' has no value"), InvalidType("'a': an event type is …")])
def test_an_event_that_cannot_be_understood_is_an_invalid_argument(error: InvalidEvent | InvalidType) -> None:
    sent = to_rpc(error)
    assert (sent.code, sent.message) == (Code.INVALID_ARGUMENT, str(error))
    received = from_rpc(sent, "hub:443", LEASES)
    assert isinstance(received, BadRequest)
    assert str(error) in received.message


def test_what_is_long_is_cut() -> None:
    causes = [{"message": "m" * 5_000, "field": "f" * 5_000}] * 100
    for error in (Invalid(422, "Invalid", "m" * 100_000, {"name": "n" * 5_000, "causes": causes}), InvalidEvent("m" * 100_000)):
        assert len(to_rpc(error).message) < 6_000
    received = from_rpc(to_rpc(Invalid(422, "Invalid", "m" * 100_000, {"causes": causes})), "hub", LEASES)
    assert isinstance(received, Invalid)


@pytest.mark.parametrize(
    ("code", "message", "expected", "status"),
    [
        (Code.UNAUTHENTICATED, "who?", Unauthorized, 401),
        (Code.PERMISSION_DENIED, "access denied", Forbidden, 403),
        (Code.INVALID_ARGUMENT, "no", BadRequest, 400),
        (Code.RESOURCE_EXHAUSTED, "too large", TooManyRequests, 429),
        (Code.UNIMPLEMENTED, "no such method", StatusError, 405),
        (Code.FAILED_PRECONDITION, "{}", ServerFailure, 500),
        (Code.FAILED_PRECONDITION, "failed to respond", ServerFailure, 500),
        (Code.FAILED_PRECONDITION, '{"ErrStatus":{}}', ServerFailure, 500),
        (Code.FAILED_PRECONDITION, '{"ErrStatus":{"reason":"NotFound"}}', ServerFailure, 500),
        (Code.FAILED_PRECONDITION, '{"ErrStatus":[]}', ServerFailure, 500),
        (Code.FAILED_PRECONDITION, "{", ServerFailure, 500),
        (Code.UNKNOWN, "missing cluster name", ServerFailure, 500),
        (Code.INTERNAL, "", ServerFailure, 500),
    ],
)
def test_what_others_say_is_read_by_its_code(code: Code, message: str, expected: type[StatusError], status: int) -> None:
    received = from_rpc(RpcError(code, message), "hub:443", LEASES, "x")
    assert type(received) is expected
    assert isinstance(received, StatusError)
    assert received.code == status
    assert str(received)


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED])
def test_no_answer_is_unreachable(code: Code) -> None:
    received = from_rpc(RpcError(code, "gone"), "hub:443", LEASES)
    assert isinstance(received, Unreachable)
    assert received.sent, "it may have been carried out"


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_every_code_has_a_meaning(code: Code) -> None:
    assert isinstance(from_rpc(RpcError(code, "text"), "hub:443", LEASES), KubeError)
