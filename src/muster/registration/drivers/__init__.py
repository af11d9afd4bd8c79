"""Registration drivers, found by name: the built-in ones, and those that other distributions add by an entry point.

The entry point is in the group `muster.registration.drivers`: its name is the driver's name, and it points to an object that is an
`interfaces.Driver`, or to a class that is called without arguments to make one. A driver is imported only when it is requested. A
plug-in cannot take the name of a built-in driver. A plug-in that cannot be loaded is an error only where it is requested.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from muster.machinery.logs import get_logger
from muster.registration.drivers.errors import BrokenDriver, DriverError, DriverOptionError, UnknownDriver
from muster.registration.drivers.flags import AWS, CSR, DEFAULT, GRPC

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from muster.registration.drivers.endpoints import EndpointFormat
    from muster.registration.drivers.interfaces import Driver
    from muster.registration.drivers.profile import DriverOptions, HubRules, Profile

log = get_logger("muster.registration.drivers")

GROUP: Final = "muster.registration.drivers"
BUILT_IN: Final[Mapping[str, str]] = {
    AWS: "muster.registration.drivers.awsirsa.driver:DRIVER",
    CSR: "muster.registration.drivers.csr:DRIVER",
    GRPC: "muster.registration.drivers.grpc:DRIVER",
}
"""The module of each built-in driver."""
ALIASES: Final[Mapping[str, str]] = {"aws-irsa": AWS}
"""Aliases of built-in drivers; a plug-in has its aliases itself (`Driver.aliases`)."""

__all__ = [
    "DEFAULT",
    "GROUP",
    "BrokenDriver",
    "DriverError",
    "DriverOptionError",
    "UnknownDriver",
    "available",
    "driver_options",
    "endpoints_named",
    "endpoints_of",
    "find",
    "options_of",
    "profile_of",
    "profile_rules",
    "profiles",
]


def available() -> tuple[str, ...]:
    """The names that `find` accepts, without loading a driver; without the aliases of plug-ins, which are known only once they are
    loaded.
    """
    return tuple(sorted({*BUILT_IN, *(point.name for point in _points())}))


def find(name: str) -> Driver:
    """The driver of this name or alias. Raises UnknownDriver or BrokenDriver."""
    if (location := BUILT_IN.get(ALIASES.get(name, name))) is not None:
        return cast("Driver", _imported(location))
    others = _others()
    named = {point.value: point for point in others if point.name == name}
    if len(named) > 1:
        raise BrokenDriver(name, " and ".join(_distribution(point) for point in named.values()), "both bring one of this name")
    if named:
        return _load(next(iter(named.values())))
    aliased = (driver for driver in map(_load_quietly, others) if driver is not None and name in driver.aliases)
    found = next(aliased, None)
    if found is None:
        raise UnknownDriver(name, available())
    return found


def profiles() -> tuple[Profile, ...]:
    """The profiles of all installed drivers that can be loaded; the default driver's comes last."""
    found: dict[str, Profile] = {}
    for driver in map(_load_quietly, _others()):
        if driver is not None and driver.name not in BUILT_IN:
            found.setdefault(driver.name, driver)
    return (*found.values(), *(find(name) for name in BUILT_IN if name != DEFAULT), find(DEFAULT))


def profile_of(name: str) -> Profile | None:
    """The profile of the driver of this name or alias; None if there is none."""
    return next((profile for profile in profiles() if name in (profile.name, *profile.aliases)), None)


def endpoints_of(name: str) -> EndpointFormat:
    """The endpoint format of a driver; an unknown driver is assumed to use kubeconfigs, as most do.

    Other checks report unknown drivers.
    """
    from muster.registration.drivers.kubeconfigs import KUBECONFIGS

    try:
        return find(name).endpoints
    except DriverError:
        return KUBECONFIGS


def endpoints_named(source: str) -> EndpointFormat | None:
    """The endpoint format whose name a work agent's `--workload-source-driver` gives; None if no driver has it."""
    from muster.registration.drivers.kubeconfigs import KUBECONFIGS

    if source == KUBECONFIGS.name:
        return KUBECONFIGS
    return next((found for found in map(endpoints_of, available()) if found.name == source), None)


def driver_options(settings: Iterable[str]) -> dict[str, DriverOptions]:
    """Settings DRIVER.OPTION=VALUE by driver; a repeated option keeps all its values. Raises DriverOptionError."""
    options: dict[str, dict[str, tuple[str, ...]]] = {}
    for setting in settings:
        location, assigned, value = setting.partition("=")
        driver, dotted, option = location.partition(".")
        if not (assigned and dotted and driver and option):
            raise DriverOptionError(setting)
        own = options.setdefault(driver, {})
        own[option] = (*own.get(option, ()), value)
    return dict(options)


def options_of(driver: Profile, options: Mapping[str, DriverOptions]) -> DriverOptions:
    """The options that were set for this driver under any of its names."""
    called = (options.get(name, {}) for name in dict.fromkeys((driver.name, *driver.aliases)))
    return {option: values for own in called for option, values in own.items()}


def profile_rules(name: str, options: Mapping[str, DriverOptions]) -> HubRules:
    """The RBAC rules that the hub's controllers need for this driver with these options. Raises DriverError."""
    driver = find(name)
    return driver.hub_rules(options_of(driver, options))


def _imported(location: str) -> Any:
    module, _, attribute = location.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _others() -> list[EntryPoint]:
    return [point for point in _points() if point.name not in BUILT_IN and point.name not in ALIASES]


def _points() -> EntryPoints:
    # Imported late, because it is not needed for every --help.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _load(point: EntryPoint) -> Driver:
    try:
        loaded = point.load()
        driver = loaded() if isinstance(loaded, type) else loaded
    except (Exception, SystemExit) as error:
        # Code of another distribution: any exception becomes an error of that driver.
        raise BrokenDriver(point.name, _distribution(point), f"{type(error).__name__}: {error}") from error
    from muster.registration.drivers.plain import as_driver

    missing = [part for part in ("name", "aliases", "hub", "spoke") if not hasattr(driver, part)]
    if missing:
        raise BrokenDriver(point.name, _distribution(point), f"{point.value} has no {', no '.join(missing)}")
    return as_driver(driver)


def _load_quietly(point: EntryPoint) -> Driver | None:
    try:
        return _load(point)
    except BrokenDriver as error:
        log.warning("passing over a registration driver", driver=error.name, distribution=error.distribution, error=error.problem)
        return None


def _distribution(point: EntryPoint) -> str:
    return "(unknown)" if point.dist is None else f"{point.dist.name} {point.dist.version}"
