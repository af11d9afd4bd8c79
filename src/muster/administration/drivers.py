"""Registration drivers for `init` and `join`: unknown drivers and rejected options become errors for the administrator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from muster.administration.errors import AdministrationError
from muster.api.operator.v1 import AwsIrsaHubDriver, HubRegistrationDriver
from muster.registration.drivers import DriverError, find, profile_of
from muster.registration.drivers.errors import Unfit
from muster.registration.drivers.flags import Flag
from muster.registration.drivers.interfaces import Driver
from muster.registration.drivers.profile import DriverOptions


def installed_driver(name: str, flag: str) -> Driver:
    """The driver of this name. Raises AdministrationError, which lists the installed ones."""
    try:
        return find(name)
    except DriverError as error:
        raise AdministrationError(f"{flag}: {error}", "choose one of these, or install the distribution that brings it") from None


@contextmanager
def fitting() -> Iterator[None]:
    """Turn a driver's Unfit into an AdministrationError."""
    try:
        yield
    except Unfit as error:
        raise AdministrationError(str(error), error.remedy) from None


def aws_driver(configured: Iterable[HubRegistrationDriver]) -> AwsIrsaHubDriver | None:
    """The ClusterManager's entry for registration by AWS identities; None if it has none."""
    return next((one.awsirsa for one in configured if one.awsirsa is not None), None)


def identity_marks(identity: str, configured: Sequence[HubRegistrationDriver]) -> Mapping[str, str]:
    """The annotations of a cluster with this identity on a hub with these drivers. Raises Unfit if none of them has identities."""
    for entry in configured:
        profile = profile_of(entry.auth_type)
        if profile is not None and (marks := profile.identity_marks(identity, entry)):
            return marks
    raise Unfit("--managed-cluster-arn: no registration driver of this hub knows clusters by an ARN", "enable awsirsa: see init")


def refuse_unheard(options: Mapping[str, DriverOptions], drivers: Sequence[Driver], flags: Sequence[Flag], choice: str) -> None:
    """Raises AdministrationError for options of a driver that is not selected; a driver's own flags are ignored then, as in OCM's
    tool.
    """
    chosen = {name for driver in drivers for name in (driver.name, *driver.aliases)}
    passed_over = {(flag.driver, flag.option) for flag in flags}
    for name, values in options.items():
        if name not in chosen and any((name, option) not in passed_over for option in values):
            raise AdministrationError(f"--driver-option: {name!r} is none of the given drivers", f"add it with {choice}")
