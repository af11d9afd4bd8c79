"""Tokens that somebody else judges."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.apiserver.auth.access import Access
from muster.apiserver.auth.tokenwebhook import TokenWebhook, WebhookConfigError, WebhookTarget, load_webhook_config
from muster.apiserver.server import ApiServer
from tests.support.https_server import Answer, Behaviour, HttpsServer, Received
from tests.support.in_process import serving
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


async def test_each_cluster_has_a_judge_of_its_own(server: ApiServer) -> None:
    """Who is somebody in one cluster is nobody in another; and all of it can be said while the server runs."""

    def known(token: str) -> Behaviour:
        def judge(request: Received) -> Answer:
            user = {"username": token}
            return Answer({"status": {"authenticated": request.json["spec"]["token"] == token, "user": user}})

        return judge

    async def user(cluster: str, token: str) -> str:
        found = await server.clusters[cluster].part(Access).token_identity(token)
        return "" if found is None else found[0].name

    with HttpsServer(known("one")) as first, HttpsServer(known("two")) as second:
        targets = [WebhookTarget(one.url, ssl.create_default_context(cadata=one.ca.decode())) for one in (first, second)]
        await server.set_token_webhook("default", targets[0])
        await server.set_token_webhook("other", targets[1])
        assert [await user("default", "one"), await user("default", "two")] == ["one", ""]
        assert [await user("other", "one"), await user("other", "two")] == ["", "two"]
        await server.set_token_webhook("other", targets[0])
        assert [await user("other", "one"), await user("other", "two")] == ["one", ""]
        await server.set_token_webhook("other", None)
        assert await user("other", "one") == ""
        await server.set_token_webhook("default", None)


async def test_judges_by_cluster_are_in_files_too(tmp_path: Path) -> None:
    def file(name: str, url: str) -> Path:
        path = tmp_path / name
        path.write_bytes(orjson.dumps({"clusters": [{"cluster": {"server": url}}]}))
        return path

    with HttpsServer(judge) as somebody:
        ca = tmp_path / "ca.crt"
        ca.write_bytes(somebody.ca)
        own = tmp_path / "own.json"
        cluster = {"server": somebody.url, "certificate-authority": str(ca)}
        own.write_bytes(orjson.dumps({"clusters": [{"cluster": cluster}]}))
        (port,) = free_ports(1)
        config = {"token_webhook": file("all.json", f"http://127.0.0.1:{port}"), "token_webhooks": {"a": own}}
        async with serving("a", "b", **config) as server:
            assert await server.clusters["a"].part(Access).token_identity("good") is not None
            assert await server.clusters["b"].part(Access).token_identity("good") is None


def test_the_judges_address_is_in_a_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "webhook.json"
    file.write_bytes(orjson.dumps({"clusters": [{"cluster": {"server": "http://127.0.0.1:1/x"}}]}))
    assert load_webhook_config(file) == WebhookTarget("http://127.0.0.1:1/x", None)
    file.write_bytes(orjson.dumps({"clusters": [{"cluster": {"server": "http://judge.example"}}]}))
    with pytest.raises(WebhookConfigError, match="must be an https:// address"):
        load_webhook_config(file)
