"""An API server elsewhere reads logs at the node's door: known by a certificate, allowed by the cluster's rules, told why not."""

import asyncio
import http.client
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from muster.fleet.node.kubelet_api import KubeletApi
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR
from tests.support.pki import Authority, Pair
from tests.support.stage import Stage

BINDINGS = GVR("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
Get = Callable[[str, Pair | None], "asyncio.Future[tuple[int, str]]"]


@pytest.fixture
async def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "callers")


@pytest.fixture
async def get(stage: Stage, authority: Authority) -> AsyncIterator[Get]:
    """Asks the door for a path, with a certificate or without."""
    async with KubeletApi(stage.client, stage.node, authority.pair.cert, SYSTEM).open() as port:

        def ask(path: str, pair: Pair | None) -> tuple[int, str]:
            context = ssl._create_unverified_context()
            if pair is not None:
                context.load_cert_chain(pair.cert, pair.key)
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        yield lambda path, pair: asyncio.ensure_future(asyncio.to_thread(ask, path, pair))


@pytest.fixture
def master(authority: Authority) -> Pair:
    return authority.issue("kube-apiserver", organizations=("system:masters",))


async def test_logs_are_read_as_asked_for(stage: Stage, get: Get, master: Pair) -> None:
    await stage.pod("p", "exit", "0", restartPolicy="Never")
    await stage.phase("p", "Succeeded")
    assert await get("/containerLogs/default/p/main", master) == (200, "leaving with 0\n")
    assert await get("/containerLogs/default/p/main?limitBytes=7", master) == (200, "leaving")
    status, text = await get("/containerLogs/default/p/main?timestamps=true&tailLines=1&follow=true", master)
    assert (status, text[:2], text[-15:]) == (200, "20", "leaving with 0\n")


async def test_what_cannot_be_read_is_refused_with_words(stage: Stage, get: Get, master: Pair) -> None:
    await stage.pod("p", "serve")
    await stage.ready("p")
    assert await get("/containerLogs/default/gone/main", master) == (404, "pod default/gone does not exist")
    assert await get("/containerLogs/default/p/other", master) == (400, 'container "other" in pod "p" is not available')
    assert (await get("/containerLogs/default/p/main?tailLines=many", master))[0] == 400
    assert (await get("/pods", master))[0] == 404
    status, text = await get("/exec/default/p/main?command=sh", master)
    assert status == 501
    assert text.startswith("exec is not supported")


async def test_strangers_hear_nothing_and_others_what_the_cluster_lets_them(
    stage: Stage, get: Get, authority: Authority, tmp_path: Path
) -> None:
    await stage.pod("p", "serve")
    await stage.ready("p")
    path = "/containerLogs/default/p/main"
    assert await get(path, None) == (401, "Unauthorized")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        await get(path, Authority(tmp_path, "others").issue("kube-apiserver", organizations=("system:masters",)))
    assert (await get(path, authority.issue("mallory")))[0] == 403
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    }
    await stage.client.create(BINDINGS, binding)
    assert (await get(path, authority.issue("reader")))[0] == 200
