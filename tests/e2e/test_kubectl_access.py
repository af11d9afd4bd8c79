"""kubectl auth, certificate, create token and the answers to those who may not, in each version, on either control plane."""

from __future__ import annotations

import base64
import json

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.conftest import Kubectl
from tests.e2e.manifests import text

RBAC = "/apis/rbac.authorization.k8s.io/v1"


def test_can_i(kc: Kubectl) -> None:
    assert kc.out("auth", "can-i", "create", "pods") == "yes"
    assert kc.out("auth", "can-i", "create", "pods", user="alice", code=1) == "no"
    kc("create", "role", "reader", "--verb=get,list", "--resource=secrets", "--resource-name=one")
    kc("create", "rolebinding", "reader", "--role=reader", "--group=developers")
    assert kc.out("auth", "can-i", "get", "secrets/one", user="alice") == "yes"
    assert kc.out("auth", "can-i", "get", "secrets/two", user="alice", code=1) == "no"
    assert kc.out("auth", "can-i", "get", "secrets/one", user="bob", code=1) == "no"
    assert kc.out("auth", "can-i", "get", "secrets/one", "--as=eve", "--as-group=developers") == "yes"
    assert kc.out("auth", "can-i", "get", "/healthz", user="alice") == "yes"
    listed = kc.out("auth", "can-i", "--list", user="alice")
    assert any(line.split()[0] == "secrets" and "[one]" in line and "[get list]" in line for line in listed.splitlines())
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed


def test_whoami(kc: Kubectl) -> None:
    shown = kc.out("auth", "whoami", user="carol")
    assert "carol" in shown
    assert "developers" in shown
    info = json.loads(kc.out("auth", "whoami", "-o", "json", user="alice"))["status"]["userInfo"]
    assert info["username"] == "alice"
    assert set(info["groups"]) == {"developers", "system:authenticated"}


def test_reconcile(kc: Kubectl) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r", "namespace": kc.namespace},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    assert "reconciled" in kc.out("auth", "reconcile", "-f", "-", input=text(role))
    role["rules"] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    kc("auth", "reconcile", "-f", "-", input=text(role))
    rules = kc.client.get(kc.path("roles", "r", RBAC)).expect(200)["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}


def test_those_who_may_not_are_told(kc: Kubectl) -> None:
    refused = kc.fails("get", "pods", user="alice")
    assert refused.startswith("Error from server (Forbidden): pods is forbidden: ")
    assert f'User "alice" cannot list resource "pods" in API group "" in the namespace "{kc.namespace}"' in refused
    assert "Forbidden" in kc.fails("delete", "namespace", kc.namespace, user="alice")
    assert "configmaps is forbidden" in kc.fails("create", "configmap", "x", user="mallory")
    kc("create", "rolebinding", "editors", "--clusterrole=edit", "--user=alice")
    kc("create", "configmap", "x", user="alice")
    kc("create", "rolebinding", "rulers", "--clusterrole=admin", "--user=bob")
    escalation = kc.fails("create", "role", "more", "--verb=get", "--resource=nodes", user="bob")
    assert "is attempting to grant RBAC permissions not currently held" in escalation


def test_a_token_nobody_knows(kc: Kubectl) -> None:
    assert "You must be logged in to the server" in kc.fails("get", "cm", user="nonsense")


def test_service_account_tokens(kc: Kubectl) -> None:
    kc("create", "serviceaccount", "robot")
    token = kc.out("create", "token", "robot", "--duration=20m")
    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["sub"] == f"system:serviceaccount:{kc.namespace}:robot"
    assert claims["exp"] - claims["iat"] == 1200
    client = kc.plane.client()
    review = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, user=token).expect(201)
    assert review["status"]["userInfo"]["username"] == claims["sub"]
    client.close()
    bound = kc.out("create", "token", "robot", "--audience=elsewhere")
    assert bound.count(".") == 2
    assert "may not specify a duration less than 10 minutes" in kc.fails("create", "token", "robot", "--duration=10s")
    assert "not found" in kc.fails("create", "token", "none")


def signing_request(name: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, name), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "developers")]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return text(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {
                "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
                "expirationSeconds": 3600,
            },
        }
    )


def test_certificates_are_approved_and_denied(kc: Kubectl) -> None:
    good, bad = f"{kc.namespace}-good", f"{kc.namespace}-bad"
    for name in (good, bad):
        kc.remove_later(f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}")
        kc("create", "-f", "-", input=signing_request(name))
    assert "Pending" in kc.out("get", "csr", good)
    assert "approved" in kc.out("certificate", "approve", good)
    kc("wait", "--for=jsonpath={.status.certificate}", f"csr/{good}", "--timeout=20s")
    assert "Approved,Issued" in kc.out("get", "csr", good)
    issued = x509.load_pem_x509_certificate(base64.b64decode(kc.out("get", "csr", good, "-o", "jsonpath={.status.certificate}")))
    assert issued.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == good
    assert "denied" in kc.out("certificate", "deny", bad)
    assert "Denied" in kc.out("get", "csr", bad)
    assert "not found" in kc.fails("certificate", "approve", "none-such")
