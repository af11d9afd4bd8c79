"""What the boundary of a pod lets through: files, variables, addresses, listening, credential plug-ins."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest

from muster.http import HttpServer, Request, Response
from muster.http.happy_eyeballs import dial
from muster.http.pool import UpstreamPool
from muster.http.tls import client_context
from muster.http.upstream import UpstreamUnavailable
from muster.machinery import confinement
from muster.machinery.confinement import Confinement, Outside, confined, unconfined
from muster.runtime.client.builtin import NAMESPACES
from muster.runtime.client.errors import NoCredential
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig, ExecPlugin, KubeconfigError, load_kubeconfig, parse_kubeconfig
from tests.support.pki import Authority
from tests.support.traps import Trap, open_trap

POD_IP = "127.64.9.9"
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://far.example"}}]
users: [{name: u, user: {tokenFile: "%s"}}]
"""


class Network:
    """Lets through what it is told, and remembers who listens."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, int]] = set()
        self.listening: list[tuple[str, int]] = []

    def may_dial(self, name: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        return (str(address), port) in self.allowed

    def remedy(self, name: str, port: int) -> str:
        return "ask somebody"

    def opened(self, address: str, port: int) -> None:
        self.listening.append((address, port))

    def closed(self, address: str, port: int) -> None:
        self.listening.remove((address, port))


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def pod(tmp_path: Path, network: Network) -> Confinement:
    for name in ("cfg", "scratch", "cfg/inner"):
        (tmp_path / "pod" / name).mkdir(parents=True)
    (tmp_path / "secret").write_text("of the machine")
    mounts = {"/cfg": tmp_path / "pod/cfg", "/deep/er": tmp_path / "pod/cfg/inner"}
    return Confinement(
        pod="ns/p", ip=POD_IP, environ={"HOME": "/cfg"}, mounts=mounts, scratch=tmp_path / "pod/scratch", network=network
    )


@pytest.fixture
def inside(pod: Confinement) -> Iterator[Confinement]:
    with confined(pod):
        yield pod


@pytest.fixture
def trap() -> Iterator[Trap]:
    with open_trap() as made:
        yield made


def test_without_a_boundary_everything_is_the_machines(tmp_path: Path) -> None:
    assert confinement.current() is None
    assert confinement.environ() is os.environ
    assert confinement.located("/etc/x") == Path("/etc/x")
    assert confinement.sibling_path(Path("/a"), "b") == Path("/a/b")
    assert confinement.own(Path("/etc")) == Path("/etc")
    confinement.check_dial("127.0.0.1", "127.0.0.1", 22)
    confinement.may_listen("0.0.0.0")


async def test_tasks_and_threads_inherit_the_boundary_and_what_serves_a_pod_has_none(inside: Confinement) -> None:
    async def found() -> Confinement | None:
        return confinement.current()

    assert await asyncio.create_task(found()) is inside
    assert await asyncio.to_thread(confinement.current) is inside
    with unconfined():
        assert await asyncio.create_task(found()) is None
    assert confinement.current() is inside


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ("/cfg/a", "cfg/a"),
        ("cfg/a", "cfg/a"),
        ("/cfg/../etc/shadow", "scratch/etc/shadow"),
        ("/../../../etc/shadow", "scratch/etc/shadow"),
        ("/deep/er/x", "cfg/inner/x"),
        ("/deep/x", "scratch/deep/x"),
        ("~root/x", "scratch/~root/x"),
        ("//cfg//a", "cfg/a"),
    ],
)
def test_every_path_is_one_of_the_pods(pod: Confinement, tmp_path: Path, wanted: str, kept: str) -> None:
    found = pod.path(wanted)
    assert found == tmp_path / "pod" / kept
    back = pod.inside(found)
    assert back is not None
    assert pod.path(back) == found


@pytest.mark.parametrize("name", ["/etc/hostname", "../../secret", "../../../../../../../../etc/hostname"])
def test_what_a_document_names_is_beside_it_in_the_pod(inside: Confinement, tmp_path: Path, name: str) -> None:
    found = confinement.sibling_path(inside.mounts["/cfg"], name)
    assert found.is_relative_to(inside.scratch)
    assert confinement.sibling_path(Path(), "x") == inside.scratch / "x", "a document that is in no file is at the pod's root"
    with pytest.raises(Outside):
        confinement.sibling_path(tmp_path, "secret")


def test_a_link_that_leads_out_is_not_followed(inside: Confinement, tmp_path: Path) -> None:
    link = inside.mounts["/cfg"] / "link"
    link.symlink_to(tmp_path / "secret")
    (inside.mounts["/cfg"] / "directory").symlink_to(tmp_path)
    for path in (link, inside.mounts["/cfg"] / "directory/secret", tmp_path / "secret", tmp_path / "pod/cfg-not"):
        with pytest.raises(Outside):
            confinement.read(path)
    (inside.mounts["/cfg"] / "..data").mkdir()
    (inside.mounts["/cfg"] / "..data/token").write_text("its own")
    (inside.mounts["/cfg"] / "token").symlink_to("..data/token")
    assert confinement.read(inside.path("/cfg/token")) == b"its own", "as volumes are made"


def test_temporary_files_are_the_pods(inside: Confinement) -> None:
    with confinement.temporary_directory("x-") as name:
        assert Path(name).is_relative_to(inside.scratch / "tmp")


def test_a_kubeconfig_is_found_by_the_pods_variables_and_read_with_the_pods_files(inside: Confinement, tmp_path: Path) -> None:
    config = inside.path("/cfg/.kube/config")
    config.parent.mkdir()
    config.write_text(KUBECONFIG % "../token")
    found = load_kubeconfig()
    assert found.identity.token_file == inside.path("/cfg/token")
    for named in (str(tmp_path / "secret"), f"{'../' * 30}{tmp_path}/secret"):
        away = parse_kubeconfig(KUBECONFIG % named)
        assert away.identity.token_file == inside.path(str(tmp_path / "secret"))
    (tmp_path / "kubeconfig").write_text(KUBECONFIG % "token")
    with pytest.raises(KubeconfigError, match="no such file"):
        load_kubeconfig(environ={"KUBECONFIG": str(tmp_path / "kubeconfig")})
    with pytest.raises(KubeconfigError, match="files of its own volumes"):
        load_kubeconfig(tmp_path / "kubeconfig")


@pytest.mark.parametrize(
    ("address", "guarded"),
    [
        *((one, True) for one in ("127.0.0.1", "127.255.3.4", "::1", "0.0.0.0", "::", "0.1.2.3", "::ffff:127.0.0.1")),
        *((one, True) for one in ("169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "::ffff:169.254.1.1")),
        *((one, False) for one in ("192.0.2.77", "10.1.2.3", "2001:db8::1", "100.64.0.1", "::ffff:192.0.2.77")),
    ],
)
def test_which_addresses_are_guarded(address: str, guarded: bool) -> None:
    assert confinement.is_guarded(ip_address(address)) is guarded


async def test_what_is_dialled_is_judged_by_the_address_it_has(
    inside: Confinement, network: Network, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in ("localhost", "127.1", "2130706433", "0x7f000001", "::ffff:127.0.0.1", "0.0.0.0"):
        with pytest.raises(Outside, match="ask somebody"):
            await dial(host, trap.port)

    async def resolve(self: object, *args: object, **more: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", trap.port))]

    monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", resolve)
    with pytest.raises(Outside):
        await dial("innocent.example", trap.port)
    assert trap.heard == []
    network.allowed.add(("127.0.0.1", trap.port))
    (await dial("innocent.example", trap.port)).close()


async def test_a_pool_asks_too_and_a_pods_silent_port_is_just_silent(inside: Confinement, network: Network) -> None:
    pool = UpstreamPool()
    with open_trap("0.0.0.0") as trap:
        with pytest.raises(UpstreamUnavailable, match="is on this machine"):
            await pool.connect(("127.0.0.1", trap.port, None, None), 5.0)
        with pytest.raises(UpstreamUnavailable, match="connection refused"):
            await pool.connect((POD_IP, trap.port, None, None), 5.0)
        assert trap.heard == []


async def test_a_server_listens_on_the_pods_address_and_says_so_as_long_as_it_does(inside: Confinement, network: Network) -> None:
    async def answer(request: Request) -> Response:
        return Response(200, (boundary.pod if (boundary := confinement.current()) else "nobody").encode())

    server = HttpServer(answer)
    for host in ("0.0.0.0", "127.0.0.1", "localhost", "::", "", "127.64.9.8"):
        with pytest.raises(OSError, match="its own address"):
            await server.start(host, 0)
    await server.start(POD_IP, 0)
    assert network.listening == [(POD_IP, server.port)]
    with unconfined():
        key = (POD_IP, server.port, None, None)
        question = f"GET / HTTP/1.1\r\nHost: {POD_IP}\r\nConnection: close\r\n\r\n".encode()
        _, body = await UpstreamPool().request(key, question, timeout=5.0, repeat=False)
        assert body == b"ns/p", "whoever asks, it answers inside"
    await server.stop(0.1)
    assert network.listening == []


async def test_an_exec_plugin_is_one_that_the_node_offers_or_none(inside: Confinement, tmp_path: Path) -> None:
    marker = tmp_path / "made"
    evil = ExecPlugin("/bin/sh", ("-c", f"touch {marker}"))
    client = HttpClient(ClientConfig("http://192.0.2.77", identity=AuthInfo(exec_plugin=evil)))
    with pytest.raises(NoCredential, match="runs no programs of the machine, and its node offers none"):
        await client.get(NAMESPACES, "x")
    await client.close()
    assert not marker.exists()


async def test_an_offered_plugin_gets_the_pods_variables_and_no_others(pod: Confinement, network: Network, trap: Trap) -> None:
    asked: list[tuple[Sequence[str], set[str]]] = []

    async def aws(args: Sequence[str], environ: Mapping[str, str]) -> bytes:
        asked.append((args, set(environ)))
        return b'{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t0"}}'

    network.allowed.add(("127.0.0.1", trap.port))
    offering = Confinement(
        pod=pod.pod, ip=pod.ip, environ=pod.environ, mounts={}, scratch=pod.scratch, network=network, plugins={"aws": aws}
    )
    identity = AuthInfo(exec_plugin=ExecPlugin("/usr/bin/aws", ("eks", "get-token"), {"AWS_REGION": "x"}))
    with confined(offering):
        client = HttpClient(ClientConfig(f"http://127.0.0.1:{trap.port}", identity=identity))
        await client.get(NAMESPACES, "x")
        await client.close()
    assert asked == [(("eks", "get-token"), {"HOME", "AWS_REGION", "KUBERNETES_EXEC_INFO"})]
    assert b"Bearer t0" in trap.heard[0]


def test_authorities_that_a_variable_of_the_machine_names_are_not_the_pods(
    pod: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "corporate").pair.cert))

    def trusted() -> list[object]:
        found = client_context().get_ca_certs()
        return [one for one in found if "muster-test-corporate" in str(one.get("subject"))]

    assert trusted()
    with confined(pod):
        assert trusted() == []
