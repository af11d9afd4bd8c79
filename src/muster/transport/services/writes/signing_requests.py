"""A signing request of a cluster's agent, or of whoever lets a cluster join: made anew from what an agent has to say.

The hub's API sees our account as the requestor, so who asked is said in an annotation, by the credential's word and never by the
agent's; other annotations and labels are not taken over. The signer is the one whose certificates only this transport takes: an
agent gets no certificate for the hub's API from here.
"""

from __future__ import annotations

from typing import Final

from muster.api.agents import CLUSTER_LABEL, CSR_USER, GRPC_SIGNER
from muster.kube.names import GENERATED_SUFFIX_LENGTH, dns1123_subdomain
from muster.transport.codecs.reading import part
from muster.transport.contract.event import InvalidEvent
from muster.transport.services.writes.payload import forbidden, name_of, own_object, without_nulls
from muster.transport.services.writes.request import WriteRequest

_LONGEST_PREFIX: Final = 63 - GENERATED_SUFFIX_LENGTH
_FIELDS: Final = ("request", "signerName", "usages", "expirationSeconds")


async def create(request: WriteRequest) -> None:
    csr = own_object(request)
    name, spec = name_of(csr), without_nulls(part(csr, "spec", dict, "the data"))
    # Agents that let a name be generated keep as much of the cluster's as fits.
    prefix = f"{request.cluster}-"[:_LONGEST_PREFIX]
    if dns1123_subdomain(name) or not name.startswith(prefix) or name == prefix:
        raise InvalidEvent(f"metadata.name {name!r}: {prefix}… is expected, in lower case")
    if spec.get("signerName") != GRPC_SIGNER:
        raise forbidden(request.row, name, f"spec.signerName is {spec.get('signerName')!r}; agents ask {GRPC_SIGNER} only")
    resource = request.row.resource
    metadata = {
        "name": name,
        "labels": {CLUSTER_LABEL: request.cluster},
        "annotations": {CSR_USER: request.caller.user.name},
    }
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {field: spec[field] for field in _FIELDS if field in spec},
    }
    await request.client.create(resource, body)
