"""Assembly of the controllers of addons' credentials."""

from __future__ import annotations

from muster.addon.requests import approval, signer, token_infrastructure
from muster.addon.requests.approval import AddonApprover
from muster.addon.requests.options import RequestOptions
from muster.addon.requests.registrations import RegistrationsOf
from muster.addon.requests.signer import AddonSigner
from muster.addon.requests.token_infrastructure import TokenInfrastructure
from muster.runtime.controller import ControllerContext, Runnable


def request_controllers(
    context: ControllerContext, registrations: RegistrationsOf, options: RequestOptions | None = None
) -> dict[str, Runnable]:
    """By name, for `Manager.add_controllers`."""
    options = options or RequestOptions()
    return {
        approval.NAME: AddonApprover(context, registrations, options),
        signer.NAME: AddonSigner(context, registrations, options),
    }


def token_controllers(context: ControllerContext) -> dict[str, Runnable]:
    """Controllers of service accounts for all addons of a hub, whichever process manages them."""
    return {token_infrastructure.NAME: TokenInfrastructure(context)}
