"""What an error of the API server is told by: its fields, not its text."""

from __future__ import annotations

from typing import Any

import pytest

from muster.runtime.client.errors import status_error

NAMED = {"group": "g", "kind": "things", "name": "one"}
CALL_FAILED = {"causes": [{"message": 'failed calling webhook "w": EOF'}]}


def status(**fields: Any) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "text", **fields}


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (403, {"reason": "Forbidden"}),
        (403, {}),
        (400, {"reason": "BadRequest"}),
        (503, {"reason": "ServiceUnavailable"}),
    ],
    ids=["forbidden", "without a reason", "a bad request", "cannot find out"],
)
def test_a_denial_of_a_webhook_has_nothing_but_its_code_and_reason(code: int, fields: dict[str, Any]) -> None:
    assert status_error(code, status(**fields)).by_webhook


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (403, {"reason": "Forbidden", "details": NAMED}),
        (409, {"reason": "Conflict", "details": NAMED}),
        (422, {"reason": "Invalid", "details": NAMED}),
        (429, {"reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}}),
        (500, {"reason": "InternalError", "details": CALL_FAILED}),
        (401, {"reason": "Unauthorized"}),
    ],
    ids=["no right", "conflict", "invalid", "too many", "webhook not reached", "unknown user"],
)
def test_what_the_server_refuses_itself_is_no_denial_of_a_webhook(code: int, fields: dict[str, Any]) -> None:
    assert not status_error(code, status(**fields)).by_webhook


def test_the_page_of_a_proxy_is_no_denial_of_a_webhook() -> None:
    assert not status_error(502, b"<html>bad gateway</html>").by_webhook
