"""`--secure-metrics` of the controller as a container: its own certificate, and answers only for those whom the cluster lets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
from muster.api.addons import hub_kubeconfig_secret
from muster.policy.names import CONFIG_POLICY_ADDON
from tests.interop.policy.renderings import rendered_by_upstream
from tests.support.administrator import RBAC, Document, service_account_token, wait_for
from tests.support.network_namespace import unavailable
from tests.support.pki import Authority
from tests.support.policies import ManagedCluster
from tests.support.registration import MUSTER
from tests.support.rendered_pod import RenderedPod

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"a pod takes a network of its own: {unavailable()}")

PORT: Final = 8443
SECRET: Final = f"{CONFIG_POLICY_ADDON}-metrics"
ACCOUNT: Final = f"{CONFIG_POLICY_ADDON}-sa"
_GET: Final = """
import ssl, sys, http.client
port, path, ca, token, newest = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
if newest:
    tls.maximum_version = ssl.TLSVersion[newest]
connection = http.client.HTTPSConnection("localhost", int(port), context=tls, timeout=10)
try:
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
except ssl.SSLError as error:
    print("tls:", error.reason)
"""


class Metrics:
    def __init__(self, pod: RenderedPod, authority: Authority) -> None:
        self.pod = pod
        self.authority = authority

    def get(self, token: str = "", path: str = "/metrics", *, ca: Path | None = None, newest: str = "") -> str:
        """Status and text; or what TLS has against it."""
        command = [sys.executable, "-c", _GET, str(PORT), path, str(ca or self.authority.pair.cert), token, newest]
        return subprocess.run([*self.pod.within, *command], capture_output=True, text=True, timeout=60, check=True).stdout


def account(cluster: ManagedCluster, name: str, *rules: Document) -> str:
    """The token of a new service account with these rights."""
    cluster.admin.post(f"/api/v1/namespaces/{cluster.name}/serviceaccounts", {"metadata": {"name": name}}).expect(201, 409)
    role = {"metadata": {"name": name}, "rules": list(rules)}
    cluster.admin.post(f"{RBAC}/clusterroles", role).expect(201)
    subject = {"kind": "ServiceAccount", "namespace": cluster.name, "name": name}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    cluster.admin.post(f"{RBAC}/clusterrolebindings", bound).expect(201)
    return service_account_token(cluster.admin, cluster.name, name)


def issue(authority: Authority, directory: Path) -> Path:
    """A certificate as a Secret of TLS has it."""
    directory.mkdir(exist_ok=True)
    pair = authority.issue("config-policy-controller-metrics", hosts=("localhost", "127.0.0.1"), file=f"{directory.name}-pair")
    (directory / "tls.key").write_bytes(pair.key.read_bytes())
    (directory / "tls.crt").write_bytes(pair.cert.read_bytes())
    return directory


@pytest.fixture(scope="module")
def metrics(c2: ManagedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metrics]:
    directory = tmp_path_factory.mktemp("secure-metrics")
    authority = Authority(directory, "metrics authority")
    deployment = rendered_by_upstream(c2.name, secure_metrics=True)
    c2.admin.post("/api/v1/namespaces", {"metadata": {"name": DEFAULT_NAMESPACE}}).expect(201, 409)
    place = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/serviceaccounts"
    c2.admin.post(place, {"metadata": {"name": ACCOUNT}}).expect(201, 409)
    subject = {"kind": "ServiceAccount", "namespace": DEFAULT_NAMESPACE, "name": ACCOUNT}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bound = {"metadata": {"name": ACCOUNT}, "roleRef": reference, "subjects": [subject]}
    c2.admin.post(f"{RBAC}/clusterrolebindings", bound).expect(201)
    c2.admin.post(f"/apis/apps/v1/namespaces/{DEFAULT_NAMESPACE}/deployments", deployment).expect(201)
    secrets = {
        SECRET: issue(authority, directory / "first"),
        hub_kubeconfig_secret(CONFIG_POLICY_ADDON): c2.directory,
        hub_kubeconfig_secret("governance-standalone-hub-templating"): c2.directory,
    }
    with RenderedPod(deployment, c2.cluster, directory, image=MUSTER.parent, secrets=secrets, reaching=[c2.link.port]) as pod:
        yield Metrics(pod, authority)
    c2.admin.delete(f"/apis/apps/v1/namespaces/{DEFAULT_NAMESPACE}/deployments/{CONFIG_POLICY_ADDON}").expect(200)


def test_who_may_get_metrics_sees_them(c2: ManagedCluster, metrics: Metrics) -> None:
    token = account(c2, "metrics-reader", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]})
    found = metrics.get(token)
    assert found.startswith("200 ")
    assert "# TYPE " in found
    assert metrics.get(token, "/debug/pprof").startswith("403 "), "rights are looked at by path"


def test_others_see_nothing_and_nobody_is_told_why(c2: ManagedCluster, metrics: Metrics) -> None:
    stranger = account(c2, "metrics-stranger")
    assert metrics.get(stranger).split() == ["403", "Forbidden"]
    for token in ("", "unheard-of", f"{stranger}x"):
        assert metrics.get(token).split() == ["401", "Unauthorized"]
    assert stranger not in metrics.pod.log()


def test_nothing_is_said_without_tls_or_with_an_old_version(metrics: Metrics, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another authority")
    assert metrics.get(ca=other.pair.cert).startswith("tls:"), "it has the certificate that it was given and no other"
    assert metrics.get(newest="TLSv1_2").startswith("tls:"), "--tls-min-version counts here"


def test_a_renewed_certificate_is_followed(c2: ManagedCluster, metrics: Metrics, tmp_path: Path) -> None:
    token = account(c2, "metrics-follower", {"nonResourceURLs": ["/metrics"], "verbs": ["get"]})
    process = metrics.pod.process.pid
    following = Authority(tmp_path, "the next authority")
    metrics.pod.replace("/var/run/metrics-cert", issue(following, tmp_path / "next"))
    wait_for(lambda: metrics.get(token, ca=following.pair.cert).startswith("200 "), "the new certificate", timeout=60)
    assert metrics.pod.process.pid == process
