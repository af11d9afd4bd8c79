"""exec, attach, cp, port-forward and logs through the hub's API server and the gateway (A4, B6).

By both protocols that kubectl speaks, straight to the cluster and through its agent's tunnel, on a real kube-apiserver with the
streaming code of a real kubelet behind it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

import orjson
import pytest

from tests.e2e.gateway.conftest import GatewaySite, rule
from tests.e2e.gateway.test_tunnel import Tunnelled
from tests.support.administrator import wait_for
from tests.support.kubectl import Outcome, background
from tests.support.planes import USERS
from tests.support.streaming_kubelet import POD, streaming_kubelet

pytestmark = pytest.mark.kube

SWITCHES = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
STREAMS = ["pods/exec", "pods/attach", "pods/portforward"]
MEGABYTES = 4_000_000


class Terminal:
    """kubectl on foo, by one protocol and one way, for which it has a name. Nothing else is granted to its user there."""

    def __init__(self, site: GatewaySite, protocol: str, cluster: str) -> None:
        self.site = site
        self.protocol = protocol
        self.cluster = cluster
        self.environment = dict.fromkeys(SWITCHES, str(protocol == "websocket").lower())

    def kubectl(self, *arguments: str, user: str = "plugged", input: str | None = None) -> Outcome:
        return self.site.kubectl(self.cluster, *arguments, user=user, input=input, environment=self.environment)

    def exec(self, script: str, *flags: str, user: str = "plugged", input: str | None = None) -> Outcome:
        return self.kubectl("exec", *flags, POD, "--", "sh", "-c", script, user=user, input=input)

    def verbs(self, mark: str) -> set[str]:
        """By which verbs commands with this word were opened, as the cluster's own audit log has them."""
        log = self.site.ground.directory / "cluster-foo/audit.log"
        lines = [orjson.loads(line) for line in log.read_bytes().splitlines() if mark.encode() in line and line.endswith(b"}")]
        return {str(line["verb"]) for line in lines}


@pytest.fixture(scope="module")
def kubelet(site: GatewaySite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tunnelled]:
    """`plugged` may open terminals on foo's pods; `mallory` may read everything of theirs, and no more."""
    behind = Tunnelled(site, site.name("terminals"), site.spokes["foo"], tmp_path_factory.mktemp("agent"))
    behind.prepare()
    behind.start()
    site.wait_status(behind.name, healthy=True)
    users = ("plugged", "mallory")
    with streaming_kubelet(site.spokes["foo"], tmp_path_factory.mktemp("kubelet")):
        for cluster in ("foo", behind.name):
            for user in users:
                site.may_use(user, cluster, verbs=("get", "create"))
                site.grant(user, rule(["pods", "pods/log", *STREAMS], [f"{cluster}/get"]))
            site.grant("plugged", rule(STREAMS, [f"{cluster}/create"]))
            wait_for(partial(sees_the_pod, site, cluster, users), "their rights")
        yield behind
    behind.agent.stop()
    site.forget(behind.name)


def sees_the_pod(site: GatewaySite, cluster: str, users: Sequence[str]) -> bool:
    path = f"/api/v1/namespaces/default/pods/{POD}"
    return all(site.proxy(cluster, path, user).status == 200 for user in users)


@pytest.fixture(params=[("websocket", "straight"), ("spdy", "straight"), ("websocket", "tunnel"), ("spdy", "tunnel")], ids="-".join)
def terminal(kubelet: Tunnelled, request: pytest.FixtureRequest) -> Terminal:
    protocol, way = request.param
    return Terminal(kubelet.site, protocol, "foo" if way == "straight" else kubelet.name)


