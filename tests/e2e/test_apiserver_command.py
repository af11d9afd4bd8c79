"""`muster apiserver` as its users meet it: help, mistakes, files, signals, restarts, clusters, two servers on one database."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest
import yaml

from tests.support import peers
from tests.support.client import Client
from tests.support.planes import write_token_file
from tests.support.processes import Server, free_ports, tail
from tests.support.sites import embedded_only
from tests.unit.store.postgres_server import PostgresServer

pytestmark = embedded_only

MUSTER = peers.ROOT / ".venv/bin/muster"
MAPS = "/api/v1/namespaces/default/configmaps"


def muster(*arguments: str | Path, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(MUSTER), *map(str, arguments)], capture_output=True, text=True, timeout=timeout)


@dataclass
class Running:
    """A server started by the command, its data directory and what it serves."""

    server: Server
    data: Path
    port: int

    def config(self) -> dict[str, Any]:
        document: dict[str, Any] = yaml.safe_load((self.data / "kubeconfig").read_text())
        return document

    def client(self, context: str = "default", token: str | None = None) -> Client:
        """As the administrator of the kubeconfig's context, or as the holder of a token."""
        return client_of(self.config(), self.data.parent, context, token)


def client_of(config: dict[str, Any], scratch: Path, context: str, token: str | None = None) -> Client:
    cluster = next(entry["cluster"] for entry in config["clusters"] if entry["name"] == context)
    ca = scratch / f"{context}.ca"
    ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    if token is not None:
        return Client(cluster["server"], ca=ca, token=token)
    return Client(cluster["server"], ca=ca, certificate=certificate_of(config, scratch, context))


def certificate_of(config: dict[str, Any], scratch: Path, context: str) -> tuple[Path, Path]:
    name = next(entry["context"]["user"] for entry in config["contexts"] if entry["name"] == context)
    user = next(entry["user"] for entry in config["users"] if entry["name"] == name)
    certificate, key = scratch / f"{context}.crt", scratch / f"{context}.key"
    certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
    key.write_bytes(base64.b64decode(user["client-key-data"]))
    return certificate, key


