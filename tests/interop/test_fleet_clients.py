"""The table of clients in docs/clients.md is what they did on a fleet just now: versions, what works, and what is refused.

All clients run beside each other, each in namespaces of its own. Python's are tried by `fleet_clients.py` in their own environment,
kubectl and Helm from here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop.fleet_clients import LOGGED, TRIALS, WORKS, config_map, pod, work
from tests.support.local_fleet import Fleet
from tests.support.peers import ROOT, PeerMissing, need, own_program

PAGE = ROOT / "docs/clients.md"
CLIENTS = ROOT / ".venv-clients/bin"
CHARTS = Path(__file__).parent
COLUMNS = ("discovery", "crud", "custom", "apply", "patch", "watch", "logs", "exec", "operator")
NOT_THERE = "—"
"""What a client has no call for."""


@dataclass
class Tried:
    """A row of the table."""

    client: str
    version: str
    results: dict[str, str] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)

    def attempt(self, what: str, act: Callable[[], str | None]) -> None:
        try:
            self.results[what] = act() or "yes"
        except Exception:
            self.results[what], self.traces[what] = "no", traceback.format_exc()

    def __str__(self) -> str:
        return f"| {self.client} | {self.version} | {' | '.join(self.results.get(what, NOT_THERE) for what in COLUMNS)} |"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("clients") / "data")
    made("up", "--detach", "--port", "0", "--clusters", "1", "--no-gateway", "--simulate-images")
    yield made
    made.end()


@pytest.fixture(scope="module")
def tried(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> list[Tried]:
    """In the order of the table."""
    kubeconfig, home = fleet.directory / "kubeconfig", tmp_path_factory.mktemp("home")
    programs = (need("kubectl"), ROOT / ".venv/bin/kubectl", CLIENTS / "kubectl")
    with ThreadPoolExecutor(3) as threads:
        kubectls = [threads.submit(try_kubectl, program, kubeconfig, home / str(at)) for at, program in enumerate(programs)]
        helm = threads.submit(try_helm, kubeconfig, home / "helm")
        libraries = [threads.submit(try_library, name, kubeconfig, home / name) for name in TRIALS]
        return [each.result() for each in (*kubectls, helm, *libraries)]


@pytest.mark.timeout(240)
def test_the_page_says_what_each_client_did(tried: list[Tried]) -> None:
    failed = {f"{one.client} {one.version}: {what}": trace for one in tried for what, trace in one.traces.items()}
    assert failed == {}
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    assert rows == [str(one) for one in tried]


def test_kubectls_of_three_minor_versions_are_tried(tried: list[Tried]) -> None:
    minors = [one.version.rpartition(".")[0] for one in tried if one.client == "kubectl"]
    assert minors == ["1.35", "1.36", "1.37"]


def test_the_page_explains_each_column() -> None:
    text = PAGE.read_text()
    (header,) = re.findall(r"^\| client \| version \| (.*) \|$", text, re.MULTILINE)
    columns = header.split(" | ")
    assert len(columns) == len(COLUMNS)
    assert re.findall(r"^- \*\*(.*?)\*\*: ", text, re.MULTILINE) == columns


def try_library(name: str, kubeconfig: Path, home: Path) -> Tried:
    if not (CLIENTS / "python").exists():
        raise PeerMissing("the client libraries are not installed: run `make clients`")
    home.mkdir()
    command = [str(CLIENTS / "python"), str(CHARTS / "fleet_clients.py"), name, str(kubeconfig)]
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    about, *told = (json.loads(line) for line in done.stdout.splitlines())
    row = Tried(name, about["version"])
    row.results = {one["what"]: one["result"] for one in told}
    row.traces = {one["what"]: one["trace"] for one in told if "trace" in one}
    return row


class Kubectl:
    """One program, in a namespace of its own."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path) -> None:
        home.mkdir()
        self._program = str(program)
        self._environment = {**os.environ, "HOME": str(home), "KUBECONFIG": str(kubeconfig), "LC_ALL": "C.UTF-8"}
        about = json.loads(self("version", "--client", "-o", "json"))["clientVersion"]
        self.version = about["gitVersion"].removeprefix("v")
        self.namespace = f"by-kubectl-{self.version.replace('.', '-')}"
        self("create", "namespace", self.namespace)
        self.write("create", pod(self.namespace))

    def command(self, words: tuple[str, ...], context: str) -> list[str]:
        return [self._program, "--context", context, *words]

    def __call__(self, *words: str, context: str = "cluster1", given: str = "", code: int = 0) -> str:
        done = subprocess.run(
            self.command(words, context),
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self._environment,
        )
        assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def here(self, *words: str, code: int = 0) -> str:
        return self("-n", self.namespace, *words, code=code)

    def write(self, verb: str, document: object, *words: str, context: str = "cluster1", code: int = 0) -> str:
        return self(verb, "-f", "-", *words, context=context, given=json.dumps(document), code=code)

    def follow(self, *words: str, lines: int, meanwhile: Callable[[str], None] = lambda line: None) -> list[str]:
        """The first lines of a command that goes on; `meanwhile` is called after each."""
        command = self.command(("-n", self.namespace, *words), "cluster1")
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, env=self._environment) as process:
            ends = threading.Timer(60, process.kill)
            ends.start()
            try:
                assert process.stdout is not None
                seen: list[str] = []
                while len(seen) < lines and (line := process.stdout.readline().strip()):
                    seen.append(line)
                    meanwhile(line)
                return seen
            finally:
                ends.cancel()
                process.kill()


