"""The webhook that judges tokens for a cluster's API server: what it is asked, and how it answers."""

from __future__ import annotations

import json
import ssl
from typing import Any

from muster.fleet.aws import FaultKind
from muster.http import UpstreamPool
from muster.http.upstream import encode_request
from tests.support.local_aws import REGION
from tests.unit.fleet.aws.registration_stage import HUB, MANAGED, Stage


async def review(stage: Stage, body: Any, path: str = f"/tokens/{HUB}/{REGION}/hub-0") -> tuple[int, Any]:
    tls = ssl.create_default_context(cadata=stage.aws.ca_pem.decode())
    pool = UpstreamPool()
    fields = [("Host", f"127.0.0.1:{stage.aws.port}"), ("Content-Type", "application/json")]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        asked = encode_request("POST", path, fields, content)
        head, answer = await pool.request(("127.0.0.1", stage.aws.port, tls, None), asked, timeout=10, repeat=True)
    finally:
        pool.close()
    return head.status, json.loads(answer) if head.status in (200, 403, 429) else answer


async def test_reviews_are_answered_in_their_version(stage: Stage) -> None:
    await stage.map_by_entry()
    for version in ("authentication.k8s.io/v1", "authentication.k8s.io/v1beta1"):
        asked = {"apiVersion": version, "kind": "TokenReview", "spec": {"token": await stage.token()}}
        status, answer = await review(stage, asked)
        assert (status, answer["apiVersion"], answer["status"]["authenticated"]) == (200, version, True)
        refused = await review(stage, {**asked, "spec": {"token": "x"}})
        assert refused == (403, {"apiVersion": version, "kind": "TokenReview", "status": {"authenticated": False}})


async def test_a_throttled_sts_is_told_from_a_refusal(stage: Stage) -> None:
    await stage.map_by_entry()
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": await stage.token()}}
    stage.aws.behaviour.fail("sts:GetCallerIdentity", FaultKind.THROTTLED)
    assert (await review(stage, asked))[0] == 429
    stage.aws.behaviour.fail("sts:GetCallerIdentity", FaultKind.CUT)
    assert (await review(stage, asked))[0] == 403
    assert (await review(stage, asked))[0] == 200


async def test_what_is_no_review_is_refused(stage: Stage) -> None:
    for body in (b"", b"{", b"[]", b'{"apiVersion": "v9", "spec": {"token": "x"}}', b'{"spec": {"token": 1}}'):
        assert (await review(stage, body))[0] == 400, body


async def test_a_cluster_that_is_not_there_reviews_nothing(stage: Stage) -> None:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}}
    for path in (
        f"/tokens/{HUB}/{REGION}/none",
        f"/tokens/{MANAGED}/{REGION}/hub-0",
        "/tokens/x",
        f"/tokens/{HUB}/{REGION}/hub-0/x",
    ):
        assert (await review(stage, asked, path))[0] == 404
