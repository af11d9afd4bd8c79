"""What the command line may say to this driver."""

from __future__ import annotations

from typing import Final

from muster.registration.drivers.certificates import options as shared
from muster.registration.drivers.certificates.options import EXPIRATION, listed, refuse_unknown
from muster.registration.drivers.profile import DriverOptions

NAME: Final = "csr"
APPROVED_USERS: Final = "auto-approved-csr-users"
APPROVED_IDENTITIES: Final = "auto-approved-csr-identities"
"""What `init` calls them."""
_KNOWN: Final = (APPROVED_USERS, EXPIRATION)


def approved_users(options: DriverOptions) -> frozenset[str]:
    """Whose first requests the hub approves by itself."""
    refuse_unknown(NAME, options, _KNOWN, (APPROVED_USERS,))
    return listed(options, APPROVED_USERS)


def client_expiration(options: DriverOptions) -> int:
    """For how many seconds an agent asks its certificates to be valid; 0 leaves that to the signer."""
    refuse_unknown(NAME, options, _KNOWN, (EXPIRATION,))
    return shared.client_expiration(NAME, options)
