"""Options that all drivers with certificates share, parsed from the command line."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from muster.registration.drivers.certificates.agents import SHORTEST_EXPIRATION
from muster.registration.drivers.errors import BadField, DriverConfigError
from muster.registration.drivers.profile import DriverOptions

if TYPE_CHECKING:
    from muster.api.operator.v1 import SpokeRegistrationConfiguration

EXPIRATION: Final = "client-cert-expiration-seconds"


def listed(options: DriverOptions, name: str) -> frozenset[str]:
    """The values of an option; commas separate values."""
    return frozenset(part.strip() for value in options.get(name, ()) for part in value.split(",") if part.strip())


def client_expiration(driver: str, options: DriverOptions) -> int:
    """The requested validity of agents' certificates in seconds; 0 leaves it to the signer."""
    values = options.get(EXPIRATION) or ("0",)
    try:
        seconds = int(values[-1])
    except ValueError:
        raise DriverConfigError(driver, EXPIRATION, f"expected a number of seconds, found {values[-1]!r}") from None
    if seconds and not SHORTEST_EXPIRATION <= seconds < 2**31:
        raise DriverConfigError(driver, EXPIRATION, f"expected 0 (the signer decides) or at least {SHORTEST_EXPIRATION}")
    return seconds


def expiration_arguments(configured: SpokeRegistrationConfiguration) -> tuple[str, ...]:
    """The flags by which an operator passes this field of a Klusterlet to an agent. Raises BadField."""
    seconds = configured.client_cert_expiration_seconds
    if 0 != seconds < SHORTEST_EXPIRATION:
        problem = f"{seconds} is too short: certificates live {SHORTEST_EXPIRATION} seconds or longer"
        raise BadField("clientCertExpirationSeconds", problem)
    return (f"--{EXPIRATION}={seconds}",) if seconds else ()


def refuse_unknown(driver: str, options: DriverOptions, known: Collection[str], offered: Collection[str]) -> None:
    """Raise DriverConfigError for an unknown option; `known` has the options of both sides of the driver, `offered` those of this
    side.
    """
    for name in options:
        if name not in known:
            there_is = ", ".join(f"--{one}" for one in offered)
            raise DriverConfigError(driver, name, f"there is no such option here; there is {there_is}")
