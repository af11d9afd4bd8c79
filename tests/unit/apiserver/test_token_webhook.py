"""Tokens that somebody else judges."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.apiserver.auth.tokenwebhook import TokenWebhook, WebhookConfigError, WebhookTarget, load_webhook_config
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.processes import free_ports


def judge(request: Received) -> Answer:
    """Knows one token, for the audience `hub`."""
    if request.json["spec"]["token"] != "good":
        return Answer({"status": {"authenticated": False}})
    user = {"username": "jane", "uid": "7", "groups": ["devs"], "extra": {"from": ["afar"]}}
    return Answer({"status": {"authenticated": True, "user": user, "audiences": ["hub"]}})


async def ask(server: HttpsServer, token: str, *audiences: str) -> Any:
    webhook = TokenWebhook(WebhookTarget(f"{server.url}/judge?strict=1", ssl.create_default_context(cadata=server.ca.decode())))
    try:
        return await webhook(token, audiences)
    finally:
        await webhook.close()


async def test_a_token_is_posted_for_review_and_its_user_believed() -> None:
    with HttpsServer(judge) as server:
        user, audiences = await ask(server, "good", "hub", "other")
        assert (user.name, user.uid, user.groups, user.extra) == ("jane", "7", ("devs",), {"from": ("afar",)})
        assert audiences == ["hub"]
        (request,) = server.received
    assert (request.method, request.path) == ("POST", "/judge?strict=1")
    assert request.json["spec"] == {"token": "good", "audiences": ["hub", "other"]}


@pytest.mark.parametrize(("token", "audience"), [("bad", "hub"), ("good", "elsewhere")])
async def test_whom_the_judge_does_not_know_is_nobody(token: str, audience: str) -> None:
    with HttpsServer(judge) as server:
        assert await ask(server, token, audience) is None


@pytest.mark.parametrize("answer", [Answer("no JSON"), Answer([1]), Answer({"status": None}), Answer(b"x" * 2**21)])
async def test_a_judge_that_babbles_authenticates_nobody(answer: Answer) -> None:
    with HttpsServer(lambda request: answer) as server:
        assert await ask(server, "good") is None


async def test_a_judge_that_is_away_authenticates_nobody() -> None:
    (port,) = free_ports(1)
    assert await TokenWebhook(WebhookTarget(f"http://127.0.0.1:{port}", None))("good", ()) is None


def test_the_judges_address_is_in_a_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "webhook.json"
    file.write_bytes(orjson.dumps({"clusters": [{"cluster": {"server": "http://127.0.0.1:1/x"}}]}))
    assert load_webhook_config(file) == WebhookTarget("http://127.0.0.1:1/x", None)
    file.write_bytes(orjson.dumps({"clusters": [{"cluster": {"server": "http://judge.example"}}]}))
    with pytest.raises(WebhookConfigError, match="must be an https:// address"):
        load_webhook_config(file)