def test_exec_has_what_goes_in_comes_out_and_its_exit_code(terminal: Terminal) -> None:
    ran = terminal.exec("cat; echo told >&2; exit 7", "-i", input="one\ntwo\n")
    assert (ran.code, ran.out) == (7, "one\ntwo\n")
    assert ran.err.startswith("told\n")
    assert "exit code 7" in ran.err
    mark = terminal.site.name("mark")
    assert terminal.exec(f"true {mark}").expect().out == ""
    verb = "get" if terminal.protocol == "websocket" else "create"
    wait_for(lambda: terminal.verbs(mark) == {verb}, f"an exec by {verb}")


def test_megabytes_go_both_ways(terminal: Terminal) -> None:
    told = terminal.exec(f"head -c {MEGABYTES} /dev/zero | tr '\\0' x")
    assert (told.code, len(told.out), set(told.out), told.err) == (0, MEGABYTES, {"x"}, "")
    counted = terminal.exec("wc -c", "-i", input="y" * MEGABYTES).expect()
    assert int(counted.out) == MEGABYTES


def test_attach_joins_the_process_that_is_there(terminal: Terminal) -> None:
    word = terminal.site.name("word")
    attached = terminal.kubectl("attach", "-i", POD, input=f"{word}\nquit\n").expect()
    assert f"heard {word}\n" in attached.out
    assert f"heard {word}\n" in terminal.kubectl("logs", POD).expect().out


def test_files_are_copied_both_ways(terminal: Terminal, tmp_path: Path) -> None:
    there, content = tmp_path / "there", os.urandom(MEGABYTES)
    there.mkdir()
    (tmp_path / "sent").write_bytes(content)
    terminal.kubectl("cp", str(tmp_path / "sent"), f"{POD}:{there}/kept").expect()
    assert hashlib.sha256((there / "kept").read_bytes()).digest() == hashlib.sha256(content).digest()
    terminal.kubectl("cp", f"{POD}:{there}", str(tmp_path / "back")).expect()
    assert (tmp_path / "back/kept").read_bytes() == content


def said(output: IO[str] | None, pattern: str) -> str:
    """The first group of the pattern in the first line that has it. A process that ends without it fails the test."""
    assert output is not None
    lines: list[str] = []
    for line in output:
        lines.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"no {pattern!r} in {''.join(lines)}")


def test_a_port_is_forwarded(terminal: Terminal) -> None:
    content = os.urandom(MEGABYTES)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(MEGABYTES))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None: ...

    site = terminal.site
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = ("port-forward", f"pod/{POD}", f":{server.server_address[1]}", "--address=127.0.0.1")
        token = USERS["plugged"].token
        with background(site.behind(terminal.cluster), *command, user=token, environment=terminal.environment) as forwarding:
            port = int(said(forwarding.stdout, r"Forwarding from 127\.0\.0\.1:(\d+)"))
            for _ in range(3):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                connection.request("GET", "/")
                assert connection.getresponse().read() == content
                connection.close()
        server.shutdown()


def test_logs_are_followed(terminal: Terminal) -> None:
    site, word = terminal.site, terminal.site.name("later")
    with background(site.behind(terminal.cluster), "logs", "-f", POD, user=USERS["plugged"].token) as following:
        said(following.stdout, "(begun)")
        terminal.kubectl("attach", "-i", POD, input=f"{word}\nquit\n").expect()
        said(following.stdout, f"(heard {word})")


@pytest.mark.parametrize("command", ["exec", "attach", "port-forward"])
def test_who_may_only_read_opens_none(terminal: Terminal, command: str, tmp_path: Path) -> None:
    """B6: by a WebSocket the method of all three is GET."""
    mark = tmp_path / "mark"
    arguments = {
        "exec": ("exec", POD, "--", "touch", str(mark)),
        "attach": ("attach", "-i", POD),
        "port-forward": ("port-forward", f"pod/{POD}", ":80"),
    }
    refused = terminal.kubectl(*arguments[command], user="mallory", input="mallory was here\n")
    assert refused.code == 1
    assert f"{terminal.cluster}/create" in refused.err
    assert not mark.exists()
    assert "mallory" not in terminal.kubectl("logs", POD).expect().out
