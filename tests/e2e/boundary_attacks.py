"""Ways out of a pod, as rows: what somebody who may create pods (and Secrets) puts into one to get at the machine beneath.

Texts have places for what is known only when a test runs: `<port>` of the trap that the attack has to itself, `<name>` of the
attack, `<secret>` (a file of the machine), `<root>` (the same, as seen from anywhere by going up), `<admin>` (the administrator's
kubeconfig), `<home>` (a home with such a kubeconfig), `<marker>` (a file that a command would make), `<machine>` (an address of the
machine's own), `<node>` (the uid of the node).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Document = dict[str, Any]

SECRET: Final = "nobody-but-the-machine-knows-this"
INSTALL: Final = ("agent", "--install-only", "--kubeconfig=/cfg/kubeconfig")
ON_MACHINE: Final = "is on this machine"
NOT_OURS: Final = "a pod has the files of its own volumes only"
NO_FILE: Final = "o such file"
NO_PROGRAMS: Final = "a pod runs no programs of the machine"
UP: Final = "../" * 24


@dataclass(frozen=True)
class Attack:
    """`said` is what its author is told. Where the trap is `allowed`, an administrator lets the pod dial it, and what must not come
    there is the secret. `open` namespaces are labelled. `before`: refused already when the boundary was made."""

    name: str
    said: str
    kubeconfig: Document | None = None
    arguments: tuple[str, ...] = INSTALL
    env: Mapping[str, str] = field(default_factory=dict)
    container: Document = field(default_factory=dict)
    spec: Document = field(default_factory=dict)
    metadata: Document = field(default_factory=dict)
    trap: str = ""
    allowed: bool = False
    open: bool = True
    secrets: Mapping[str, Document] = field(default_factory=dict)
    """Further kubeconfigs, by the name of their Secret."""
    listens: str = ""
    """Where it would listen if it got through: host:port."""
    before: bool = False


def kubeconfig(server: str, cluster: Document | None = None, **user: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }


def plugin(command: str, *args: str) -> Document:
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": list(args), "interactiveMode": "Never"}


def dialling(name: str, host: str, trap: str = "127.0.0.1", said: str = ON_MACHINE) -> Attack:
    return Attack(name, said, kubeconfig(f"http://{host}:<port>"), trap=trap)


def probing(name: str, probe: Document, trap: str = "127.0.0.1", said: str = ON_MACHINE) -> Attack:
    timing = {"periodSeconds": 1, "failureThreshold": 1}
    return Attack(name, said, arguments=("tick",), container={"readinessProbe": {**probe, **timing}}, trap=trap)


ALLOWED: Final = "http://127.0.0.1:<port>"
SHELL: Final = plugin("/bin/sh", "-c", "touch <marker>")
PEM: Final = ("certificate-authority", "client-certificate", "client-key")

PROGRAMS: Final = (
    Attack("exec-absolute", NO_PROGRAMS, kubeconfig(ALLOWED, exec=SHELL), trap="127.0.0.1", allowed=True),
    Attack(
        "exec-from-path",
        NO_PROGRAMS,
        kubeconfig(ALLOWED, exec=plugin("sh", "-c", "touch <marker>")),
        arguments=("hub", "--install-only", "--no-webhook"),
        env={"KUBECONFIG": "/cfg/kubeconfig"},
        trap="127.0.0.1",
        allowed=True,
    ),
    Attack(
        "exec-going-up",
        NO_PROGRAMS,
        kubeconfig(ALLOWED, exec=plugin(f"{UP}bin/sh", "-c", "touch <marker>")),
        trap="127.0.0.1",
        allowed=True,
    ),
    Attack(
        "exec-in-home",
        NO_PROGRAMS,
        kubeconfig(ALLOWED, exec=SHELL),
        arguments=("work-hub", "--install-only", "--no-webhook", "--context=c"),
        env={"HOME": "/cfg"},
        container={"volumeMounts": [{"name": "cfg", "mountPath": "/cfg/.kube/config", "subPath": "kubeconfig"}]},
        trap="127.0.0.1",
        allowed=True,
    ),
    Attack(
        "exec-in-a-bootstrap-secret",
        NO_PROGRAMS,
        arguments=(
            "agent",
            "--cluster-name=c",
            "--health-port=0",
            "--bootstrap-kubeconfig-secret=exec-bootstrap",
            "--hub-kubeconfig-secret=x1",
        ),
        secrets={"exec-bootstrap": kubeconfig(ALLOWED, exec=SHELL)},
        trap="127.0.0.1",
        allowed=True,
    ),
)

FILES: Final = (
    Attack("token-file-absolute", NO_FILE, kubeconfig(ALLOWED, tokenFile="<secret>"), trap="127.0.0.1", allowed=True),
    Attack("token-file-going-up", NO_FILE, kubeconfig(ALLOWED, tokenFile=f"{UP}<root>"), trap="127.0.0.1", allowed=True),
    Attack(
        "token-file-of-a-bootstrap-secret",
        NO_FILE,
        arguments=(
            "agent",
            "--cluster-name=c",
            "--health-port=0",
            "--bootstrap-kubeconfig-secret=file-bootstrap",
            "--hub-kubeconfig-secret=x2",
        ),
        secrets={"file-bootstrap": kubeconfig(ALLOWED, tokenFile=f"{UP}<root>")},
        trap="127.0.0.1",
        allowed=True,
    ),
    *(
        Attack(
            f"{field}-of-the-machine",
            NO_FILE,
            kubeconfig("https://127.0.0.1:<port>", {PEM[0]: "<secret>"})
            if field == PEM[0]
            else kubeconfig("https://127.0.0.1:<port>", None, **{PEM[1]: "<secret>", PEM[2]: "<secret>"}),
            trap="127.0.0.1",
            allowed=True,
        )
        for field in PEM[:2]
    ),
    Attack(
        "administrators-kubeconfig-by-variable",
        NO_FILE,
        arguments=("agent", "--install-only", "--namespace=stolen-<name>"),
        env={"KUBECONFIG": "<admin>"},
    ),
    Attack(
        "administrators-kubeconfig-in-a-list",
        NO_FILE,
        arguments=("agent", "--install-only", "--namespace=stolen-<name>"),
        env={"KUBECONFIG": "/nowhere:<admin>"},
    ),
    Attack(
        "administrators-home",
        NO_FILE,
        arguments=("agent", "--install-only", "--namespace=stolen-<name>", "--context=default"),
        env={"HOME": "<home>"},
    ),
    Attack(
        "administrators-kubeconfig-by-flag",
        NO_FILE,
        arguments=("agent", "--install-only", "--namespace=stolen-<name>", "--kubeconfig=<admin>"),
        before=True,
    ),
    Attack(
        "whether-a-directory-is-there",
        NO_FILE,
        arguments=("hub", "--install-only", "--no-webhook", "--kubeconfig=/etc"),
    ),
    Attack(
        "message-from-a-file",
        "about to end",
        arguments=("fail", "3"),
        container={"terminationMessagePath": "<secret>"},
        before=True,
    ),
    Attack(
        "directory-of-the-machine",
        "of a kind that this node does not have",
        arguments=("tick",),
        spec={"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
        container={"volumeMounts": [{"name": "host", "mountPath": "/host"}]},
        before=True,
    ),
)

ADDRESSES: Final = (
    dialling("loopback", "127.0.0.1"),
    dialling("loopback-by-name", "localhost"),
    dialling("loopback-in-short", "127.1"),
    dialling("loopback-as-a-number", "2130706433"),
    dialling("loopback-in-version-6", "[::1]", "::1"),
    dialling("loopback-in-version-6s-clothes", "[::ffff:127.0.0.1]"),
    dialling("no-address", "0.0.0.0"),
    dialling("no-address-in-version-6", "[::]", "::1"),
    dialling("loopback-of-nobody", "127.99.3.7", "127.99.3.7"),
    dialling("an-address-among-pods", "127.99.200.9", "0.0.0.0"),
    dialling("the-machines-own-address", "<machine>", "0.0.0.0"),
    dialling("credentials-of-a-cloud", "169.254.169.254"),
    Attack(
        "by-a-proxy-of-the-kubeconfig",
        ON_MACHINE,
        kubeconfig("https://far.example", {"proxy-url": "http://127.0.0.1:<port>"}),
        trap="127.0.0.1",
    ),
    Attack(
        "by-a-proxy-of-the-pod",
        ON_MACHINE,
        kubeconfig("http://far.example"),
        env={"HTTP_PROXY": "http://127.0.0.1:<port>"},
        trap="127.0.0.1",
    ),
    Attack(
        "by-the-pods-address-where-the-machine-listens",
        "onnection refused",
        kubeconfig("http://far.example"),
        env={"HTTP_PROXY": "http://$(POD_IP):<port>"},
        container={"env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]},
        trap="0.0.0.0",
    ),
    Attack("by-the-machines-proxy", "far.example", kubeconfig("http://far.example"), trap="the machine's proxy"),
)

LISTENING: Final = (
    Attack(
        "another-loopback-address",
        "a pod listens on its own address",
        arguments=("agent", "--cluster-name=c", "--health-host=127.0.0.9", "--health-port=<port>", "--hub-kubeconfig-secret=x3"),
        listens="127.0.0.9:<port>",
    ),
    Attack(
        "an-address-of-the-network",
        "a pod listens on its own address",
        arguments=("operator", "klusterlet", "--health-host=<machine>", "--health-port=<port>", "--no-leader-elect"),
        listens="<machine>:<port>",
    ),
)

PROBES: Final = (
    probing("a-probe-of-loopback", {"tcpSocket": {"host": "127.0.0.1", "port": "<port>"}}),
    probing("a-probe-by-name", {"httpGet": {"host": "localhost", "port": "<port>", "path": "/"}}),
    probing(
        "a-probe-where-the-machine-listens",
        {"httpGet": {"port": "<port>", "path": "/", "httpHeaders": [{"name": "X-Metadata", "value": "yes"}]}},
        "0.0.0.0",
        "Connection refused",
    ),
    probing("a-probe-of-a-cloud", {"httpGet": {"host": "169.254.169.254", "port": 80, "path": "/latest"}}, ""),
)

IDENTITY: Final = (
    Attack(
        "an-identity-that-was-not-given",
        NO_FILE,
        arguments=("agent", "--install-only", "--namespace=stolen-<name>"),
        spec={"automountServiceAccountToken": False},
    ),
)

UNLABELLED: Final = (
    Attack("an-unlabelled-namespace", "kubectl label namespace", arguments=("tick",), open=False),
    Attack("bound-by-its-author", "kubectl label namespace", arguments=("tick",), spec={"nodeName": "default-node"}, open=False),
    Attack(
        "a-label-on-the-pod",
        "kubectl label namespace",
        arguments=("tick",),
        metadata={"labels": {"open-cluster-management.io/pods-may-run": "true"}},
        open=False,
    ),
    Attack(
        "an-owner-of-good-name",
        "kubectl label namespace",
        arguments=("tick",),
        metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "default-node", "uid": "<node>"}]},
        open=False,
    ),
)

EXHAUSTION: Final = (
    Attack(
        "too-many-containers",
        "containers are more than",
        arguments=("tick",),
        spec={"initContainers": [{"name": f"i{n}", "image": "muster", "args": ["fail", "0"]} for n in range(40)]},
    ),
    Attack(
        "too-many-containers-bound-by-their-author",
        "containers are more than",
        arguments=("tick",),
        spec={
            "nodeName": "default-node",
            "initContainers": [{"name": f"i{n}", "image": "muster", "args": ["fail", "0"]} for n in range(40)],
        },
    ),
)

ATTACKS: Final = (
    *PROGRAMS,
    *FILES,
    *ADDRESSES,
    *LISTENING,
    *PROBES,
    *IDENTITY,
    *UNLABELLED,
    *EXHAUSTION,
)