def try_kubectl(program: Path, kubeconfig: Path, home: Path) -> Tried:
    kubectl = Kubectl(program, kubeconfig, home)
    trial = KubectlTrial(kubectl)
    row = Tried("kubectl", kubectl.version)
    for what in COLUMNS:
        if (attempt := getattr(trial, what, None)) is not None:
            row.attempt(what, attempt)
    return row


class KubectlTrial:
    """Each method is a column."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    def map(self, name: str, **data: str) -> object:
        return config_map(name, self.kubectl.namespace, **data)

    def data(self, name: str) -> object:
        return json.loads(self.kubectl.here("get", "configmap", name, "-o", "json"))["data"]

    def discovery(self) -> None:
        names = self.kubectl("api-resources", "-o", "name", context="hub").splitlines()
        assert {"managedclusters.cluster.open-cluster-management.io", "deployments.apps"} <= set(names)
        assert WORKS in self.kubectl("api-versions", context="hub").splitlines()
        assert "hubAcceptsClient" in self.kubectl("explain", "managedcluster.spec", context="hub")
        assert json.loads(self.kubectl("version", "-o", "json"))["serverVersion"]["minor"] == "35"

    def crud(self) -> None:
        self.kubectl.write("create", self.map("one", a="1"))
        assert "AlreadyExists" in self.kubectl.write("create", self.map("one"), code=1)
        self.kubectl.write("replace", self.map("one", a="2"))
        assert self.data("one") == {"a": "2"}
        self.kubectl.write("create", self.map("two"))
        listed = self.kubectl.here("get", "configmaps", "-l", "tried=yes", "--chunk-size=1", "-o", "name")
        assert listed.split() == ["configmap/one", "configmap/two"]
        self.kubectl.here("delete", "configmap", "one", "two")
        assert "NotFound" in self.kubectl.here("get", "configmap", "one", code=1)

    def custom(self) -> None:
        name = self.kubectl.namespace
        self.kubectl.write("create", work(name), context="hub")
        self.kubectl("wait", "-n", "cluster1", f"manifestwork/{name}", "--for=condition=Available", "--timeout=30s", context="hub")
        assert self.kubectl("get", "configmap", name, "-o", "jsonpath={.data.by}") == "work"
        self.kubectl("delete", "-n", "cluster1", f"manifestwork/{name}", context="hub")

    def apply(self) -> None:
        one, two = ("--server-side", "--field-manager=one"), ("--server-side", "--field-manager=two")
        self.kubectl.write("apply", self.map("applied", a="1", b="1"), *one)
        self.kubectl.write("apply", self.map("applied", a="1"), *one)
        assert self.data("applied") == {"a": "1"}
        assert "conflict" in self.kubectl.write("apply", self.map("applied", a="2"), *two, code=1)
        self.kubectl.write("apply", self.map("applied", a="2"), *two, "--force-conflicts")
        assert self.data("applied") == {"a": "2"}

    def patch(self) -> None:
        self.kubectl.write("create", self.map("patched", a="1", b="1"))
        steps = '[{"op": "remove", "path": "/data/c"}]'
        for kind, patch in (("strategic", '{"data":{"a":null}}'), ("merge", '{"data":{"c":"1"}}'), ("json", steps)):
            self.kubectl.here("patch", "configmap", "patched", "--type", kind, "-p", patch)
        assert self.data("patched") == {"b": "1"}

    def watch(self) -> None:
        self.kubectl.write("create", self.map("watched", a="1"))

        def go_on(line: str) -> None:
            if line.startswith("ADDED"):
                self.kubectl.here("patch", "configmap", "watched", "--type=merge", "-p", '{"data":{"a":"2"}}')
            elif line.startswith("MODIFIED"):
                self.kubectl.here("delete", "configmap", "watched")

        shown = 'jsonpath={.type} {.object.data.a}{"\\n"}'
        words = ("get", "configmap", "watched", "--watch", "--output-watch-events", "-o", shown)
        assert self.kubectl.follow(*words, lines=3, meanwhile=go_on) == ["ADDED 1", "MODIFIED 2", "DELETED 2"]

    def logs(self) -> None:
        self.kubectl.here("wait", "pod/till", "--for=condition=Ready", "--timeout=30s")
        assert self.kubectl.here("logs", "till").startswith(LOGGED)
        (line,) = self.kubectl.follow("logs", "till", "--follow", lines=1)
        assert line.startswith(LOGGED)

    def exec(self) -> str:
        assert "exec is not supported" in self.kubectl.here("exec", "till", "--", "ls", code=1)
        return "refused"


def try_helm(kubeconfig: Path, home: Path) -> Tried:
    own = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, **own, "KUBECONFIG": str(kubeconfig)}

    def helm(*words: str, context: str = "cluster1", namespace: str = "by-helm") -> str:
        command = [str(own_program("helm")), *words, "--kube-context", context, "--namespace", namespace]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    chart, capabilities = str(CHARTS / "workload_chart"), str(CHARTS / "capability_chart")
    wait = ("--wait", "--wait-for-jobs", "--timeout", "60s", "--set", "replicas=1")

    def discovery() -> None:
        """Charts ask which kinds there are, for which Kubernetes, and for objects."""
        assert "cluster: cluster1" in helm("template", "found", capabilities, "--dry-run=server", "--validate", context="hub")

    def custom() -> None:
        helm("install", "work", capabilities, context="hub", namespace="cluster1")
        helm("uninstall", "work", "--wait", context="hub", namespace="cluster1")

    def crud() -> None:
        helm("install", "gone", chart, "--create-namespace", "--set", "replicas=1")
        assert "STATUS: deployed" in helm("status", "gone")
        helm("uninstall", "gone")
        assert json.loads(helm("list", "-o", "json")) == []

    def watch() -> None:
        assert "STATUS: deployed" in helm("install", "shop", chart, *wait)

    def patch() -> None:
        helm("upgrade", "shop", chart, "--set", "image=shop:2", *wait)
        helm("rollback", "shop", "1", "--wait", "--timeout", "60s")
        assert len(json.loads(helm("history", "shop", "-o", "json"))) == 3

    def logs() -> None:
        assert 'simulated: image "smoke:1"' in helm("test", "shop", "--logs")

    row = Tried("Helm", helm("version", "--template", "{{.Version}}").strip().removeprefix("v"))
    attempts = {"discovery": discovery, "crud": crud, "custom": custom, "watch": watch, "patch": patch, "logs": logs}
    for what, attempt in attempts.items():
        row.attempt(what, attempt)
    return row