class Starter:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[Running] = []

    def start(self, *flags: str | Path, data: str = "data", port: int | None = None) -> Running:
        port = free_ports(1)[0] if port is None else port
        log = self.directory / f"{data}.log"
        path = self.directory / data
        server = Server("muster apiserver", [MUSTER, "apiserver", "--data-dir", path, "--port", str(port), *flags], log)
        seen = log.stat().st_size if log.exists() else 0
        server.start()
        server.wait_until(lambda: b"ready: " in log.read_bytes()[seen:], 30, poll=0.02)
        running = Running(server, path, port)
        self.running.append(running)
        return running


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    for running in starter.running:
        running.server.stop(kill=True)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for the tests that change nothing about it."""
    directory = tmp_path_factory.mktemp("shared")
    write_token_file(directory / "tokens.csv")
    starter = Starter(directory)
    flags = ["--cluster", "default", "--cluster", "other", "--token-auth-file", str(directory / "tokens.csv")]
    yield starter.start(*flags, "--audit-log", directory / "audit.log")
    for running in starter.running:
        running.server.stop(kill=True)


# Help and mistakes


def test_help_lists_the_commands_and_every_option() -> None:
    assert "apiserver" in muster("--help").stdout
    shown = muster("apiserver", "-h")
    assert shown.returncode == 0
    for option in ("data-dir", "host", "port", "cluster", "store", "token-auth-file", "audit-log", "ephemeral", "verbose"):
        assert f"--{option}" in shown.stdout
    assert "sqlite|memory|postgresql" in shown.stdout
    assert "kubeconfig" in shown.stdout


def test_the_version_is_told() -> None:
    shown = muster("--version")
    assert shown.returncode == 0
    assert shown.stdout.startswith("muster, version ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--nonsense"], "No such option"),
        (["--port", "70000"], "70000 is not in the range"),
        (["--port", "x"], "not a valid integer"),
        (["--token-auth-file", "/does/not/exist"], "does not exist"),
        (["surplus"], "unexpected extra argument"),
    ],
    ids=["unknown", "port range", "port text", "no token file", "argument"],
)
def test_wrong_flags_end_with_2_and_say_what_is_wrong(flags: list[str], words: str, tmp_path: Path) -> None:
    done = muster("apiserver", "--data-dir", tmp_path / "data", *flags)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "data").exists()


def refused(*arguments: str | Path) -> str:
    """The message of a start that fails: one line, no traceback."""
    done = muster("apiserver", *arguments)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Error: "), done.stderr
    assert done.stderr.count("\n") <= 2, done.stderr
    return done.stderr


def test_an_unknown_store_is_named(tmp_path: Path) -> None:
    message = refused("--data-dir", tmp_path, "--store", "bogus", "--port", "0")
    assert "bogus" in message
    assert "postgresql://" in message


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    message = refused("--data-dir", tmp_path, "--port", "0", "--store", f"postgresql://me:hunter2@127.0.0.1:{port}/nope")
    assert "hunter2" not in message


def test_a_bad_cluster_name_is_refused(tmp_path: Path) -> None:
    for name in ("Upper", "a/b", "_system", ""):
        done = muster("apiserver", "--data-dir", tmp_path, "--port", "0", "--cluster", name)
        assert done.returncode in (1, 2), name
        assert "Traceback" not in done.stderr
        assert "cluster" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [("only-a-token\n", "line 1"), ("t,u,1\n,nobody,2\n", "line 2"), ('t,u,1,"open\n', "line 1"), ("\xff\xfe", "token file")],
    ids=["columns", "empty", "quote", "encoding"],
)
def test_a_bad_token_file_is_named_with_its_line(text: str, words: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_bytes(text.encode("latin-1"))
    message = refused("--data-dir", tmp_path / "data", "--port", "0", "--token-auth-file", tokens)
    assert str(tokens) in message
    assert words in message


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused("--data-dir", tmp_path, "--port", str(port))
    assert f"cannot listen on 127.0.0.1:{port}" in message
    assert "--port" in message


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    message = refused("--data-dir", tmp_path, "--host", "192.0.2.1", "--port", "0")
    assert "cannot listen on 192.0.2.1" in message


def test_a_data_directory_that_is_a_file_or_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = muster("apiserver", "--data-dir", file, "--port", "0")
    assert done.returncode == 2
    assert "is a file" in done.stderr
    for impossible in (file / "below", Path("/proc/muster")):
        message = refused("--data-dir", impossible, "--port", "0")
        assert str(impossible) in message


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root; the read-only file system below stands for it")
def test_an_unwritable_data_directory_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert str(closed) in refused("--data-dir", closed, "--port", "0")


def test_an_audit_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    message = refused("--data-dir", tmp_path / "data", "--port", "0", "--audit-log", tmp_path / "no/such/audit.log")
    assert "audit.log" in message


def test_a_data_directory_in_use_is_refused_and_its_server_goes_on(starter: Starter) -> None:
    first = starter.start()
    message = refused("--data-dir", first.data, "--port", "0")
    assert str(first.data) in message
    assert "in use" in message or "another process" in message
    client = first.client()
    client.post(MAPS, {"metadata": {"name": "a"}}).expect(201)
    client.close()


def test_a_damaged_data_file_is_named(starter: Starter, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data/muster.db").write_bytes(b"this is no database" * 500)
    assert "muster.db" in refused("--data-dir", tmp_path / "data", "--port", "0")


# Files


def test_an_ephemeral_server_leaves_nothing_but_its_kubeconfig(starter: Starter) -> None:
    running = starter.start("--ephemeral")
    client = running.client()
    client.post(MAPS, {"metadata": {"name": "a"}}).expect(201)
    client.close()
    assert [file.name for file in running.data.iterdir()] == ["kubeconfig"]
    running.server.stop()
    assert [file.name for file in running.data.iterdir()] == ["kubeconfig"]
    again = starter.start("--ephemeral", port=running.port)
    client = again.client()
    client.get(f"{MAPS}/a").expect(404)
    client.close()


def test_what_is_secret_is_readable_by_its_owner_only(starter: Starter) -> None:
    running = starter.start()
    modes = {file.name: file.stat().st_mode & 0o777 for file in (running.data, *running.data.iterdir())}
    assert all(mode & 0o077 == 0 for mode in modes.values()), modes


def test_the_kubeconfig_has_a_context_for_each_cluster(starter: Starter) -> None:
    running = starter.start("--cluster", "hub", "--cluster", "cluster1")
    config = running.config()
    assert [context["name"] for context in config["contexts"]] == ["hub", "cluster1"]
    assert config["current-context"] == "hub"
    for name in ("hub", "cluster1"):
        client = running.client(name)
        assert client.get("/api/v1/namespaces/kube-system").expect(200)["metadata"]["name"] == "kube-system"
        client.close()


# Signals and restarts


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_running_requests_finish_and_ends_watches_cleanly(starter: Starter, number: signal.Signals) -> None:
    running = starter.start()
    client = running.client()
    watching = client.connect()
    watching.request("GET", f"{client.prefix}{MAPS}?watch=1", headers={"Accept": "application/json"})
    stream = watching.sock
    writing = client.connect()
    body = orjson.dumps({"metadata": {"name": "late"}, "data": {"k": "v"}})
    head = (
        f"POST {client.prefix}{MAPS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writing.sock.sendall(head.encode() + body[:10])
    idle = client.connect()
    assert client.get("/readyz").status == 200
    stopping = time.monotonic()
    os.kill(running.server.pid, number)
    wait_refused(running.port)
    writing.sock.sendall(body[10:])
    answer = writing.sock.recv(65536)
    assert answer.startswith(b"HTTP/1.1 201"), answer[:200]
    received = b""
    stream.settimeout(10)
    while piece := stream.recv(65536):
        received += piece
    assert received.endswith(b"0\r\n\r\n"), received[-200:]
    assert b"HTTP/1.1 200" in received
    assert idle.sock.recv(1) == b""
    process = running.server._process
    assert process is not None
    assert process.wait(10) == 0
    assert time.monotonic() - stopping < 8
    for connection in (watching, writing, idle):
        connection.close()
    client.close()
    assert "Traceback" not in tail(running.server.log)

    again = starter.start(port=running.port)
    client = again.client()
    assert client.get(f"{MAPS}/late").expect(200)["data"] == {"k": "v"}
    client.close()


def wait_refused(port: int) -> None:
    """Until nobody listens any more: the stop has begun."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except ConnectionRefusedError:
            return
        except (ConnectionResetError, TimeoutError):
            pass  # it came while the server was letting go of its port
        time.sleep(0.01)
    raise AssertionError("the server still listens")


