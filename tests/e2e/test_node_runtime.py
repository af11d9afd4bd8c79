"""Workloads where a node of ours runs the pods, as people see them with kubectl: rollouts, logs, webhooks in pods, hard stops.

The node is part of the embedded server's process, or a process of its own beside a real kube-apiserver.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.operator.pod_namespaces import MAY_RUN
from tests.support.kubectl import Outcome, executable, kubectl
from tests.support.node_planes import Nodes, lent_nodes
from tests.support.pki import Authority
from tests.support.planes import KubePlane

IMAGE = "registry.example/team/muster:v1"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    yield from lent_nodes(tmp_path_factory.mktemp("nodes"))


class Shell:
    """kubectl in a namespace of its own."""

    def __init__(self, plane: Nodes, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def run(self, *arguments: str, code: int = 0, input: str | None = None) -> Outcome:
        return kubectl(self.plane.cluster, "-n", self.namespace, *arguments, input=input).expect(code)

    def out(self, *arguments: str, code: int = 0) -> str:
        return self.run(*arguments, code=code).out.strip()

    def apply(self, *objects: dict[str, Any]) -> None:
        self.run("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def until(self, probe: Callable[[], Any], what: str, seconds: float = 30) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := probe()):
            assert time.monotonic() < deadline, f"never so: {what}\n{self.out('get', 'pods', '-o', 'wide')}\n{self.plane.log()}"
            time.sleep(0.1)
        return found


@pytest.fixture
def shell(nodes: Nodes, request: pytest.FixtureRequest) -> Iterator[Shell]:
    name = "n" + format(abs(hash(request.node.name)) % 16**8, "x")
    kubectl(nodes.cluster, "create", "namespace", name).expect(0)
    kubectl(nodes.cluster, "label", "namespace", name, f"{MAY_RUN}=true").expect(0)
    made = Shell(nodes, name)
    made.until(lambda: made.out("get", "serviceaccount", "default", "--ignore-not-found"), "pods may be made")
    yield made
    kubectl(nodes.cluster, "delete", "namespace", name, "--wait=false").expect(0)


def deployment(name: str, *args: str, replicas: int = 2, image: str = IMAGE, **container: Any) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "main", "image": image, "args": list(args), **container}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_the_node_is_ready_and_says_what_it_is(shell: Shell) -> None:
    shell.run("wait", "--for=condition=Ready", "node/default-node", "--timeout=20s")
    assert "default-node   Ready" in shell.out("get", "nodes")
    lease = json.loads(kubectl(shell.plane.cluster, "get", "lease", "default-node", "-n", "kube-node-lease", "-o", "json").out)
    assert lease["spec"]["holderIdentity"] == "default-node"
    assert "KubeletReady" in shell.out("describe", "node", "default-node")


def test_a_deployment_is_rolled_out_scaled_and_rolled_back(shell: Shell) -> None:
    shell.apply(deployment("web", "tick"))
    assert 'deployment "web" successfully rolled out' in shell.out("rollout", "status", "deployment/web", "--timeout=30s")
    shell.run("wait", "--for=condition=Available", "deployment/web", "--timeout=10s")
    assert "2/2" in shell.out("get", "deployment", "web")
    shell.run("set", "env", "deployment/web", "GREETING=hello")
    shell.run("rollout", "status", "deployment/web", "--timeout=30s")
    assert shell.out("rollout", "history", "deployment/web").splitlines()[-2:] == ["1         <none>", "2         <none>"]
    pod = shell.out("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
    shell.until(lambda: "greeting=hello" in shell.out("logs", pod), "the variable is there")
    shell.run("rollout", "undo", "deployment/web")
    shell.run("rollout", "status", "deployment/web", "--timeout=30s")
    assert shell.out("rollout", "history", "deployment/web").splitlines()[-2:] == ["2         <none>", "3         <none>"]
    shell.run("scale", "deployment/web", "--replicas=4")
    shell.run("rollout", "status", "deployment/web", "--timeout=30s")
    assert len(shell.out("get", "pods", "-o", "name").splitlines()) >= 4
    shell.run("rollout", "restart", "deployment/web")
    shell.run("rollout", "status", "deployment/web", "--timeout=30s")
    shell.run("delete", "deployment", "web", "--timeout=30s")
    shell.until(lambda: not shell.out("get", "pods,rs", "-o", "name"), "nothing is left")


def test_logs_are_read_cut_followed_and_kept(shell: Shell) -> None:
    shell.run("run", "clock", f"--image={IMAGE}", "--", "tick")
    shell.run("wait", "--for=condition=Ready", "pod/clock", "--timeout=20s")
    shell.until(lambda: "number=5" in shell.out("logs", "clock"), "it ticks")
    assert len(shell.out("logs", "clock", "--tail=2").splitlines()) == 2
    assert len(shell.out("logs", "clock", "--since=1s").splitlines()) <= 12
    assert shell.out("logs", "clock", "-c", "clock", "--timestamps", "--tail=1")[:2] == "20"
    assert len(shell.out("logs", "clock", "--limit-bytes=10")) <= 10
    program, cluster = executable(), shell.plane.cluster
    assert program is not None
    command = [str(program), "--kubeconfig", str(cluster.kubeconfig), "-n", shell.namespace, "logs", "-f", "clock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        seen = [following.stdout.readline() for _ in range(20)]
        assert all("event=tick" in line for line in seen)
        shell.run("delete", "pod", "clock", "--timeout=30s")
        following.communicate(timeout=20)
    assert following.returncode == 0
    shell.run("run", "bad", f"--image={IMAGE}", "--", "fail", "3")
    shell.until(lambda: "CrashLoopBackOff" in shell.out("get", "pod", "bad"), "it backs off")
    assert shell.out("logs", "bad", "--previous") == "about to end with 3"
    assert "BackOff" in shell.out("describe", "pod", "bad")
    assert "valid for pod bad" in shell.run("logs", "bad", "-c", "other", code=1).err


def test_other_images_stay_pending_and_people_can_see_why(shell: Shell) -> None:
    shell.apply(deployment("web", image="nginx:1.27", replicas=1))
    shell.until(lambda: "ImageNotRunnable" in shell.out("get", "pods"), "the status says so")
    text = shell.until(lambda: (d := shell.out("describe", "pods")) and "this node runs Muster's own image only" in d and d, "told")
    assert "Status:           Pending" in text
    assert "0/1" in shell.out("get", "deployment", "web")
    shell.run("set", "image", "deployment/web", f"main={IMAGE}")
    shell.run(
        "patch",
        "deployment",
        "web",
        "--type=json",
        "-p",
        '[{"op":"add","path":"/spec/template/spec/containers/0/args","value":["tick"]}]',
    )
    shell.run("rollout", "status", "deployment/web", "--timeout=30s")


def test_terminals_are_refused_with_words(shell: Shell) -> None:
    shell.run("run", "clock", f"--image={IMAGE}", "--", "tick")
    shell.run("wait", "--for=condition=Ready", "pod/clock", "--timeout=20s")
    for command in (("exec", "clock", "--", "sh"), ("attach", "clock"), ("port-forward", "clock", "18080:80")):
        refused = shell.run(*command, code=1).err
        # A real API server that translates between protocols does not pass on what the node says.
        assert isinstance(shell.plane, KubePlane) or "not supported: pods of this cluster run as tasks" in refused


def test_a_program_uses_the_token_of_its_own_service_account(shell: Shell) -> None:
    shell.run("create", "serviceaccount", "writer")
    shell.run("create", "role", "writer", "--verb=get,create,patch", "--resource=configmaps")
    shell.run("create", "rolebinding", "writer", "--role=writer", f"--serviceaccount={shell.namespace}:writer")
    wanted = deployment("record", "record", replicas=1)
    wanted["spec"]["template"]["spec"]["serviceAccountName"] = "writer"
    shell.apply(wanted)
    shell.run("rollout", "status", "deployment/record", "--timeout=30s")
    name = shell.until(
        lambda: kubectl(shell.plane.cluster, "get", "cm", "record", "-n", shell.namespace, "-o", "jsonpath={.data.pod}").out,
        "recorded",
    )
    assert name.startswith("record-")


def test_the_api_server_reaches_a_webhook_in_a_pod_through_its_service(shell: Shell, tmp_path: Path) -> None:
    pair = Authority(tmp_path, "hooks").issue("hook", hosts=(f"hook.{shell.namespace}.svc",))
    data = {"tls.crt": pair.cert.read_bytes(), "tls.key": pair.key.read_bytes()}
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    probe = {"httpGet": {"path": "/", "port": 9443, "scheme": "HTTPS"}}
    wanted = deployment(
        "hook", "hook", replicas=1, readinessProbe=probe, volumeMounts=[{"name": "certs", "mountPath": "/certs", "readOnly": True}]
    )
    wanted["spec"]["template"]["spec"]["volumes"] = [{"name": "certs", "secret": {"secretName": "certs"}}]
    ports = [{"port": 443, "targetPort": 9443}]
    shell.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certs"}, "type": "kubernetes.io/tls", "data": encoded},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hook"},
            "spec": {"selector": {"app": "hook"}, "ports": ports},
        },
        wanted,
    )
    shell.run("rollout", "status", "deployment/hook", "--timeout=30s")
    authority = base64.b64encode((tmp_path / "hooks.crt").read_bytes()).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": "no.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": shell.namespace}},
        "clientConfig": {"service": {"namespace": shell.namespace, "name": "hook"}, "caBundle": authority},
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"no-{shell.namespace}"},
        "webhooks": [hook],
    }
    shell.apply(configuration)
    try:
        assert "a pod says no" in shell.run("create", "configmap", "c", code=1).err
    finally:
        shell.run("delete", "validatingwebhookconfiguration", f"no-{shell.namespace}")


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_pods_go_on_after_the_process_ended(shell: Shell, kill: bool) -> None:
    shell.apply(deployment("web", "tick"))
    shell.run("rollout", "status", "deployment/web", "--timeout=30s")
    before = sorted(shell.out("get", "pods", "-o", "name").splitlines())
    shell.plane.restart_node(kill=kill)
    shell.until(
        lambda: shell.out("get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}") == "1 1",
        "restarted",
    )
    shell.run("rollout", "status", "deployment/web", "--timeout=30s")
    assert sorted(shell.out("get", "pods", "-o", "name").splitlines()) == before
    last = shell.out("get", "pods", "-o", "jsonpath={.items[0].status.containerStatuses[0].lastState.terminated.reason}")
    assert last == ("Unknown" if kill else "Error")
    assert "event=tick" in shell.out("logs", before[0], "--previous", "--tail=1")
