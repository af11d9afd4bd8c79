"""Signing requests of gRPC agents, and which requester is trusted.

The API server records the gRPC server as the requester of everything that comes over gRPC; the server puts the agent's user into an
annotation. Every client that may create signing requests can write that annotation, so it is trusted only on requests of the
server's own account. The requester of any other request is treated as unknown: it is never approved automatically, although the API
server authenticated the client, because the gRPC server's check was skipped (may this identity create a cluster of this name?). An
administrator may approve it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.api.agents import CSR_USER, GRPC_SIGNER, parse_common_name
from muster.machinery.authentication import AUTHENTICATED, UserInfo
from muster.registration.drivers.certificates.agents import AgentRequest, read_request

UNKNOWN: Final = UserInfo("")
_ACCOUNT: Final = "system:serviceaccount:"


def read_grpc_request(csr: Mapping[str, Any], accounts: frozenset[str]) -> AgentRequest:
    """Parse a request; `accounts` are those of the hub's gRPC servers. Raises NotAnAgentsRequest."""
    return read_request(csr, GRPC_SIGNER, requester_of(csr, accounts))


def requester_of(csr: Mapping[str, Any], accounts: frozenset[str]) -> UserInfo:
    """The user for whom the gRPC server made a request, with the groups that follow from the name; UNKNOWN for other requests."""
    if (csr.get("spec") or {}).get("username") not in accounts:
        return UNKNOWN
    name = str(((csr.get("metadata") or {}).get("annotations") or {}).get(CSR_USER) or "")
    return UserInfo(name, groups=(*_groups(name), AUTHENTICATED)) if name else UNKNOWN


def _groups(name: str) -> tuple[str, ...]:
    """The user's groups: an agent's are in the certificate that has its name; a service account's follow from its namespace."""
    agent = parse_common_name(name)
    if agent is not None:
        return tuple(sorted(agent.organizations))
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if name.startswith(_ACCOUNT) and namespace and account:
        return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return ()