@pytest.mark.parametrize("how", ["term", "kill"])
def test_a_restart_keeps_state_and_identities(starter: Starter, tmp_path: Path, how: str) -> None:
    running = starter.start("--cluster", "default", "--cluster", "other")
    before = running.config()
    client = client_of(before, tmp_path, "default")
    made = client.post(MAPS, {"metadata": {"name": "kept"}, "data": {"k": "v"}}).expect(201)
    client.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}}).expect(201)
    token = client.post("/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {}}).expect(201)["status"]["token"]
    uid = client.get("/api/v1/namespaces/kube-system").expect(200)["metadata"]["uid"]
    keys = client.get("/openid/v1/jwks", accept=None).expect(200)
    client.close()
    running.server.stop(kill=how == "kill")

    again = starter.start("--cluster", "default", "--cluster", "other", port=running.port)
    client = client_of(before, tmp_path, "default")
    assert client.get(f"{MAPS}/kept").expect(200) == made
    assert client.get("/api/v1/namespaces/kube-system").expect(200)["metadata"]["uid"] == uid
    assert client.get("/openid/v1/jwks", accept=None).expect(200) == keys
    client.close()
    robot = client_of(before, tmp_path, "default", token)
    review = robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).expect(201)
    assert review["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
    robot.close()
    authorities = [cluster["cluster"]["certificate-authority-data"] for cluster in again.config()["clusters"]]
    assert authorities == [cluster["cluster"]["certificate-authority-data"] for cluster in before["clusters"]]


def test_a_cluster_stays_when_its_flag_is_gone(starter: Starter) -> None:
    running = starter.start("--cluster", "default", "--cluster", "second")
    client = running.client("second")
    client.post(MAPS, {"metadata": {"name": "kept"}}).expect(201)
    client.close()
    running.server.stop()
    again = starter.start("--cluster", "default", port=running.port)
    client = again.client("second")
    client.get(f"{MAPS}/kept").expect(200)
    client.close()


# Two clusters


def test_clusters_of_one_process_share_nothing(shared: Running) -> None:
    ours, theirs = shared.client("default"), shared.client("other")
    ours.post(MAPS, {"metadata": {"name": "mine"}}).expect(201)
    theirs.get(f"{MAPS}/mine").expect(404)
    token = ours.post("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}).expect(201)["status"]["token"]
    review = {"spec": {"token": token}}
    assert ours.post("/apis/authentication.k8s.io/v1/tokenreviews", review).expect(201)["status"]["authenticated"]
    assert not theirs.post("/apis/authentication.k8s.io/v1/tokenreviews", review).expect(201)["status"].get("authenticated")
    stranger = shared.client("other", token)
    stranger.get("/api").expect(401)
    certificate = certificate_of(shared.config(), shared.data.parent, "default")
    intruder = Client(theirs.url, ca=shared.data.parent / "other.ca", certificate=certificate)
    assert intruder.get("/api/v1/namespaces").status in (401, 403)
    assert "kubernetes-admin" not in intruder.get("/api/v1/namespaces").text
    for client in (ours, theirs, stranger, intruder):
        client.close()


def test_a_cluster_that_does_not_exist_is_not_found(shared: Running) -> None:
    client = Client(f"https://127.0.0.1:{shared.port}/clusters/nobody", token="admin-static-token")
    client.get("/api").expect(404)
    client.close()


# What operators look at


def test_health_and_version_are_told(shared: Running) -> None:
    client = shared.client()
    for path in ("/readyz", "/livez", "/healthz"):
        assert client.get(path).text == "ok"
    shown = client.get("/readyz?verbose").text
    assert "[+]ping ok" in shown
    assert "[+]store ok" in shown
    assert shown.endswith("readyz check passed\n")
    assert client.get("/version").expect(200)["major"] == "1"
    client.close()


def test_metrics_count_requests_under_known_names_and_only_what_is_served(shared: Running) -> None:
    client = shared.client()
    client.get(f"{MAPS}/nothing-here").expect(404)
    for number in range(50):
        assert client.get(f"/apis/made-up-{number}.example.com/v1/things").status == 404
        assert client.get(f"/api/v1/namespaces/default/configmaps/a/x{number}%22%0a").status == 404
    shown = client.get("/metrics").text
    lines = shown.splitlines()
    counted = [line for line in lines if line.startswith("apiserver_request_total{") and 'resource="configmaps"' in line]
    assert any('verb="GET"' in line and 'code="404"' in line for line in counted), counted
    assert "made-up" not in shown
    assert 'x1"' not in shown
    for name in ("apiserver_request_duration_seconds_bucket", "process_cpu_seconds_total", "muster_store_revision"):
        assert name in shown
    for line in lines:
        assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2, line
        assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0
    client.close()
    nobody = Client(client.url, ca=shared.data.parent / "default.ca")
    nobody.get("/metrics").expect(403)
    nobody.close()


def test_the_audit_log_tells_who_did_what_and_no_secret(shared: Running) -> None:
    client = shared.client("default", "admin-static-token")
    secret = {"metadata": {"name": "hush"}, "stringData": {"password": "correct-horse"}}
    client.post("/api/v1/namespaces/default/secrets", secret).expect(201)
    client.get("/api/v1/namespaces/default/secrets/hush").expect(200)
    token = client.post("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}).expect(201)["status"]["token"]
    client.get("/api", user="not-a-token-of-ours").expect(401)
    client.get("/api/v1/pods", headers={"Impersonate-User": "eve"}).expect(403)
    client.close()
    path = shared.data.parent / "audit.log"
    deadline = time.monotonic() + 5
    while b'"username":"eve"' not in path.read_bytes():
        assert time.monotonic() < deadline, tail(path, 5)
        time.sleep(0.05)
    text = path.read_text()
    for hidden in (
        "correct-horse",
        base64.b64encode(b"correct-horse").decode(),
        token,
        "admin-static-token",
        "not-a-token-of-ours",
    ):
        assert hidden not in text
    events = [json.loads(line) for line in text.splitlines()]
    assert {event["kind"] for event in events} == {"Event"}
    created = next(event for event in events if event["verb"] == "create" and event["objectRef"]["resource"] == "secrets")
    assert created["user"]["username"] == "admin"
    assert created["responseStatus"]["code"] == 201
    assert created["requestURI"].endswith("/api/v1/namespaces/default/secrets")
    impersonated = next(event for event in events if event.get("impersonatedUser"))
    assert impersonated["impersonatedUser"]["username"] == "eve"
    assert impersonated["responseStatus"]["code"] == 403
    assert len({event["auditID"] for event in events}) == len(events)
    assert path.stat().st_mode & 0o077 == 0


# One database for two servers


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    server = PostgresServer()
    server.start()

    async def create() -> None:
        connection = await asyncpg.connect(server.dsn("postgres"))
        await connection.execute("CREATE DATABASE muster")
        await connection.close()

    import asyncio

    asyncio.run(create())
    yield server.dsn("muster")
    server.stop()


def test_two_servers_on_one_database_are_one_cluster(starter: Starter, database: str) -> None:
    first = starter.start("--store", database, data="first")
    second = starter.start("--store", database, data="second")
    one, two = first.client(), second.client()
    version = two.get(MAPS).expect(200)["metadata"]["resourceVersion"]
    with two.watch(MAPS, {"resourceVersion": version}, timeout=10) as watch:
        made = one.post(MAPS, {"metadata": {"name": "shared"}, "data": {"k": "1"}}).expect(201)
        assert two.get(f"{MAPS}/shared").expect(200) == made
        changed = two.patch(f"{MAPS}/shared", {"data": {"k": "2"}}).expect(200)
        assert one.get(f"{MAPS}/shared").expect(200) == changed
        one.put(f"{MAPS}/shared", {**made, "data": {"k": "3"}}).expect(409)
        one.delete(f"{MAPS}/shared").expect(200)
        two.get(f"{MAPS}/shared").expect(404)
        events = [event for event in watch.take(3) if event["object"]["metadata"]["name"] == "shared"]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[1]["object"] == changed

    uids = {client.get("/api/v1/namespaces/kube-system").expect(200)["metadata"]["uid"] for client in (one, two)}
    assert len(uids) == 1
    token = one.post("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}).expect(201)["status"]["token"]
    robot = second.client("default", token)
    robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).expect(201)

    first.server.stop(kill=True)
    two.post(MAPS, {"metadata": {"name": "survivor"}}).expect(201)
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }
    third = starter.start("--store", database, data="third")
    three = third.client()
    three.get(f"{MAPS}/survivor").expect(200)
    three.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).expect(201)
    deadline = time.monotonic() + 10
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    while (reply := two.post("/apis/example.com/v1/namespaces/default/widgets", widget)).status != 201:
        assert time.monotonic() < deadline, reply.text
        time.sleep(0.05)
    assert three.get("/apis/example.com/v1/namespaces/default/widgets/w").expect(200) == reply.json
    for client in (one, two, three, robot):
        client.close()
