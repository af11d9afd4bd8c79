"""Client certificates that a cluster's own signer issues, for tests that come with one on any kind of control plane."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.administrator import CSRS, Administrator, certificate_of, wait_for
from tests.support.planes import Cluster


def client_certificate(cluster: Cluster, user: str, groups: Sequence[str] = (), name: str = "") -> tuple[bytes, bytes]:
    """Certificate and key (PEM) by which its API server knows a client as `user`; the request is called `name`, or as the user."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = name or f"client-{user}"
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group, _validate=False) for group in groups]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user, _validate=False)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    spec = {
        "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    administrator = Administrator(cluster)
    kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    made = administrator.admin.post(CSRS, {**kind, "metadata": {"name": called}, "spec": spec}).expect(201)
    administrator.decide({**made, **kind})
    issued = wait_for(lambda: certificate_of(administrator.admin.get(f"{CSRS}/{called}").expect(200)), "a certificate")
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return base64.b64decode(issued), private
