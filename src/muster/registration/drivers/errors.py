"""What can be wrong with drivers: that there is none, that it is of no use, or that what it was told does not do.

Each says which flag, option or field of a spec it is about, and where it can, the remedy.
"""

from __future__ import annotations


class DriverError(Exception):
    """Registration cannot work with the drivers as they were asked for; the message says what to correct."""


class DriverConfigError(DriverError):
    """A driver cannot work with these options; `option` is the one to correct."""

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


class BadField(DriverError):
    """A field of a ClusterManager or Klusterlet that a driver can make nothing of; `field` is its path below what was read."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class Unfit(DriverError):
    """Flags of `init` or `join` that do not do for a driver; the text names them."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy
