"""Pods that try to get at the machine beneath them, each in another way (`boundary_attacks`), on one running fleet.

All are made at once, by somebody with `edit` in two namespaces, one of which an administrator has labelled. A row passes when
nothing has come out and the author of the pod was told why.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.operator.pod_namespaces import MAY_DIAL, MAY_RUN
from tests.e2e.boundary_attacks import ATTACKS, SECRET, Attack, Document, kubeconfig
from tests.support.kubectl import kubectl
from tests.support.node_planes import Nodes, lent_nodes
from tests.support.planes import USERS
from tests.support.processes import free_ports
from tests.support.traps import Trap, bindable, open_trap, own_address

pytestmark = pytest.mark.timeout(200)
IMAGE = "registry.example/team/muster:v1"
OPEN, CLOSED = "lent", "tenant"
TENANT = "mallory"
PROXY = "the machine's proxy"
SECONDS = 60.0
CONTROL = Attack("what-is-allowed", "", kubeconfig("http://127.0.0.1:<port>", token="its-own"), trap="127.0.0.1", allowed=True)


@dataclass
class Fleet:
    nodes: Nodes
    directory: Path
    traps: dict[str, Trap]
    ports: dict[str, int]
    facts: Mapping[str, str]

    def run(self, *words: str, text: str | None = None, user: str | None = None) -> str:
        return kubectl(self.nodes.cluster, *words, input=text, user=user).expect(0).out

    def filled(self, attack: Attack, value: Any) -> Any:
        """With what is known now in its places."""
        if isinstance(value, Mapping):
            return {key: self.filled(attack, one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.filled(attack, one) for one in value]
        if not isinstance(value, str):
            return value
        if value == "<port>":
            return self.ports[attack.name]
        facts = {**self.facts, "name": attack.name, "marker": str(self.marker(attack)), "port": str(self.ports.get(attack.name, 1))}
        for name, text in facts.items():
            value = value.replace(f"<{name}>", text)
        return value

    def marker(self, attack: Attack) -> Path:
        return self.directory / f"made-by-{attack.name}"

    def objects(self, attack: Attack) -> list[Document]:
        return [self.filled(attack, one) for one in (*_secrets(attack), _pod(attack))]

    def pod(self, attack: Attack) -> Document:
        found: Document = json.loads(self.run("get", "pod", attack.name, "-n", _namespace(attack), "-o", "json"))
        return found

    def told(self, attack: Attack) -> str:
        """All that the author of the pod gets to read of it."""
        words = ("-n", _namespace(attack))
        log = kubectl(self.nodes.cluster, "logs", attack.name, *words)
        events = self.run("get", "events", *words, "--field-selector", f"involvedObject.name={attack.name}", "-o", "json")
        notes = [one.get("message") or one.get("note") or "" for one in json.loads(events)["items"]]
        return "\n".join([log.out, json.dumps(self.pod(attack).get("status")), *notes])

    def until_told(self, attack: Attack) -> str:
        deadline = time.monotonic() + SECONDS
        while attack.said not in (told := self.told(attack)):
            self.expect_nothing(attack)
            assert time.monotonic() < deadline, f"never said {attack.said!r}: {told}\n{self.nodes.log()}"
            time.sleep(0.2)
        return told

    def expect_nothing(self, attack: Attack) -> None:
        assert not self.marker(attack).exists(), "a command was run"
        trap = self.traps.get(attack.name)
        if trap is not None and attack.allowed:
            assert SECRET.encode() not in b"".join(trap.heard)
        elif trap is not None:
            assert trap.heard == []
        if attack.listens:
            host, _, port = self.filled(attack, attack.listens).rpartition(":")
            with socket.socket() as probe:
                assert probe.connect_ex((host, int(port))) != 0, "it listens where it must not"


def _namespace(attack: Attack) -> str:
    return OPEN if attack.open else CLOSED


def _secrets(attack: Attack) -> list[Document]:
    wanted = {**({attack.name: attack.kubeconfig} if attack.kubeconfig else {}), **attack.secrets}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": _namespace(attack)},
            "stringData": {"kubeconfig": yaml.safe_dump(document)},
        }
        for name, document in wanted.items()
    ]


def _pod(attack: Attack) -> Document:
    env = [*(attack.container.get("env") or ()), *({"name": name, "value": value} for name, value in attack.env.items())]
    given = {key: value for key, value in attack.container.items() if key not in ("env", "volumeMounts")}
    mounts = [*(attack.container.get("volumeMounts") or ())]
    volumes = [*(attack.spec.get("volumes") or ())]
    if attack.kubeconfig is not None:
        volumes.append({"name": "cfg", "secret": {"secretName": attack.name}})
        mounts = mounts or [{"name": "cfg", "mountPath": "/cfg"}]
    container = {"name": "main", "image": IMAGE, "args": list(attack.arguments), "env": env, "volumeMounts": mounts, **given}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **attack.spec}
    metadata = {"name": attack.name, "namespace": _namespace(attack), **attack.metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "volumes": volumes, "containers": [container]},
    }


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    directory = tmp_path_factory.mktemp("boundary")
    secret = directory / "secret"
    secret.write_text(SECRET)
    with ExitStack() as stack:
        machines = stack.enter_context(open_trap())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("HTTP_PROXY", f"http://127.0.0.1:{machines.port}")
        patch.setenv("NO_PROXY", "127.0.0.0/8,localhost")
        nodes = stack.enter_context(contextmanager(lent_nodes)(directory / "plane"))
        patch.undo()
        home = directory / "home"
        (home / ".kube").mkdir(parents=True)
        (home / ".kube/config").write_bytes(nodes.kubeconfig.read_bytes())
        trapped = [one for one in (*ATTACKS, CONTROL) if one.trap not in ("", PROXY)]
        traps = {one.name: stack.enter_context(open_trap(bindable(one.trap))) for one in trapped}
        traps |= {one.name: machines for one in ATTACKS if one.trap == PROXY}
        listeners = [one.name for one in ATTACKS if one.listens]
        ports = {name: trap.port for name, trap in traps.items()} | dict(zip(listeners, free_ports(len(listeners)), strict=True))
        facts = {
            "secret": str(secret),
            "root": str(secret).lstrip("/"),
            "admin": str(nodes.kubeconfig),
            "home": str(home),
            "machine": own_address(),
            "node": kubectl(nodes.cluster, "get", "node", "default-node", "-o", "jsonpath={.metadata.uid}").expect(0).out,
        }
        made = Fleet(nodes, directory, traps, ports, facts)
        _begin(made)
        yield made


def _begin(fleet: Fleet) -> None:
    """An administrator makes the namespaces and gives them to the tenant, who then makes all the pods."""
    allowed = [f"127.0.0.1:{fleet.traps[one.name].port}" for one in (*ATTACKS, CONTROL) if one.allowed]
    for name in (OPEN, CLOSED):
        fleet.run("create", "namespace", name)
        fleet.run(
            "create",
            "rolebinding",
            "tenant",
            "-n",
            name,
            "--clusterrole=edit",
            f"--user={TENANT}",
            f"--serviceaccount={name}:default",
        )
    fleet.run("label", "namespace", OPEN, f"{MAY_RUN}=true")
    fleet.run("annotate", "namespace", OPEN, f"{MAY_DIAL}={','.join(allowed)}")
    for name in (OPEN, CLOSED):
        deadline = time.monotonic() + SECONDS
        while not fleet.run("get", "serviceaccount", "default", "-n", name, "--ignore-not-found"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    items = [one for attack in (*ATTACKS, CONTROL) for one in fleet.objects(attack)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    fleet.run("create", "-f", "-", text=text, user=USERS[TENANT].token)


def test_there_are_many_ways_and_no_two_of_one_name() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names) >= 40
    assert sum(not attack.before for attack in ATTACKS) >= 20


def test_what_an_administrator_allows_goes_through(fleet: Fleet) -> None:
    """So that what the rows below show is not that nothing works."""
    deadline = time.monotonic() + SECONDS
    while b"its-own" not in b"".join(fleet.traps[CONTROL.name].heard):
        assert time.monotonic() < deadline, f"the pod's own credential never came: {fleet.told(CONTROL)}"
        time.sleep(0.1)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_there_is_no_way_out_of_a_pod(fleet: Fleet, attack: Attack) -> None:
    told = fleet.until_told(attack)
    fleet.expect_nothing(attack)
    assert SECRET not in told
    for known in ("admin", "home", "secret"):
        told = told.replace(fleet.facts[known], "")
    assert str(fleet.directory) not in told, "nothing of where the machine keeps things, but what it knew before"
    assert fleet.run("get", "namespace", f"stolen-{attack.name}", "--ignore-not-found") == "", "nobody acted as the administrator"
