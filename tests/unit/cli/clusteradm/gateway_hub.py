"""A hub with a gateway, as far as `clusteradm` asks one: discovery, ClusterGateways, and what clusters answer behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from click.testing import CliRunner, Result

from muster.cli.clusteradm import main
from muster.kube import yaml
from tests.support.https_server import Answer, HttpsServer, Received

GROUP = "proxy.open-cluster-management.io"
TOKEN = "hub-token"


def status(code: int, **details: Any) -> Answer:
    return Answer({"kind": "Status", "apiVersion": "v1", "code": code, "message": "refused", "details": details}, code)


@dataclass
class GatewayHub:
    """`clusters` are labels by name; `answers` is what a cluster answers to everything, `behind` to one path; the rest is ok."""

    directory: Path
    clusters: Mapping[str, Mapping[str, str]]
    answers: dict[str, Answer] = field(default_factory=dict)
    behind: dict[tuple[str, str], Answer] = field(default_factory=dict)
    version: str = "v1alpha1"
    may_look: bool = True
    runner: CliRunner = field(default_factory=CliRunner)

    def __enter__(self) -> GatewayHub:
        self.server = HttpsServer(self._answer)
        self.server.__enter__()
        self.kubeconfig = self.directory / "hub.kubeconfig"
        (self.directory / "ca.crt").write_bytes(self.server.ca)
        self.kubeconfig.write_text(
            yaml.dump(
                {
                    "clusters": [{"name": "hub", "cluster": {"server": self.server.url, "certificate-authority": "ca.crt"}}],
                    "users": [{"name": "admin", "user": {"token": TOKEN}}],
                    "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "admin"}}],
                    "current-context": "hub",
                }
            )
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def run(self, *words: str, given: str = "") -> Result:
        return self.runner.invoke(main, ["--kubeconfig", str(self.kubeconfig), *words], input=given)

    def ok(self, *words: str, given: str = "") -> str:
        done = self.run(*words, given=given)
        assert done.exit_code == 0, done.output
        return done.stdout

    def fails(self, *words: str, code: int = 1) -> str:
        done = self.run(*words)
        assert done.exit_code == code, done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.stderr

    def _answer(self, request: Received) -> Answer:
        parts = urlsplit(request.path)
        api = f"/apis/{GROUP}/{self.version}"
        known: dict[str, Any] = {
            "/apis/cluster.open-cluster-management.io/v1": _resources("managedclusters", "ManagedCluster"),
            f"/apis/{GROUP}": {"kind": "APIGroup", "versions": [{"groupVersion": f"{GROUP}/{self.version}"}]},
            api: _resources("clustergateways", "ClusterGateway"),
            "/apis/cluster.open-cluster-management.io/v1/managedclusters": _list(map(self._object, self.clusters)),
        }
        if parts.path in known:
            return Answer(known[parts.path])
        found = re.fullmatch(rf"{api}/clustergateways(?:/([^/]+)(?:/proxy(/.*))?)?", parts.path)
        if found is None:
            return status(404)
        cluster, inner = found.groups()
        if inner:
            return self.answers.get(cluster) or self.behind.get((cluster, inner)) or Answer("ok")
        if not self.may_look:
            return status(403, group=GROUP, kind="clustergateways")
        if cluster:
            return Answer(self._object(cluster)) if cluster in self.clusters else status(404, name=cluster)
        wanted = parse_qs(parts.query).get("labelSelector", [""])[0]
        chosen = [name for name, labels in self.clusters.items() if not wanted or wanted in {f"{k}={v}" for k, v in labels.items()}]
        return Answer(_list(map(self._object, chosen)))

    def _object(self, name: str) -> dict[str, Any]:
        healthy = name not in self.answers
        return {
            "apiVersion": f"{GROUP}/{self.version}",
            "kind": "ClusterGateway",
            "metadata": {"name": name, "labels": dict(self.clusters[name])},
            "spec": {},
            "status": {"healthy": healthy, "healthyReason": "" if healthy else "ClusterUnreachable"},
        }


def _resources(plural: str, kind: str) -> dict[str, Any]:
    return {"kind": "APIResourceList", "resources": [{"name": plural, "kind": kind, "namespaced": False, "verbs": ["get"]}]}


def _list(items: Any) -> dict[str, Any]:
    return {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": list(items)}
