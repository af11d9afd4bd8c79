"""CertificateSigningRequests: kubelet requests are approved, approved ones are signed by the cluster's CA, and old ones deleted.
Follows `k8s.io/kubernetes/pkg/controller/certificates` (approver, signer, cleaner)."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509

from muster.apiserver.auth.access import Access
from muster.apiserver.client import object_path
from muster.apiserver.cluster import Cluster
from muster.apiserver.controllers.manager import ControllerContext
from muster.apiserver.errors import ApiError
from muster.kube.certificates import BACKDATE, CLIENT_AUTH, SERVER_AUTH, common_name, organizations
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.objects import Object
from muster.store.api import Event

CSRS = "certificates.k8s.io/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY = "kubernetes.io/legacy-unknown"
_CLIENT_USAGES = frozenset({"client auth", "digital signature", "key encipherment"})
_SERVING_USAGES = frozenset({"server auth", "digital signature", "key encipherment"})
_NODE_USAGES = {KUBELET_CLIENT: _CLIENT_USAGES, KUBELET_SERVING: _SERVING_USAGES}
_SIGNERS = frozenset({CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY})
_FORBIDDEN_NAMES: dict[str, dict[type[x509.GeneralName], str]] = {
    KUBELET_CLIENT: {x509.DNSName: "DNS", x509.RFC822Name: "Email", x509.IPAddress: "IP", x509.UniformResourceIdentifier: "URI"},
    KUBELET_SERVING: {x509.RFC822Name: "Email", x509.UniformResourceIdentifier: "URI"},
}
_EXTENDED = {"client auth": CLIENT_AUTH, "server auth": SERVER_AUTH}
_LIFETIME = timedelta(days=365)
_PENDING_EXPIRATION, _DECIDED_EXPIRATION = timedelta(hours=24), timedelta(hours=1)


class CertificateController:
    name = "certificate signing requests"
    resources = (CSRS,)

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def keys(self, cluster: Cluster, event: Event) -> Iterable[str]:
        return () if event.deleted else (event.entry.key,)

    def initial_keys(self, cluster: Cluster) -> Iterable[str]:
        return [entry.key for entry in cluster.store.list(cluster.name, CSRS)]

    async def reconcile(self, cluster: Cluster, key: str) -> float | None:
        csr = cluster.read(CSRS, key)
        if csr is None:
            return None
        now = cluster.clock()
        until = _expires(csr, now)
        if until <= now:
            await self._remove(cluster, csr)
            return None
        conditions = _condition_types(csr)
        if not conditions & {"Approved", "Denied"}:
            await self._approve(cluster, csr)
        elif "Approved" in conditions and "Failed" not in conditions and not (csr.get("status") or {}).get("certificate"):
            await self._sign(cluster, csr, now)
        return (until - now).total_seconds()

    async def _remove(self, cluster: Cluster, csr: Object) -> None:
        meta = csr["metadata"]
        options = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        try:
            await self._context.client(cluster).delete(_path(meta["name"]), options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _approve(self, cluster: Cluster, csr: Object) -> None:
        """Approve a kubelet client certificate if RBAC allows the requester `nodeclient` or `selfnodeclient`."""
        spec = csr["spec"]
        if spec["signerName"] != KUBELET_CLIENT or _node_problem(_request(spec), spec):
            return
        subresource = "selfnodeclient" if common_name(_request(spec).subject) == spec.get("username") else "nodeclient"
        attributes = AccessAttributes("create", "certificates.k8s.io", "*", "certificatesigningrequests", subresource)
        user = UserInfo(spec.get("username", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()))
        if not cluster.rules.authorize(user, attributes).allowed:
            return
        text = "Auto approving kubelet client certificate after SubjectAccessReview."
        await self._set_condition(cluster, csr, "Approved", "AutoApproved", text, "approval")

    async def _sign(self, cluster: Cluster, csr: Object, now: datetime) -> None:
        spec = csr["spec"]
        signer = spec["signerName"]
        if signer not in _SIGNERS:
            return
        problem = signing_problem(spec)
        if problem:
            await self._set_condition(cluster, csr, "Failed", "SignerValidationFailure", problem, "status")
            return
        request = _request(spec)
        keys = await cluster.part(Access).key_store.keys(now)
        seconds = spec.get("expirationSeconds")
        lifetime = min(timedelta(seconds=seconds), _LIFETIME) if seconds else _LIFETIME
        usages = [_EXTENDED[usage] for usage in spec.get("usages") or () if usage in _EXTENDED] or [CLIENT_AUTH]
        certificate = keys.client_ca.sign(
            request.subject, request.public_key(), now - BACKDATE, now + lifetime, usages, _alternative_names(request)
        )
        status = {**(csr.get("status") or {}), "certificate": base64.b64encode(certificate).decode()}
        await self._write(cluster, csr, {**csr, "status": status}, "status")

    async def _set_condition(self, cluster: Cluster, csr: Object, kind: str, reason: str, message: str, subresource: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        status = dict(csr.get("status") or {})
        status["conditions"] = [*(status.get("conditions") or ()), condition]
        await self._write(cluster, csr, {**csr, "status": status}, subresource)

    async def _write(self, cluster: Cluster, csr: Object, desired: Object, subresource: str) -> None:
        try:
            await self._context.client(cluster).update(_path(csr["metadata"]["name"], subresource), desired)
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def _path(name: str, subresource: str = "") -> str:
    return object_path("certificates.k8s.io/v1", "certificatesigningrequests", "", name, subresource)


def _condition_types(csr: Object) -> set[str]:
    return {condition["type"] for condition in (csr.get("status") or {}).get("conditions") or ()}


def _expires(csr: Object, now: datetime) -> datetime:
    """When the request is deleted: a day after its creation, or an hour after the decision."""
    status = csr.get("status") or {}
    conditions = status.get("conditions") or ()
    created = datetime.fromisoformat(csr["metadata"]["creationTimestamp"])
    if not conditions:
        return created + _PENDING_EXPIRATION
    times = [datetime.fromisoformat(c["lastUpdateTime"]) for c in conditions if c.get("lastUpdateTime")]
    return max([created, *times]) + _DECIDED_EXPIRATION


def _request(spec: Object) -> x509.CertificateSigningRequest:
    return x509.load_pem_x509_csr(base64.b64decode(spec["request"]))


def _node_problem(request: x509.CertificateSigningRequest, spec: Object) -> str:
    """Why this is not a valid request for a kubelet client or serving certificate; "" if it is one."""
    signer, usages = spec["signerName"], set(spec.get("usages") or ())
    names = list(_alternative_names(request))
    if organizations(request.subject) != ["system:nodes"]:
        return "subject organization is not system:nodes"
    if signer == KUBELET_SERVING and not any(isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
        return "DNS or IP subjectAltName is required"
    for kind, shown in _FORBIDDEN_NAMES[signer].items():
        if any(isinstance(name, kind) for name in names):
            return f"{shown} subjectAltNames are not allowed"
    if not common_name(request.subject).startswith("system:node:"):
        return "subject common name does not begin with system:node:"
    desired = _NODE_USAGES[signer]
    if usages not in (desired, desired - {"key encipherment"}):
        return f"usages did not match [{' '.join(sorted(desired))}]"
    return ""


def signing_problem(spec: Object) -> str:
    """Why the signer must reject an approved request; "" if it may sign."""
    signer, usages = spec["signerName"], spec.get("usages") or ()
    try:
        request = _request(spec)
    except ValueError as error:
        return f"unable to parse csr: {error}"
    if not request.is_signature_valid:
        return "the request's signature does not match its key"
    if signer in _NODE_USAGES:
        return _node_problem(request, spec)
    if signer == CLIENT:
        unexpected = next((usage for usage in usages if usage not in _CLIENT_USAGES), None)
        if unexpected is not None:
            return f"invalid usage for client certificate: {unexpected}"
        if "client auth" not in usages:
            return "missing required usage for client certificate: client auth"
    return ""


def _alternative_names(request: x509.CertificateSigningRequest) -> Iterable[x509.GeneralName]:
    try:
        return list(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return ()
