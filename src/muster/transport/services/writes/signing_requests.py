"""Certificate signing requests of a cluster's agent, or of a bootstrap identity: created anew from the agent's.

The hub's API records our account as the requestor, so the actual requestor is set as an annotation, from the credential and never
from the agent's object; other annotations and labels are dropped. For itself an agent may use only the signer whose certificates
are for this transport: it gets no certificate for the hub's API here. For an addon, given by a label, a registered agent may use
any signer of the addon, except that one and Kubernetes' own; the approver of such a request checks its content.
"""

from __future__ import annotations

from typing import Final

from muster.api.addon.conversion import KUBE_CLIENT_SIGNER as _CLIENT_SIGNER
from muster.api.addons import ADDON_LABEL, request_prefix
from muster.api.agents import CLUSTER_LABEL, CSR_USER, GRPC_SIGNER, parse_common_name
from muster.kube.names import GENERATED_SUFFIX_LENGTH, dns1123_subdomain
from muster.machinery.objects import Object
from muster.transport.codecs.received import part
from muster.transport.contract.event import InvalidEvent
from muster.transport.services.writes.payload import forbidden, name_of, own_object, without_nulls
from muster.transport.services.writes.request import WriteRequest

_LONGEST_PREFIX: Final = 63 - GENERATED_SUFFIX_LENGTH
_RESERVED: Final = "kubernetes.io/"
_FIELDS: Final = ("request", "signerName", "usages", "expirationSeconds")


async def create(request: WriteRequest) -> None:
    csr = own_object(request)
    name, spec = name_of(csr), without_nulls(part(csr, "spec", dict, "the data"))
    addon = str((csr["metadata"].get("labels") or {}).get(ADDON_LABEL) or "")
    # Agents with generateName keep as much of the cluster's name as fits.
    prefix = (request_prefix(request.cluster, addon) if addon else f"{request.cluster}-")[:_LONGEST_PREFIX]
    if dns1123_subdomain(name) or not name.startswith(prefix) or name == prefix:
        raise InvalidEvent(f"metadata.name {name!r}: {prefix}… is expected, in lower case")
    if problem := _addon_problem(request, spec) if addon else _agent_problem(spec):
        raise forbidden(request.row, name, problem)
    resource = request.row.resource
    metadata = {
        "name": name,
        "labels": {CLUSTER_LABEL: request.cluster, **({ADDON_LABEL: addon} if addon else {})},
        "annotations": {CSR_USER: request.caller.user.name},
    }
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {field: spec[field] for field in _FIELDS if field in spec},
    }
    await request.client.create(resource, body)


def _agent_problem(spec: Object) -> str:
    signer = spec.get("signerName")
    return "" if signer == GRPC_SIGNER else f"spec.signerName is {signer!r}; agents may use {GRPC_SIGNER} only"


def _addon_problem(request: WriteRequest, spec: Object) -> str:
    agent, signer = parse_common_name(request.caller.user.name), str(spec.get("signerName") or "")
    if agent is None or agent.cluster != request.cluster:
        return "only a registered agent of the cluster may request certificates for its addons"
    if signer == GRPC_SIGNER or (signer.startswith(_RESERVED) and signer != _CLIENT_SIGNER):
        return f"spec.signerName is {signer!r}, which signs nothing for addons"
    return ""
