"""Ways of proving an agent's identity, found by name: ours, and those that other distributions bring by entry point.

A distribution brings one by an entry point in the group `muster.registration.drivers`: its name is the driver's, and it points to
an object that is a `seam.Driver`, or to a class that makes one without arguments. Nothing is imported before it is asked for. Our
own names cannot be taken by others. A plug-in that cannot be loaded is an error for whoever asks for it, and for nobody else.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from muster.machinery.logs import get_logger
from muster.registration.drivers.seam import Driver, DriverError, DriverOptions

log = get_logger("muster.registration.drivers")

GROUP: Final = "muster.registration.drivers"
BUILT_IN: Final[Mapping[str, str]] = {"csr": "muster.registration.drivers.csr:DRIVER"}
"""Where each of ours is, by every name it goes by."""

__all__ = ["GROUP", "BrokenDriver", "DriverError", "DriverOptionError", "UnknownDriver", "available", "driver_options", "find"]


class UnknownDriver(DriverError):
    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no registration driver {name!r}; there are: {', '.join(known)}")
        self.name = name
        self.known = known


class BrokenDriver(DriverError):
    """A driver of another distribution that is there but of no use."""

    def __init__(self, name: str, distribution: str, problem: str) -> None:
        super().__init__(f"registration driver {name!r} of distribution {distribution} cannot be used: {problem}")
        self.name = name
        self.distribution = distribution
        self.problem = problem


class DriverOptionError(DriverError):
    """A `--driver-option` that is not NAME.KEY=VALUE."""

    def __init__(self, text: str) -> None:
        super().__init__(f"--driver-option {text!r}: expected DRIVER.OPTION=VALUE")
        self.text = text


def available() -> tuple[str, ...]:
    """The names that `find` knows, without loading anything; a plug-in's further names are known to itself alone."""
    return tuple(sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))}))


def find(name: str) -> Driver:
    """Raises UnknownDriver or BrokenDriver."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast(Driver, getattr(importlib.import_module(module), attribute))
    others = [point for point in entry_points(group=GROUP) if point.name not in BUILT_IN]
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


def driver_options(settings: Iterable[str]) -> dict[str, DriverOptions]:
    """Settings DRIVER.OPTION=VALUE by driver; what is said several times keeps all its values. Raises DriverOptionError."""
    options: dict[str, dict[str, tuple[str, ...]]] = {}
    for setting in settings:
        place, assigned, value = setting.partition("=")
        driver, dotted, option = place.partition(".")
        if not (assigned and dotted and driver and option):
            raise DriverOptionError(setting)
        own = options.setdefault(driver, {})
        own[option] = (*own.get(option, ()), value)
    return dict(options)


def _load(point: EntryPoint) -> Driver:
    try:
        loaded = point.load()
        driver = loaded() if isinstance(loaded, type) else loaded
    except (Exception, SystemExit) as error:
        # Somebody else's code: whatever it raises, it is that driver's problem.
        raise BrokenDriver(point.name, _distribution(point), f"{type(error).__name__}: {error}") from error
    missing = [part for part in ("name", "aliases", "hub", "spoke") if not hasattr(driver, part)]
    if missing:
        raise BrokenDriver(point.name, _distribution(point), f"{point.value} has no {', no '.join(missing)}")
    return cast(Driver, driver)


def _load_quietly(point: EntryPoint) -> Driver | None:
    try:
        return _load(point)
    except BrokenDriver as error:
        log.warning("passing over a registration driver", driver=error.name, distribution=error.distribution, error=error.problem)
        return None


def _distribution(point: EntryPoint) -> str:
    return "(unknown)" if point.dist is None else f"{point.dist.name} {point.dist.version}"
