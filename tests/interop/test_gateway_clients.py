"""Python's Kubernetes clients, each in its real version, by way of a path that plays the gateway.

Two clusters of an embedded server stand behind it. Unknown clusters are answered as a hub answers, so that also who refused is
tried with the libraries' real errors.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer, ServerConfig
from muster.kube import yaml
from muster.machinery.objects import Object
from muster.runtime.client import ClientConfig, HttpClient, load_kubeconfig
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.pages import Page
from tests.support.peers import ROOT, PeerMissing

PYTHON = ROOT / ".venv-clients/bin/python"
SCRIPT = ROOT / "tests/interop/gateway_clients.py"
CLUSTERS = ("cluster1", "cluster2")
GROUP = "proxy.open-cluster-management.io"
GATEWAY = re.compile(rf"/hub/apis/{re.escape(GROUP)}/v1alpha1/clustergateways/([^/?]+)/proxy(/[^?]*)?(\?.*)?")
HUB_TOKEN = "of-the-hub"


class PlayedGateway:
    """Hands requests on to a cluster's own server, with the cluster's own credential."""

    def __init__(self, configs: dict[str, ClientConfig]) -> None:
        self._configs = configs

    def __call__(self, request: Received) -> Answer:
        assert request.headers["authorization"] == f"Bearer {HUB_TOKEN}"
        found = GATEWAY.fullmatch(request.path)
        if found is None:
            return Answer({"gitVersion": "v1.35.0"}) if request.path == "/hub/version" else Answer("404 page not found", 404)
        cluster, path, query = found.groups()
        if cluster not in self._configs:
            about = {"name": cluster, "group": GROUP, "kind": "clustergateways"}
            status: Object = {"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound", "details": about}
            return Answer({**status, "message": "not found", "status": "Failure"}, 404)
        return self._forward(self._configs[cluster], request, f"{path or ''}{query or ''}")

    def _forward(self, config: ClientConfig, request: Received, target: str) -> Answer:
        parts = urlsplit(config.server)
        assert isinstance(config.ca, bytes)
        tls = ssl.create_default_context(cadata=config.ca.decode())
        _show_certificate(tls, config)
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=tls, timeout=30)
        passed = {name: value for name, value in request.headers.items() if name in ("accept", "content-type")}
        if config.identity.token:
            passed["authorization"] = f"Bearer {config.identity.token}"
        connection.request(request.method, f"{parts.path}{target}", request.body or None, passed)
        answer = connection.getresponse()
        body = answer.readline() if "watch" in target else answer.read()
        connection.close()
        return Answer(body, answer.status, {"Content-Type": answer.headers["Content-Type"]})


def _show_certificate(tls: ssl.SSLContext, config: ClientConfig) -> None:
    if isinstance(config.identity.cert, bytes) and isinstance(config.identity.key, bytes):
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(config.identity.cert + b"\n" + config.identity.key)
            pair.flush()
            tls.load_cert_chain(pair.name)


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """The hub's."""
    server = ApiServer(ServerConfig(store="memory", namespace_grace_period=0, clusters=CLUSTERS, host="127.0.0.1", port=0))
    await server.start()
    admin = tmp_path / "admin.kubeconfig"
    await write_kubeconfig(server, admin)
    configs = {name: load_kubeconfig(admin, name) for name in CLUSTERS}
    for name, config in configs.items():
        client = HttpClient(config)
        which = {"metadata": {"name": "which", "namespace": "default"}, "data": {"cluster": name}}
        await client.apply(CONFIG_MAPS, which, manager="test")
        await client.close()
    with HttpsServer(PlayedGateway(configs)) as gateway:
        path = tmp_path / "hub.kubeconfig"
        cluster = {"server": f"{gateway.url}/hub/", "certificate-authority-data": gateway.ca_bundle}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hub", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": HUB_TOKEN}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "admin"}}],
            "current-context": "hub",
        }
        path.write_text(yaml.dump(document))
        yield path
    await server.stop(grace=0.1)


async def run(kubeconfig: Path, home: Path, *words: str) -> tuple[int | None, str, str]:
    """Where the client libraries are; gives the exit code and what was said."""
    if not PYTHON.exists():
        raise PeerMissing("the client libraries are not installed: run `make clients`")
    own = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(home), "TMPDIR": str(home), "KUBECONFIG": str(kubeconfig)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(PYTHON, *words, env={**os.environ, **own}, stdout=pipe, stderr=pipe)
    out, complaints = await process.communicate()
    return process.returncode, out.decode(), complaints.decode()[-3000:]


async def test_every_client_library_works_by_way_of_a_gateway(kubeconfig: Path, tmp_path: Path) -> None:
    code, out, complaints = await run(kubeconfig, tmp_path, str(SCRIPT), str(kubeconfig), "hub", *CLUSTERS, "nope")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one for one in told if not one["ok"]] == [], complaints
    assert code == 0, complaints
    assert len(told) == 17


async def test_the_pages_examples_do_what_it_says(kubeconfig: Path, tmp_path: Path) -> None:
    examples = [text for kind, text in Page("docs/gateway-clients.md").blocks if kind == "python"]
    assert len(examples) == 7
    code, out, complaints = await run(kubeconfig, tmp_path, "-c", "\n".join(examples))
    assert code == 0, complaints
    said = out.splitlines()
    assert said[0].endswith("/clustergateways/cluster1/proxy")
    assert said[1:5] == ["default", "kube-root-ca.crt", "which", "default"]
    assert [line.split()[0] for line in said[5:7]] == ["cluster1", "cluster2"]
    counted = dict(line.split(maxsplit=1) for line in said[7:10])
    assert counted.pop("nowhere").startswith("failed: cluster nowhere: ")
    assert counted.keys() == set(CLUSTERS)
    assert said[10] == "the hub has no such cluster, or has not accepted it"
