"""ClusterGateways as the hub's API shows them: virtual, read-only, and without a secret."""

from __future__ import annotations

import orjson

from tests.e2e.gateway.conftest import CREDENTIAL_TYPE, GATEWAYS, GROUP, MANAGED_CLUSTERS, SECRETS, GatewaySite, base64_of
from tests.support.administrator import wait_for
from tests.support.kubectl import kubectl
from tests.support.pki import Authority
from tests.support.sites import KUBE


def test_the_resource_is_discovered(site: GatewaySite) -> None:
    """A1."""
    rows = kubectl(site.hub, "api-resources", f"--api-group={GROUP}", "--no-headers").expect().out
    assert rows.split() == ["clustergateways", f"{GROUP}/v1alpha1", "false", "ClusterGateway"]
    raw = orjson.loads(kubectl(site.hub, "get", "--raw", f"/apis/{GROUP}/v1alpha1").expect().out)
    assert {"clustergateways", "clustergateways/proxy", "clustergateways/health"} <= {one["name"] for one in raw["resources"]}


def test_kubectl_shows_clusters_with_their_credential_and_health(site: GatewaySite) -> None:
    """A2."""
    out = kubectl(site.hub, "get", "clustergateways").expect().out
    head, *rows = out.splitlines()
    assert head.split() == ["NAME", "CREDENTIAL-TYPE", "ENDPOINT", "HEALTHY", "EXPIRES", "AGE"]
    shown = {row.split()[0]: row.split() for row in rows}
    assert {"foo", "bar"} <= shown.keys()
    assert shown["foo"][1:4] == ["ServiceAccountToken", site.spokes["foo"].url, "true"]
    assert kubectl(site.hub, "explain", "clustergateways.spec.access").expect().out


def test_an_object_has_the_seeds_shape_and_no_secret(site: GatewaySite) -> None:
    """A2, C1."""
    found = site.seen("foo")
    assert found is not None
    access = found["spec"]["access"]
    assert (found["kind"], access["endpoint"]) == ("ClusterGateway", site.spokes["foo"].url)
    assert access["credential"]["type"] == "ServiceAccountToken"
    assert site.tokens["foo"] not in orjson.dumps(found).decode()
    cluster = site.admin.get(f"{MANAGED_CLUSTERS}/foo").expect(200)
    assert found["metadata"]["uid"] == cluster["metadata"]["uid"]
    assert found["status"]["healthy"] is True
    assert found["status"]["expirationTimestamp"]


def test_writes_are_not_allowed(site: GatewaySite) -> None:
    """D6."""
    for arguments in (("delete", "clustergateway", "foo"), ("annotate", "clustergateway", "foo", "a=b")):
        refused = kubectl(site.hub, *arguments)
        assert refused.code == 1
        assert "does not allow this method" in refused.err
    assert site.admin.post(GATEWAYS, site.seen("foo")).status == 405
    changed = orjson.dumps({**(site.seen("foo") or {}), "spec": {"provider": "another"}}).decode()
    refused = kubectl(site.hub, "apply", "--server-side", "--force-conflicts", "-f", "-", input=changed)
    assert refused.code == 1
    assert "does not allow this method" in refused.err


def test_a_watch_tells_of_clusters_that_come_change_and_go(site: GatewaySite) -> None:
    """A2."""
    name = site.name("watched")
    version = site.admin.get(GATEWAYS).expect(200)["metadata"]["resourceVersion"]
    site.accept(name)
    site.credential(name, "ServiceAccountToken", {"endpoint": "https://192.0.2.1:6443", "token": "first"})
    wait_for(lambda: (site.seen(name) or {}).get("spec", {}).get("access", {}).get("endpoint"), "the endpoint")
    site.admin.patch(f"{SECRETS}/{name}", {"data": base64_of({"endpoint": "https://192.0.2.2:6443"})}).expect(200)
    site.forget(name)
    events = []
    for event in site.admin.watch(GATEWAYS, {"resourceVersion": version}, timeout=20):
        if event["object"]["metadata"]["name"] == name:
            events.append((event["type"], event["object"]["spec"]["access"].get("endpoint", "")))
            if event["type"] == "DELETED":
                break
    assert events[0][0] == "ADDED"
    assert ("MODIFIED", "https://192.0.2.2:6443") in events
    assert events[-1][0] == "DELETED"


def test_a_revision_of_elsewhere_has_expired(site: GatewaySite) -> None:
    reply = site.admin.get(f"{GATEWAYS}?watch=true&resourceVersion=5")
    assert reply.status in (200, 410)
    assert b"Expired" in reply.body or reply.json["code"] == 410


def test_labels_select(site: GatewaySite) -> None:
    name = site.name("labelled")
    site.accept(name)
    site.admin.patch(f"{MANAGED_CLUSTERS}/{name}", {"metadata": {"labels": {"env": name}}}).expect(200)
    listed = wait_for(lambda: site.admin.get(f"{GATEWAYS}?labelSelector=env%3D{name}").json["items"], "the label")
    assert [one["metadata"]["name"] for one in listed] == [name]
    site.forget(name)


def test_a_certificate_and_upstreams_labels_do_too(site: GatewaySite) -> None:
    """A6, and the Secrets of upstream's gateway are served as they are."""
    name, authority = site.name("certified"), Authority(site.ground.directory, site.name("clients"))
    site.accept(name)
    pair = authority.issue("somebody", organizations=("system:masters",))
    data: dict[str, str | bytes] = {
        "endpoint": site.spokes["foo"].url,
        "ca.crt": site.spokes["foo"].ca.read_bytes(),
        "tls.crt": pair.cert.read_bytes(),
        "tls.key": pair.key.read_bytes(),
    }
    kind = "X509Certificate"
    labels = {"cluster.core.oam.dev/cluster-credential-type": kind, "cluster.core.oam.dev/cluster-endpoint-type": "Const"}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": base64_of(data)}
    site.admin.post(SECRETS, document).expect(201)
    # The cluster does not know this authority: a real API server says so, the embedded one ends the handshake.
    status = site.wait_status(name, healthy=False, reason="CredentialRefused" if KUBE else "client certificate")
    assert CREDENTIAL_TYPE not in str(status)
    found = site.seen(name)
    assert found is not None
    assert found["spec"]["access"]["credential"]["type"] == kind
    assert pair.key.read_text().splitlines()[1] not in orjson.dumps(found).decode()
    site.forget(name)


def test_a_cluster_that_is_not_accepted_has_no_gateway(site: GatewaySite) -> None:
    """D16."""
    name = site.name("unaccepted")
    site.register(name, site.spokes["foo"], site.tokens["foo"])
    assert site.proxy(name, "/version").status == 200
    site.gateway.set_accepted(name, False)
    wait_for(lambda: site.seen(name) is None, "the gateway to go")
    assert site.proxy(name, "/version").status == 404
    site.forget(name)
