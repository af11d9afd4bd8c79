"""Errors of drivers: an unknown driver, an unusable one, or invalid options.

Each names the flag, option or field to correct, and the remedy if there is one.
"""

from __future__ import annotations


class DriverError(Exception):
    """Registration cannot work with the requested drivers; the message names what to correct."""


class DriverConfigError(DriverError):
    """A driver rejects these options; `option` is the one to correct."""

    def __init__(self, driver: str, option: str, problem: str) -> None:
        super().__init__(f"registration driver {driver}: --{option}: {problem}")
        self.driver = driver
        self.option = option
        self.problem = problem


class UnknownDriver(DriverError):
    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no registration driver {name!r}; there are: {', '.join(known)}")
        self.name = name
        self.known = known


class BrokenDriver(DriverError):
    """A driver of another distribution that is installed but cannot be used."""

    def __init__(self, name: str, distribution: str, problem: str) -> None:
        super().__init__(f"registration driver {name!r} of distribution {distribution} cannot be used: {problem}")
        self.name = name
        self.distribution = distribution
        self.problem = problem


class DriverOptionError(DriverError):
    """A `--driver-option` that is not DRIVER.OPTION=VALUE."""

    def __init__(self, text: str) -> None:
        super().__init__(f"--driver-option {text!r}: expected DRIVER.OPTION=VALUE")
        self.text = text


class BadField(DriverError):
    """An invalid field of a ClusterManager or Klusterlet; `field` is its path below the object that was parsed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Unfit(DriverError):
    """Flags of `init` or `join` that are invalid for a driver; the message names them."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy
