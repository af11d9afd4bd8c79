"""Credentials and leases of addons' agents, and who does not get any (A6, A7, A8)."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from muster.api.addons import dns_name
from muster.kube.certificates import generate_key
from tests.e2e.addon.conftest import ADDONS, INSTALL_NAMESPACE, Site, config_map
from tests.e2e.addon.test_template_addons import KUBE_CLIENT, allow
from tests.support.administrator import CSRS, HUB_NAMESPACE, Document
from tests.support.pki import Authority

LEASES = "/apis/coordination.k8s.io/v1"
USAGES = ["digital signature", "key encipherment", "client auth"]


def enabled(site: Site, registration: list[Document], cluster: str = "") -> str:
    addon = site.name()
    site.offer(addon, site.template(addon, config_map(addon), registration=registration))
    site.enable(addon, cluster)
    return addon


def test_a_credential_that_is_lost_or_damaged_comes_back(site: Site) -> None:
    addon = enabled(site, [KUBE_CLIENT])
    name = f"{addon}-hub-kubeconfig"
    first = site.wait_secret(name)
    path = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/secrets/{name}"
    site.spoke.admin.delete(path).expect(200)
    site.hub.wait(lambda: site.secret(name).get("tls.crt") not in (None, first["tls.crt"]), "another certificate", 60)
    site.spoke.admin.patch(path, {"data": {"cluster-name": base64.b64encode(b"other").decode()}}).expect(200)
    site.hub.wait(lambda: site.secret(name).get("cluster-name") == site.cluster.encode(), "the right cluster's name", 60)
    site.disable(addon)


def test_an_addon_that_went_while_the_agent_was_away_leaves_no_credential(site: Site) -> None:
    addon = enabled(site, [KUBE_CLIENT])
    site.wait_secret(f"{addon}-hub-kubeconfig")
    site.agent.kill()
    site.disable(addon)
    # Its works hold it no longer than their agent is away: they are let go by the hub's administrator here.
    site.let_works_go(addon)
    site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
    assert site.secret(f"{addon}-hub-kubeconfig")
    site.agent.start()
    site.hub.wait(lambda: not site.secret(f"{addon}-hub-kubeconfig"), "its credential to be gone", 60)


def own_signer(site: Site, authority: Authority) -> Document:
    """A signer of an addon's own that signs as this authority, as an administrator lets the addon manager serve it."""
    secret = site.name("signing-ca")
    pair = {"tls.crt": authority.pair.cert.read_text(), "tls.key": authority.pair.key.read_text()}
    body = {"metadata": {"name": secret}, "type": "kubernetes.io/tls", "stringData": pair}
    site.admin.post(f"/api/v1/namespaces/{HUB_NAMESPACE}/secrets", body).expect(201)
    signer = "example.com/" + site.name("signer")
    signs = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": [signer],
        "verbs": ["approve", "sign"],
    }
    reads = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}
    allow(site, site.name("signer-role"), signs, reads)
    subject = {"user": "somebody", "groups": ["readers"], "organizationUnit": ["unit"]}
    return {"signerName": signer, "signingCA": {"name": secret, "namespace": HUB_NAMESPACE}, "subject": subject}


def signed(site: Site, addon: str, signer: Document, authority: Authority) -> x509.Certificate:
    """The certificate of such a signer that the addon has."""
    found = site.wait_secret(f"{addon}-{signer['signerName'].replace('/', '-')}-client-cert")
    certificate = x509.load_pem_x509_certificate(found["tls.crt"])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pair.cert.read_bytes()))
    return certificate


def test_a_certificate_of_the_addons_own_signer_is_signed_with_its_authority(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    authority = Authority(tmp_path_factory.mktemp("signer"), "an addon's signer")
    signer = own_signer(site, authority)
    addon = enabled(site, [{"type": "CustomSigner", "customSigner": signer}])
    certificate = signed(site, addon, signer, authority)
    assert [one.value for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["somebody"]
    assert [one.value for one in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["readers"]
    site.disable(addon)


def test_a_namespace_that_is_made_late_gets_the_credential_then(site: Site) -> None:
    addon, namespace = site.name(), site.name("late")
    site.offer(addon, site.template(addon, config_map(addon, "default"), registration=[KUBE_CLIENT]))
    config = site.config(f"{addon}-config", agentInstallNamespace=namespace)
    site.enable(addon, configs=[config])
    site.hub.wait(lambda: site.status(addon).get("namespace") == namespace, "the addon's namespace", 60)
    labels = {"addon.open-cluster-management.io/namespace": "true"}
    site.spoke.admin.post("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}}).expect(201)
    site.let_agent_in(namespace)
    assert site.wait_secret(f"{addon}-hub-kubeconfig", namespace)["tls.crt"]
    site.disable(addon)


def test_health_follows_the_lease_of_an_addon_that_has_one(site: Site) -> None:
    """Of an addon whose manager runs elsewhere: this hub's takes care of template addons, whose workloads tell."""
    addon = site.name()
    site.offer(addon, annotations={"addon.open-cluster-management.io/lifecycle": "self"})
    site.enable(addon)
    site.admin.patch(f"{site.path(addon)}/status", {"status": {"namespace": INSTALL_NAMESPACE}}).expect(200)
    lease = f"{LEASES}/namespaces/{INSTALL_NAMESPACE}/leases"
    now = datetime.now(UTC)
    body = {"metadata": {"name": addon}, "spec": {"renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
    site.spoke.admin.post(lease, body).expect(201)
    site.wait(addon, "Available", "True", "ManagedClusterAddOnLeaseUpdated")
    old = (now - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    site.spoke.admin.patch(f"{lease}/{addon}", {"spec": {"renewTime": old}}).expect(200)
    site.wait(addon, "Available", "False", "ManagedClusterAddOnLeaseUpdateStopped")
    site.spoke.admin.delete(f"{lease}/{addon}").expect(200)
    site.wait(addon, "Available", "Unknown", "ManagedClusterAddOnLeaseNotFound")
    site.disable(addon)


def signing_request(site: Site, addon: str, *, cluster: str = "", user: str = "", groups: list[str] | None = None) -> Document:
    cluster = cluster or site.cluster
    mine = f"system:open-cluster-management:cluster:{cluster}:addon:{addon}"
    names = [x509.NameAttribute(NameOID.COMMON_NAME, user or f"{mine}:agent:{addon}-agent", _validate=False)]
    for group in groups or [mine, f"system:open-cluster-management:addon:{addon}"]:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group, _validate=False))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    key = generate_key()
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(dns_name(addon))]), critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    labels = {"open-cluster-management.io/cluster-name": cluster, "open-cluster-management.io/addon-name": addon}
    name = f"addon-{cluster}-{addon}-{site.name('x')}"
    spec = {"request": base64.b64encode(pem).decode(), "signerName": "kubernetes.io/kube-apiserver-client", "usages": USAGES}
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return {**kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def approved(site: Site, name: str) -> bool:
    found = site.hub.read(f"{CSRS}/{name}") or {}
    return any(one["type"] == "Approved" for one in (found.get("status") or {}).get("conditions") or ())


def test_requests_that_are_not_exactly_an_agents_own_are_left_alone(site: Site) -> None:
    addon = enabled(site, [KUBE_CLIENT])
    site.wait_secret(f"{addon}-hub-kubeconfig")
    agent = site.agent.client()
    mine = f"system:open-cluster-management:cluster:{site.cluster}:addon:{addon}"
    both = [mine, f"system:open-cluster-management:addon:{addon}"]
    other = f"system:open-cluster-management:cluster:{site.cluster}0:addon:{addon}"
    attacks = [
        signing_request(site, addon, groups=[*both, "system:masters"]),
        signing_request(site, addon, groups=[*both, f"system:open-cluster-management:{site.cluster}0"]),
        signing_request(site, addon, groups=[mine]),
        signing_request(site, addon, user=f"{other}:agent:{addon}-agent"),
        signing_request(site, addon, user="system:admin"),
        signing_request(site, addon, cluster=f"{site.cluster}0"),
        signing_request(site, f"{addon}0"),
    ]
    for attack in attacks:
        # Some the API server refuses by itself.
        agent.post(CSRS, attack).expect(201, 403)
    # A stranger's, who is no agent of the cluster.
    stranger = signing_request(site, addon)
    site.hub.cluster.client().post(CSRS, stranger).expect(201)
    honest = signing_request(site, addon)
    agent.post(CSRS, honest).expect(201)
    site.hub.wait(lambda: approved(site, honest["metadata"]["name"]), "the honest request to be approved", 60)
    assert [one["metadata"]["name"] for one in (*attacks, stranger) if approved(site, one["metadata"]["name"])] == []
    for one in (*attacks, stranger, honest):
        site.admin.delete(f"{CSRS}/{one['metadata']['name']}")
    site.disable(addon)


def test_what_an_agent_writes_into_its_status_gives_nobody_rights_and_stops_nobody(site: Site) -> None:
    reads = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    role = allow(site, site.name("role"), reads)
    permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": role}}
    addon = enabled(site, [{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}])
    site.wait_secret(f"{addon}-hub-kubeconfig")
    agent = site.agent.client()
    hostile = {
        "registrations": [
            {
                "signerName": "kubernetes.io/kube-apiserver-client",
                "subject": {"user": "mallory", "groups": ["system:unauthenticated"]},
            }
        ],
        "kubeClientDriver": "token",
        "configReferences": [{"group": "g", "resource": "r", "name": "n", "lastObservedGeneration": -1}],
    }
    agent.patch(f"{site.path(addon)}/status", {"status": hostile}).expect(200)
    site.hub.wait(lambda: "mallory" not in str(site.status(addon)), "the subject to be set right", 60)
    for path in ("rolebindings", "clusterrolebindings"):
        bindings = site.admin.get(f"/apis/rbac.authorization.k8s.io/v1/{path}").expect(200)["items"]
        assert not [one for one in bindings if "mallory" in str(one.get("subjects"))]
    # Others go on.
    another = enabled(site, [KUBE_CLIENT])
    site.wait_secret(f"{another}-hub-kubeconfig")
    for one in (addon, another):
        site.disable(one)


def test_both_versions_of_the_api_show_the_same_addon(site: Site) -> None:
    addon = enabled(site, [KUBE_CLIENT])
    site.wait_secret(f"{addon}-hub-kubeconfig")
    beta = site.hub.read(site.path(addon).replace("v1alpha1", "v1beta1")) or {}
    (registration,) = beta["status"]["registrations"]
    assert registration["type"] == "kubeClient"
    assert registration["kubeClient"]["driver"] == "csr"
    assert registration["kubeClient"]["subject"]["user"].endswith(f":addon:{addon}:agent:{addon}-agent")
    assert site.hub.read(f"{ADDONS}/clustermanagementaddons/{addon}".replace("v1alpha1", "v1beta1"))
    site.disable(addon)
