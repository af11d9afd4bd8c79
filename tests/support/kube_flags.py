"""How the real control plane is run: its files and command lines.

Kept apart from the life cycle in `planes.py` because this is the part one edits to ask "what would the real one do
with that flag". Only controllers that the embedded server has too are switched on, so that both planes tell the same
story, and the one that signs cluster-info, which the embedded server lacks; anything node-bound stays off, and
controllers of workloads are for planes on which somebody runs pods.
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from tests.support import pki

ISSUER = "https://kubernetes.default.svc"
CONTROLLERS = (
    "bootstrap-signer-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "service-cidr-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "token-cleaner-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
)
WORKLOADS = ("deployment-controller", "replicaset-controller")
"""Not those of endpoints: a node of ours has pods on loopback addresses, which endpoints may not have."""


@dataclass(frozen=True)
class Files:
    directory: Path
    ca: pki.Authority
    front_proxy_ca: pki.Authority
    serving: pki.Pair
    front_proxy: pki.Pair
    kubelet_client: pki.Pair
    manager: pki.Pair
    service_accounts: pki.Pair
    tokens: Path


def make_files(directory: Path) -> Files:
    ca = pki.Authority(directory, "ca")
    front_proxy_ca = pki.Authority(directory, "front-proxy-ca")
    hosts = ("127.0.0.1", "10.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    return Files(
        directory=directory,
        ca=ca,
        front_proxy_ca=front_proxy_ca,
        serving=ca.issue("kube-apiserver", hosts=hosts),
        front_proxy=front_proxy_ca.issue("front-proxy-client"),
        kubelet_client=ca.issue("kube-apiserver-kubelet-client", organizations=("system:masters",), file="kubelet-client"),
        manager=ca.issue("system:kube-controller-manager", organizations=("system:masters",), file="manager"),
        service_accounts=pki.service_account_keys(directory),
        tokens=directory / "tokens.csv",
    )


def manager_identity(files: Files) -> dict[str, str]:
    return {"client-certificate": str(files.manager.cert), "client-key": str(files.manager.key)}


def etcd(data: Path, url: str, peer_url: str, *, fsync: bool) -> list[str]:
    return [
        f"--data-dir={data}",
        "--name=default",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--log-level=warn",
        *([] if fsync else ["--unsafe-no-fsync"]),
    ]


def service_range(port: int, *, loopback: bool) -> str:
    """On loopback a relay can listen at every Service's address; two servers of a machine, which have different ports, then have
    different ranges: 32768 of them in 127.128.0.0/9, as many as there are ports that the system gives away."""
    if not loopback:
        return "10.0.0.0/16"
    return f"{ipaddress.IPv4Address('127.128.0.0') + port % 2**15 * 256}/24"


def apiserver(files: Files, etcd_url: str, port: int, *, audit_log: bool, pods: bool, issuer: str = ISSUER) -> list[str]:
    audit: list[str] = []
    if audit_log:
        policy = files.directory / "audit-policy.yaml"
        policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n")
        # One file however long: by default a new one begins after 100 MB.
        log = [f"--audit-log-path={files.directory / 'audit.log'}", "--audit-log-maxsize=100000"]
        audit = [f"--audit-policy-file={policy}", *log]
    return [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        # A loopback address is not a valid endpoint; without this the server would complain all day.
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={service_range(port, loopback=pods)}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-bootstrap-token-auth=true",
        "--profiling=false",
        f"--tls-cert-file={files.serving.cert}",
        f"--tls-private-key-file={files.serving.key}",
        f"--client-ca-file={files.ca.pair.cert}",
        f"--token-auth-file={files.tokens}",
        f"--service-account-issuer={issuer}",
        f"--service-account-key-file={files.service_accounts.cert}",
        f"--service-account-signing-key-file={files.service_accounts.key}",
        f"--requestheader-client-ca-file={files.front_proxy_ca.pair.cert}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={files.front_proxy.cert}",
        f"--proxy-client-key-file={files.front_proxy.key}",
        f"--kubelet-client-certificate={files.kubelet_client.cert}",
        f"--kubelet-client-key={files.kubelet_client.key}",
        # Off, so that an ExternalName service leads webhooks and aggregated servers to a local process.
        "--enable-aggregator-routing=false",
        *audit,
    ]


def manager(files: Files, kubeconfig: Path, port: int, *, pods: bool) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={files.directory / 'manager-serving'}",
        "--leader-elect=false",
        f"--root-ca-file={files.ca.pair.cert}",
        f"--service-account-private-key-file={files.service_accounts.key}",
        f"--cluster-signing-cert-file={files.ca.pair.cert}",
        f"--cluster-signing-key-file={files.ca.pair.key}",
        f"--controllers={','.join((*CONTROLLERS, *(WORKLOADS if pods else ())))}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]
