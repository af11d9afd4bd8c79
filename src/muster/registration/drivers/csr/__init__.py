"""Registration by certificate signing request: the hub's own certificate authority signs the agent's certificate.

`spoke.py` requests, and `hub.py` votes on acceptance. Requests, certificates, their renewal and the automatic approval are in
`drivers/certificates/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster.machinery.authorization import AccessAttributes
from muster.registration.drivers.certificates.options import expiration_arguments
from muster.registration.drivers.csr.options import APPROVED_IDENTITIES, APPROVED_USERS, NAME
from muster.registration.drivers.kubeconfigs import KubeconfigDriver
from muster.registration.drivers.profile import HubSetup, Process, carrying
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import REGISTER_GROUP
from muster.runtime.auth import rights
from muster.runtime.client.builtin import SIGNING_REQUESTS

if TYPE_CHECKING:
    from muster.api.operator.v1 import HubRegistrationDriver, SpokeRegistrationConfiguration
    from muster.registration.drivers.interfaces import HubContext, HubDriver, SpokeContext, SpokeDriver
    from muster.registration.drivers.profile import DriverOptions


class CsrDriver(KubeconfigDriver):
    """The driver; each side is imported only when it is used, because an agent does not need the hub's."""

    name = NAME
    certificates = True
    kubernetes_signs = True

    def hub(self, context: HubContext) -> HubDriver:
        from muster.registration.drivers.csr.hub import CsrHub

        return CsrHub(context)

    def spoke(self, context: SpokeContext) -> SpokeDriver:
        from muster.registration.drivers.csr.spoke import CsrSpoke

        return CsrSpoke(context)

    def bootstrap_rights(self) -> tuple[AccessAttributes, ...]:
        return rights(SIGNING_REQUESTS.group, SIGNING_REQUESTS.plural, "create", "get", "list", "watch")

    def agent_rights(self) -> tuple[AccessAttributes, ...]:
        return (
            *rights(SIGNING_REQUESTS.group, SIGNING_REQUESTS.plural, "get", "list", "watch"),
            *rights(REGISTER_GROUP, MANAGED_CLUSTERS.plural, "renew", subresource="clientcertificates"),
        )

    def hub_process(self, entry: HubRegistrationDriver) -> Process:
        users = entry.csr.auto_approved_identities if entry.csr is not None else ()
        return Process((*(f"--{APPROVED_USERS}={user}" for user in users), *super().hub_process(entry).arguments))

    def agent_process(self, configured: SpokeRegistrationConfiguration) -> Process:
        return Process((*expiration_arguments(configured), *super().agent_process(configured).arguments))

    def hub_setup(self, options: DriverOptions) -> HubSetup:
        identities = list(options.get(APPROVED_IDENTITIES, ()))
        own = {NAME: {"autoApprovedIdentities": identities}} if identities else {}
        return HubSetup({**own, **carrying(options, APPROVED_IDENTITIES)})


DRIVER: Final = CsrDriver()
