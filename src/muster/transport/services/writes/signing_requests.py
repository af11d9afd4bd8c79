"""A signing request of a cluster's agent, or of whoever lets a cluster join: made anew from what an agent has to say.

The hub's API sees our account as the requestor, so who asked is said in an annotation, by the credential's word and never by the
agent's; other annotations and labels are not taken over. For itself an agent asks the signer whose certificates only this transport
takes: it gets no certificate for the hub's API from here. For an addon, which a label names, a registered agent asks whichever
signer the addon has, but that one and those that Kubernetes keeps for itself; who approves such a request judges what is in it.
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
    # Agents that let a name be generated keep as much of the cluster's as fits.
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
