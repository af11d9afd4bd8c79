"""Who may approve and sign certificate requests: permissions on the signer, in addition to those on the request object.

Approval needs the verb `approve`, writing a certificate or a condition the verb `sign`, on the resource `signers` with the name of
the signer or `domain/*`. The signer for API server clients issues no certificate for the group system:masters.
"""

from __future__ import annotations

import base64
from typing import Final

from cryptography import x509

from muster.apiserver.admission.attributes import AdmissionAttributes, new_forbidden
from muster.apiserver.admission.chain import Operation
from muster.apiserver.context import Context
from muster.apiserver.registry.resource import ServedResource
from muster.kube.certificates import organizations
from muster.machinery.authentication import MASTERS
from muster.machinery.authorization import AccessAttributes
from muster.machinery.golang.quoting import quote
from muster.machinery.objects import Object

_GROUP: Final = "certificates.k8s.io"
_CSRS: Final = f"{_GROUP}/certificatesigningrequests"
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"


class SignerPermissions:
    async def validate(self, ctx: Context, resource: ServedResource, operation: Operation) -> None:
        if resource.storage != _CSRS:
            return
        new, old = operation.new, operation.old
        if operation.name == "CREATE" and new is not None:
            if new["spec"].get("signerName") == _CLIENT and MASTERS in _organizations(new):
                text = f"use of {_CLIENT} signer with {MASTERS} group is not allowed"
                raise new_forbidden(AdmissionAttributes(ctx, resource, operation), text)
        elif operation.name == "UPDATE" and new is not None and old is not None:
            if ctx.subresource == "approval":
                self._check(ctx, resource, operation, old, "approve")
            elif ctx.subresource == "status" and _signed(new) != _signed(old):
                self._check(ctx, resource, operation, old, "sign")

    @staticmethod
    def _check(ctx: Context, resource: ServedResource, operation: Operation, old: Object, verb: str) -> None:
        signer = old["spec"].get("signerName", "")
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            if ctx.cluster.rules.authorize(ctx.user, AccessAttributes(verb, _GROUP, "*", "signers", name=name)).allowed:
                return
        text = f"user not permitted to {verb} requests with signerName {quote(signer)}"
        raise new_forbidden(AdmissionAttributes(ctx, resource, operation), text)


def _organizations(csr: Object) -> list[str]:
    request = x509.load_pem_x509_csr(base64.b64decode(csr["spec"]["request"]))
    return organizations(request.subject)


def _signed(csr: Object) -> tuple[object, object]:
    status = csr.get("status") or {}
    return status.get("certificate"), status.get("conditions") or []
