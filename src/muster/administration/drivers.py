"""Registration drivers as `init` and `join` are asked for: what nobody answers to is refused, what a driver refuses is told."""

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
    """Raises AdministrationError, naming those who are there."""
    try:
        return find(name)
    except DriverError as error:
        raise AdministrationError(f"{flag}: {error}", "choose one of these, or install the distribution that brings it") from None


@contextmanager
def fitting() -> Iterator[None]:
    """What a driver cannot be set up with is an AdministrationError."""
    try:
        yield
    except Unfit as error:
        raise AdministrationError(str(error), error.remedy) from None


def aws_driver(configured: Iterable[HubRegistrationDriver]) -> AwsIrsaHubDriver | None:
    """What a ClusterManager's drivers say of registration by AWS identities; None where that is not among them."""
    return next((one.awsirsa for one in configured if one.awsirsa is not None), None)


def identity_marks(identity: str, configured: Sequence[HubRegistrationDriver]) -> Mapping[str, str]:
    """The annotations by which a cluster of this identity is known on a hub that is set up so. Raises Unfit where none of its
    drivers has identities."""
    for entry in configured:
        profile = profile_of(entry.auth_type)
        if profile is not None and (marks := profile.identity_marks(identity, entry)):
            return marks
    raise Unfit("--managed-cluster-arn: no registration driver of this hub knows clusters by an ARN", "enable awsirsa: see init")


def refuse_unheard(options: Mapping[str, DriverOptions], drivers: Sequence[Driver], flags: Sequence[Flag], choice: str) -> None:
    """Raises AdministrationError when something is said to a driver that is not chosen, other than by flags of its own: those are
    passed over, as by OCM's tool."""
    chosen = {name for driver in drivers for name in (driver.name, *driver.aliases)}
    passed_over = {(flag.driver, flag.option) for flag in flags}
    for name, values in options.items():
        if name not in chosen and any((name, option) not in passed_over for option in values):
            raise AdministrationError(f"--driver-option: {name!r} is none of the given drivers", f"add it with {choice}")
