"""The options of this driver on the command line."""

from __future__ import annotations

from typing import Final

from muster.registration.drivers.certificates import options as shared
from muster.registration.drivers.certificates.options import EXPIRATION, listed, refuse_unknown
from muster.registration.drivers.profile import DriverOptions

NAME: Final = "csr"
APPROVED_USERS: Final = "auto-approved-csr-users"
APPROVED_IDENTITIES: Final = "auto-approved-csr-identities"
"""The name of this option in `clusteradm init`."""
_KNOWN: Final = (APPROVED_USERS, EXPIRATION)


def approved_users(options: DriverOptions) -> frozenset[str]:
    """The users whose first requests the hub approves automatically."""
    refuse_unknown(NAME, options, _KNOWN, (APPROVED_USERS,))
    return listed(options, APPROVED_USERS)


def client_expiration(options: DriverOptions) -> int:
    """The requested validity of agents' certificates in seconds; 0 leaves it to the signer."""
    refuse_unknown(NAME, options, _KNOWN, (EXPIRATION,))
    return shared.client_expiration(NAME, options)
