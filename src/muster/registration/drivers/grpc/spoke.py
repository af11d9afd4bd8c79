"""The agent's side: a certificate of the hub's signer for gRPC agents, requested over gRPC.

The request, the renewal and their state are the same for all certificates: `drivers/certificates/certificate_manager.py`. The
certificate is valid only for the hub's gRPC server: nothing that is stored gives access to the hub's API server.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

from muster.api.agents import GRPC_SIGNER
from muster.api.resource import Document
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.certificate_manager import CertificateMachine
from muster.registration.drivers.certificates.signing_requests import SigningRequests
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.grpc.endpoints import CONFIGS, hub_config
from muster.registration.drivers.grpc.options import client_expiration
from muster.registration.drivers.interfaces import SpokeContext, StepResult
from muster.registration.names import DRIVER_ANNOTATION
from muster.runtime.client import KubeClient


class GrpcSpoke:
    def __init__(self, context: SpokeContext) -> None:
        self._profile = agent_profile(context.identity, signer=GRPC_SIGNER, expiration=client_expiration(context.options))
        self._machine = CertificateMachine(self._profile, context.clock, context.random)
        self._directory = context.directory

    def decorate(self, cluster: Document) -> Document:
        """Add this driver's annotation. Our server does so too; upstream's does not, and none does on an existing cluster."""
        marked = copy.deepcopy(cluster)
        marked["metadata"].setdefault("annotations", {})[DRIVER_ANNOTATION] = GRPC
        return marked

    def way_to(self, hub: HubAddress) -> Mapping[str, bytes]:
        return {CONFIGS.key: hub_config(hub, self._directory)}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        return self._machine.problem(stored)

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        return await self._machine.advance(SigningRequests(hub, self._profile), stored, pending, seen)
