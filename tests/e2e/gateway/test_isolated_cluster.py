"""A managed cluster in a network of its own, out of which nothing can be reached but the hub's API server, and into which nothing.

Its API server and its agent run in a network namespace; what is asked of it through the hub goes by the tunnel that the agent has
opened from inside.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from tests.e2e.gateway.conftest import GatewaySite, account
from tests.e2e.gateway.test_through import CONFIG_MAPS, config_map
from tests.e2e.gateway.test_tunnel import Tunnelled
from tests.support.network_namespace import NetworkNamespace, unavailable
from tests.support.planes import ControlPlane, EmbeddedPlane, KubeOptions, KubePlane
from tests.support.processes import complaints, free_ports
from tests.support.sites import KUBE

WHY_NOT = unavailable()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no network namespace for the cluster: {WHY_NOT}")
REACH = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"


@dataclass
class Isolated:
    site: GatewaySite
    plane: ControlPlane
    namespace: NetworkNamespace
    tunnelled: Tunnelled

    def can_reach(self, port: int) -> bool:
        """Whether a program in the cluster's network can connect to a loopback port."""
        command = [*self.namespace.within, sys.executable, "-c", REACH, str(port)]
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0

    def can_be_reached(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", urlsplit(self.plane.url).port or 443), 5).close()
        except OSError:
            return False
        return True


def _plane(directory: Path) -> tuple[KubePlane | None, int]:
    """The real one chooses its ports before it is told where to run; the port of its API server."""
    if not KUBE:
        return None, free_ports(1)[0]
    plane = KubePlane(directory, KubeOptions(fsync=False))
    return plane, plane.port


@pytest.fixture(scope="module")
def isolated(site: GatewaySite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolated]:
    tmp_path = tmp_path_factory.mktemp("isolated")
    real, port = _plane(tmp_path / "plane")
    hub_port = urlsplit(site.hub.url).port or 443
    # Paths of sockets are short.
    with (
        tempfile.TemporaryDirectory(prefix="netns-") as directory,
        NetworkNamespace(Path(directory), let_out=hub_port, let_in=port) as namespace,
    ):
        plane = real or EmbeddedPlane(tmp_path / "plane", (), port=port, within=namespace.within)
        if real is not None:
            real.options.within = namespace.within
        plane.start()
        token = account(plane.cluster)
        made = Tunnelled(site, site.name("isolated"), plane.cluster, tmp_path / "agent", token, namespace.within)
        found = Isolated(site, plane, namespace, made)
        assert found.can_be_reached(), "else that it cannot be reached later says nothing"
        namespace.shut()
        made.prepare()
        made.agent.start()
        yield found
        made.agent.stop()
        plane.stop(kill=True)
        site.forget(made.name)
        assert complaints(made.agent.log) == []


@pytest.mark.timeout(240 if KUBE else 120)
def test_a_cluster_that_nobody_can_reach_is_reached_through_its_tunnel(isolated: Isolated) -> None:
    site, name = isolated.site, isolated.tunnelled.name
    assert isolated.can_reach(urlsplit(site.hub.url).port or 443)
    assert not isolated.can_reach(site.gateway.port), "nor is there another way out"
    assert not isolated.can_be_reached()

    site.wait_status(name, healthy=True)
    through, made = site.through(name), site.name("inside")
    assert "default" in site.kubectl(name, "get", "ns").expect().out
    events = through.watch(CONFIG_MAPS, {"fieldSelector": f"metadata.name={made}"}, timeout=30)
    through.post(CONFIG_MAPS, orjson.loads(config_map(made, text="x" * 900_000))).expect(201)
    assert next(iter(events))["type"] == "ADDED"
    assert len(through.get(f"{CONFIG_MAPS}/{made}").expect(200)["data"]["text"]) == 900_000
    through.delete(f"{CONFIG_MAPS}/{made}").expect(200)
    assert next(iter(events))["type"] == "DELETED"
    events.close()
    assert site.spokes["foo"].client().get(f"{CONFIG_MAPS}/{made}").status == 404


def test_without_its_agent_there_is_no_way_to_it(isolated: Isolated) -> None:
    site, made = isolated.site, isolated.tunnelled
    site.wait_status(made.name, healthy=True)
    made.agent.stop()
    site.wait_status(made.name, healthy=False, reason="TunnelMissing")
    reply = site.proxy(made.name, "/readyz")
    assert (reply.status, reply.json["details"]["causes"][0]["reason"]) == (503, "TunnelMissing")
    made.agent.start()
    site.wait_status(made.name, healthy=True)
    assert made.answers()
