"""Client certificates that a cluster's own signer issues, for tests that come with one on any kind of control plane."""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.administrator import CSRS, Administrator, certificate_of, wait_for
from tests.support.planes import Cluster


def client_certificate(cluster: Cluster, user: str) -> tuple[bytes, bytes]:
    """Certificate and key (PEM) by which its API server knows a client as `user`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    administrator = Administrator(cluster)
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    made = administrator.admin.post(CSRS, {**kind, "metadata": {"name": f"client-{user}"}, "spec": spec}).expect(201)
    administrator.decide({**made, **kind})
    issued = wait_for(lambda: certificate_of(administrator.admin.get(f"{CSRS}/client-{user}").expect(200)), "a certificate")
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return base64.b64decode(issued), private
