"""Signing requests as addons' agents make them, and as others would like to."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from muster.api.addons import ADDON_LABEL, AddonIdentity, dns_name
from muster.api.agents import ALL_CLUSTERS_GROUP, CLUSTER_LABEL, AgentIdentity, cluster_group
from muster.machinery.authentication import UserInfo
from muster.registration.drivers.certificates.profile import CLIENT_USAGES
from muster.registration.names import CLIENT_SIGNER
from muster.runtime.client.builtin import SIGNING_REQUESTS

CLUSTER, ADDON = "cluster1", "hello"
IDENTITY = AddonIdentity(CLUSTER, ADDON, "hello-agent")
Document = dict[str, Any]
Attributes = Sequence[tuple[ObjectIdentifier, str]]


def agent_of(cluster: str = CLUSTER, *groups: str) -> UserInfo:
    """A cluster's registration agent, as the API server knows it by its certificate."""
    own = (cluster_group(cluster), ALL_CLUSTERS_GROUP, "system:authenticated")
    return UserInfo(AgentIdentity(cluster, "abcde").common_name, groups=(*own, *groups))


def subject_of(user: str = IDENTITY.user, organizations: Sequence[str] = IDENTITY.groups, units: Sequence[str] = ()) -> Attributes:
    parts = [(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    parts += [(NameOID.ORGANIZATIONAL_UNIT_NAME, one) for one in units]
    return [*parts, (NameOID.COMMON_NAME, user)]


def content(
    subject: Attributes | None = None,
    names: Sequence[x509.GeneralName] | None = None,
    extensions: Sequence[x509.ExtensionType] = (),
    key: ec.EllipticCurvePrivateKey | None = None,
) -> bytes:
    """What is to be signed, in PEM."""
    attributes = [
        x509.NameAttribute(kind, value, _validate=False) for kind, value in (subject_of() if subject is None else subject)
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if names is None:
        names = [x509.DNSName(dns_name(ADDON))]
    for extension in (*([x509.SubjectAlternativeName(names)] if names else []), *extensions):
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def request_of(
    pem: bytes | None = None,
    *,
    name: str = "addon-cluster1-hello-abcde",
    cluster: str = CLUSTER,
    addon: str = ADDON,
    signer: str = CLIENT_SIGNER,
    usages: Sequence[str] = CLIENT_USAGES,
    requester: UserInfo | None = None,
    annotations: Document | None = None,
    **spec: Any,
) -> Document:
    """Of the good agent, unless something is said."""
    labels = {CLUSTER_LABEL: cluster, ADDON_LABEL: addon}
    body: Document = {"request": base64.b64encode(content() if pem is None else pem).decode(), "signerName": signer}
    body |= {"usages": list(usages), **spec}
    if requester is not None:
        body |= {"username": requester.name, "groups": list(requester.groups)}
    return {
        "apiVersion": SIGNING_REQUESTS.api_version,
        "kind": SIGNING_REQUESTS.kind,
        "metadata": {"name": name, "labels": labels, "annotations": annotations or {}},
        "spec": body,
    }
