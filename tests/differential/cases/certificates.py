"""Certificate signing requests: who asked, who may approve, what gets signed."""

import base64
import functools
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.differential.cases.access import CLEAN, granted_everywhere, rule
from tests.differential.dsl import Request, case, delete, get, kubectl, merge, post, put, setup

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ONE = f"{CSRS}/${{slug}}"
CLIENT = "kubernetes.io/kube-apiserver-client"


@functools.cache
def request(common_name: str = "someone", organization: str = "") -> str:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    signed = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name(names))
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def csr(**spec: Any) -> dict[str, Any]:
    body = {"request": request(), "signerName": CLIENT, "usages": ["client auth"], **spec}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "${slug}"},
        "spec": {key: value for key, value in body.items() if value is not None},
    }


def decided(kind: str, spec: dict[str, Any] | None = None, **condition: Any) -> dict[str, Any]:
    """The request with a condition, for the approval endpoint."""
    made = {"type": kind, "status": "True", "reason": "Test", "message": "by a test", **condition}
    return {**csr(**(spec or {})), "status": {"conditions": [made]}}


def create(**spec: Any) -> Request:
    return post(CSRS, csr(**spec))


ASKED = setup(create())
SIGNED = get(ONE, present="status.certificate", keep=False)
TIDY = [ONE, *CLEAN]


APPROVAL = rule("update patch", "certificatesigningrequests/approval", "certificates.k8s.io")
STATUS = rule("update patch", "certificatesigningrequests/status", "certificates.k8s.io")

CASES = [
    case("a request says who asked", create(), get(ONE), cleanup=TIDY),
    case(
        "a request cannot lie about who asked",
        create(username="root", uid="0", groups=["system:masters"], extra={"a": ["b"]}),
        cleanup=TIDY,
    ),
    case(
        "a request by somebody else",
        *granted_everywhere(rule("create", "certificatesigningrequests", "certificates.k8s.io")),
        post(CSRS, csr(), user="alice"),
        cleanup=TIDY,
    ),
    case(
        "requests are checked",
        create(request=base64.b64encode(b"nonsense").decode()),
        create(request=None),
        create(usages=None),
        create(usages=["frob"]),
        create(signerName=None),
        create(signerName="nodomain"),
        create(signerName="UPPER.io/x"),
        create(expirationSeconds=60),
        create(usages=["client auth", "client auth"]),
        cleanup=TIDY,
    ),
    case("the client signer refuses masters", create(request=request("eve", "system:masters")), cleanup=TIDY),
    case(
        "a kubelet request must look like one",
        create(signerName="kubernetes.io/kube-apiserver-client-kubelet"),
        create(signerName="kubernetes.io/legacy-unknown"),
        cleanup=TIDY,
    ),
    case(
        "the spec of a request is fixed",
        ASKED,
        merge(ONE, {"spec": {"usages": ["server auth"]}}),
        merge(ONE, {"metadata": {"labels": {"a": "b"}}}),
        cleanup=TIDY,
    ),
    case(
        "an approved request is signed",
        ASKED,
        put(f"{ONE}/approval", decided("Approved")),
        SIGNED,
        get(ONE),
        get(f"{ONE}/status"),
        cleanup=TIDY,
    ),
    case(
        "approval adds no other conditions",
        ASKED,
        put(f"{ONE}/approval", decided("Frob")),
        put(f"{ONE}/approval", decided("Failed")),
        put(f"{ONE}/approval", decided("Approved", status="False")),
        put(f"{ONE}/approval", decided("Approved", status="")),
        cleanup=TIDY,
    ),
    case(
        "a request is not both approved and denied",
        setup(create(signerName="example.io/own")),
        put(f"{ONE}/approval", decided("Denied", {"signerName": "example.io/own"})),
        put(f"{ONE}/approval", decided("Approved", {"signerName": "example.io/own"})),
        merge(f"{ONE}/approval", {"status": {"conditions": []}}),
        cleanup=TIDY,
    ),
    case("approval through the main endpoint does nothing", ASKED, put(ONE, decided("Approved")), cleanup=TIDY),
    case(
        "approval needs the right to the endpoint", ASKED, put(f"{ONE}/approval", decided("Approved"), user="alice"), cleanup=TIDY
    ),
    case(
        "approval needs the right to the signer",
        ASKED,
        *granted_everywhere(APPROVAL),
        put(f"{ONE}/approval", decided("Approved"), user="alice"),
        cleanup=TIDY,
    ),
    case(
        "approval for one signer",
        setup(create(signerName="example.io/own")),
        *granted_everywhere(APPROVAL, rule("approve", "signers", "certificates.k8s.io", names="example.io/own")),
        put(f"{ONE}/approval", decided("Approved", {"signerName": "example.io/own"}), user="alice"),
        cleanup=TIDY,
    ),
    case(
        "approval for all signers of a domain",
        setup(create(signerName="example.io/own")),
        *granted_everywhere(APPROVAL, rule("approve", "signers", "certificates.k8s.io", names="example.io/*")),
        put(f"{ONE}/approval", decided("Approved", {"signerName": "example.io/own"}), user="alice"),
        cleanup=TIDY,
    ),
    case(
        "signing needs the right to the signer",
        setup(create(signerName="example.io/own")),
        *granted_everywhere(STATUS),
        put(f"{ONE}/status", {**csr(signerName="example.io/own"), "status": {"certificate": request()}}, user="alice"),
        cleanup=TIDY,
    ),
    case(
        "a certificate must be one",
        setup(create(signerName="example.io/own")),
        put(
            f"{ONE}/status", {**csr(signerName="example.io/own"), "status": {"certificate": base64.b64encode(b"nonsense").decode()}}
        ),
        cleanup=TIDY,
    ),
    case(
        "an unknown signer's request stays unsigned",
        setup(create(signerName="example.io/own")),
        put(f"{ONE}/approval", decided("Approved", {"signerName": "example.io/own"})),
        get(ONE, pick=lambda body: sorted(body["status"])),
        cleanup=TIDY,
    ),
    case(
        "usages the signer does not allow fail the request",
        setup(create(usages=["server auth"])),
        setup(put(f"{ONE}/approval", decided("Approved", {"usages": ["server auth"]}))),
        get(ONE, until=("status.conditions.type=Failed.status", "True"), pick=lambda body: body["status"]),
        cleanup=TIDY,
    ),
    case(
        "requests can be selected and deleted",
        ASKED,
        get(
            CSRS, query={"fieldSelector": f"spec.signerName={CLIENT},metadata.name=${{slug}}"}, pick=lambda body: len(body["items"])
        ),
        delete(ONE),
        get(ONE),
    ),
    case(
        "kubectl certificate approve and deny",
        ASKED,
        kubectl("certificate", "approve", "${slug}"),
        get(ONE, until=("status.conditions.0.type", "Approved"), pick=lambda body: body["status"]["conditions"]),
        kubectl("certificate", "deny", "${slug}"),
        kubectl("certificate", "approve", "none"),
        cleanup=TIDY,
    ),
    case(
        "kubectl shows requests",
        setup(create(signerName="example.io/own")),
        kubectl("get", "csr", "${slug}"),
        kubectl("certificate", "deny", "${slug}"),
        kubectl("get", "csr", "${slug}"),
        cleanup=TIDY,
    ),
]
