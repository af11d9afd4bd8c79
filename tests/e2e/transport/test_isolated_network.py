"""A managed cluster in a network of its own, from which nothing of the hub can be reached but the gRPC port.

Its API server and its agents run in a network namespace. They join, get works and report, and nothing that they hold or have done
leads to the hub's API server.
"""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.transport.conftest import SERVER_ACCOUNT, GrpcAgent, Site
from tests.e2e.transport.test_works import applied, config_map, greeting, make, works
from tests.support.administrator import HUB_NAMESPACE
from tests.support.network_namespace import NetworkNamespace, unavailable
from tests.support.planes import ControlPlane, EmbeddedPlane
from tests.support.processes import complaints, free_ports
from tests.support.registration import Spoke

WHY_NOT = unavailable()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
NAME = "isolated"
REACH = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"


@dataclass
class Isolated:
    site: Site
    namespace: NetworkNamespace
    grpc_port: int
    api_port: int

    def can_reach(self, port: int) -> bool:
        """Whether a program in the namespace can connect to a loopback port."""
        command = [*self.namespace.within, sys.executable, "-c", REACH, str(port)]
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0


@pytest.fixture
def isolated(site: Site, tmp_path: Path) -> Iterator[Isolated]:
    (api_port,) = free_ports(1)
    grpc_port = site.servers[0].port
    # Paths of sockets are short.
    with (
        tempfile.TemporaryDirectory(prefix="netns-") as directory,
        NetworkNamespace(Path(directory), let_out=grpc_port, let_in=api_port) as namespace,
    ):
        plane = EmbeddedPlane(tmp_path / "plane", ("spoke",), port=api_port, within=namespace.within)
        plane.start()
        inside = copy.copy(site)
        inside.spoke, inside.agents = Spoke(plane.extra("spoke"), tmp_path / "agents"), []
        yield Isolated(inside, namespace, grpc_port, urlsplit(site.hub.cluster.url).port or 443)
        inside.stop_agents()
        plane.stop(kill=True)


def joined(isolated: Isolated) -> GrpcAgent:
    agent = GrpcAgent(isolated.site, NAME, isolated.site.servers[:1], within=isolated.namespace.within)
    isolated.site.agents.append(agent)
    agent.start()
    isolated.site.hub.wait_available(NAME, timeout=60)
    return agent


def audited(ground: ControlPlane) -> list[str]:
    """The users of whom the hub's API server had requests."""
    lines = (ground.directory / "audit.log").read_text().splitlines()
    return [str(json.loads(line)["user"]["username"]) for line in lines]


def test_a_cluster_that_can_reach_the_grpc_port_alone_joins_and_works(site: Site, ground: ControlPlane, isolated: Isolated) -> None:
    hub, spoke = site.hub, isolated.site.spoke
    assert isolated.can_reach(isolated.grpc_port)
    assert not isolated.can_reach(isolated.api_port)

    agent = joined(isolated)
    hub.patch(NAME, {"spec": {"leaseDurationSeconds": 1}}).expect(200)
    hub.wait_renewed(NAME, times=2)
    agent.start_work()
    make(agent, "w", "hello")
    hub.wait(lambda: applied(agent, "w") or None, "the status on the hub")
    assert greeting(agent) == "hello"
    hub.admin.patch(works(agent, "w"), {"spec": {"workload": {"manifests": [config_map(agent, "again")]}}}).expect(200)
    hub.wait(lambda: applied(agent, "w") or None, "the status of the change")
    assert greeting(agent) == "again"
    hub.admin.delete(works(agent, "w")).expect(200)
    hub.wait(lambda: hub.admin.get(works(agent, "w")).status == 404 or None, "the end of the work")

    users = audited(ground)
    assert f"system:serviceaccount:{HUB_NAMESPACE}:{SERVER_ACCOUNT}" in users, "it has what the server did for them"
    assert not [user for user in users if user.startswith(f"system:open-cluster-management:{NAME}:")]
    trail = hub_marks(site)
    assert {name: found for name, text in held(spoke, agent).items() if (found := [mark for mark in trail if mark in text])} == {}
    for process in agent.processes:
        assert complaints(process.log) == []


def hub_marks(site: Site) -> list[bytes]:
    """By which the hub's API server could be found, or believed."""
    authority = site.hub.cluster.ca.read_bytes().strip()
    return [f":{urlsplit(site.hub.cluster.url).port}".encode(), authority, base64.b64encode(authority)[:200]]


def held(spoke: Spoke, agent: GrpcAgent) -> dict[str, bytes]:
    """All that is in Secrets and ConfigMaps of the managed cluster, and in the agents' files."""
    found: dict[str, bytes] = {}
    for kind in ("secrets", "configmaps"):
        for one in spoke.admin.get(f"/api/v1/{kind}").expect(200)["items"]:
            for key, value in (one.get("data") or {}).items():
                name = f"{kind} {one['metadata']['namespace']}/{one['metadata']['name']} {key}"
                found[name] = base64.b64decode(value) if kind == "secrets" else value.encode()
    for file in (path for path in agent.directory.rglob("*") if path.is_file()):
        found[str(file)] = file.read_bytes()
    assert any(name.endswith("config.yaml") for name in found), "it was looked in the right places"
    return found
