"""A driver of another distribution without a profile: it has only its names, and the defaults for the rest."""

from __future__ import annotations

from typing import Protocol

from muster.registration.drivers.interfaces import Driver, HubContext, HubDriver, SpokeContext, SpokeDriver
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigDriver


class BothSides(Protocol):
    name: str
    aliases: tuple[str, ...]

    def hub(self, context: HubContext) -> HubDriver: ...

    def spoke(self, context: SpokeContext) -> SpokeDriver: ...


def as_driver(driver: Driver | BothSides) -> Driver:
    return driver if isinstance(driver, Driver) else PlainDriver(driver)


class PlainDriver(KubeconfigDriver):
    def __init__(self, driver: BothSides) -> None:
        self.name = driver.name
        self.aliases = tuple(driver.aliases)
        self.endpoints = getattr(driver, "endpoints", KUBECONFIGS)
        self._driver = driver

    def hub(self, context: HubContext) -> HubDriver:
        return self._driver.hub(context)

    def spoke(self, context: SpokeContext) -> SpokeDriver:
        return self._driver.spoke(context)
