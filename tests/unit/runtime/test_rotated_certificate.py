"""A client certificate that is renewed on disk while an informer runs: the watch goes on and the new identity is used."""

import asyncio
from datetime import timedelta
from pathlib import Path

from muster.apiserver.auth.access import Access
from muster.apiserver.server import ApiServer
from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import GVR
from muster.runtime.cache.informer import Informer
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig
from tests.unit.runtime.conftest import config_map, eventually

WHOAMI = GVR("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)


async def test_a_renewed_certificate_changes_the_identity_and_cuts_no_watch(
    server: ApiServer, client: InProcessClient, tmp_path: Path
) -> None:
    cluster = server.clusters["default"]
    now = server.config.clock()
    keys = await cluster.part(Access).key_store.keys(now)
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def issue(name: str) -> None:
        pair = keys.client_ca.issue(name, now, timedelta(hours=1), organizations=("system:masters",))
        cert.write_bytes(pair.certificate)
        key.write_bytes(pair.key)

    issue("agent-1")
    url = f"https://127.0.0.1:{server.port}/clusters/default"
    agent = HttpClient(ClientConfig(url, server.ca_pem, identity=AuthInfo(cert, key)))
    informer: Informer[Snapshot] = Informer(agent, CONFIG_MAPS, "default")
    following = asyncio.create_task(informer.run())
    try:
        await asyncio.wait_for(informer.synced(), 10)

        async def whoami() -> str:
            review = await agent.create(WHOAMI, {"apiVersion": WHOAMI.api_version, "kind": WHOAMI.kind})
            return str(review["status"]["userInfo"]["username"])

        assert await whoami() == "agent-1"
        issue("agent-2")
        assert await whoami() == "agent-2"
        requests = agent.requests
        await client.create(CONFIG_MAPS, config_map("after-the-renewal"))
        await eventually(lambda: informer.cache.named("after-the-renewal", "default"))
        assert agent.requests == requests, "the watch of before still delivers"
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await agent.close()
