"""The agent's side: a certificate of the signer for API clients, by a CertificateSigningRequest on the hub.

The request, the renewal and their state are the same for all certificates: `drivers/certificates/certificate_manager.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.api.resource import Document
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.certificate_manager import CertificateMachine
from muster.registration.drivers.certificates.signing_requests import SigningRequests
from muster.registration.drivers.csr.options import NAME, client_expiration
from muster.registration.drivers.interfaces import SpokeContext, StepResult
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigSpoke, program_of
from muster.registration.names import DRIVER_ANNOTATION
from muster.runtime.client import KubeClient


class CsrSpoke(KubeconfigSpoke):
    def __init__(self, context: SpokeContext) -> None:
        self._profile = agent_profile(context.identity, expiration=client_expiration(context.options))
        self._machine = CertificateMachine(self._profile, context.clock, context.random)

    def decorate(self, cluster: Document) -> Document:
        """Remove the annotations of our other drivers, with which the cluster may have registered before."""
        annotations = (cluster.get("metadata") or {}).get("annotations") or {}
        if annotations.get(DRIVER_ANNOTATION, NAME) == NAME:
            return cluster
        kept = {key: value for key, value in annotations.items() if key != DRIVER_ANNOTATION}
        return {**cluster, "metadata": {**cluster["metadata"], "annotations": kept}}

    def kubeconfig_user(self) -> Document:
        return {"client-certificate": self._profile.certificate_entry, "client-key": self._profile.key_entry}

    def problem(self, stored: Mapping[str, bytes]) -> str:
        return self._machine.problem(_own(stored))

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        return await self._machine.advance(SigningRequests(hub, self._profile), _own(stored), pending, seen)


def _own(stored: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The stored entries, unless the kubeconfig there has an exec plugin: then another driver wrote it last, and an old certificate
    beside it is not the credential in use.
    """
    return {} if program_of(stored.get(KUBECONFIGS.key, b"")) is not None else stored
