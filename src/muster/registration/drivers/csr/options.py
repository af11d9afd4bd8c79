"""What the command line may say to this driver."""

from __future__ import annotations

from typing import Final

from muster.registration.drivers.certificates.agents import SHORTEST_EXPIRATION
from muster.registration.drivers.profile import DriverOptions
from muster.registration.drivers.seam import DriverConfigError

NAME: Final = "csr"
APPROVED_USERS: Final = "auto-approved-csr-users"
APPROVED_IDENTITIES: Final = "auto-approved-csr-identities"
"""What `init` calls them."""
EXPIRATION: Final = "client-cert-expiration-seconds"


def approved_users(options: DriverOptions) -> frozenset[str]:
    """Whose first requests the hub approves by itself; several in one value are parted by commas."""
    _known(options, APPROVED_USERS)
    return frozenset(user.strip() for value in options.get(APPROVED_USERS, ()) for user in value.split(",") if user.strip())


def client_expiration(options: DriverOptions) -> int:
    """For how many seconds an agent asks its certificates to be valid; 0 leaves that to the signer."""
    _known(options, EXPIRATION)
    values = options.get(EXPIRATION) or ("0",)
    try:
        seconds = int(values[-1])
    except ValueError:
        raise DriverConfigError(NAME, EXPIRATION, f"expected a number of seconds, found {values[-1]!r}") from None
    if seconds and not SHORTEST_EXPIRATION <= seconds < 2**31:
        raise DriverConfigError(NAME, EXPIRATION, f"expected 0 (the signer decides) or at least {SHORTEST_EXPIRATION}")
    return seconds


def _known(options: DriverOptions, name: str) -> None:
    for other in options:
        if other not in (APPROVED_USERS, EXPIRATION):
            raise DriverConfigError(NAME, other, f"there is no such option here; there is --{name}")
