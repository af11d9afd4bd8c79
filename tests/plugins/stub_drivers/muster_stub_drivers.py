"""Answers to the names that Muster has profiles for and no drivers, so that what is checked and written for them shows."""

from __future__ import annotations

from typing import NoReturn

from muster.registration.drivers.awsirsa import AwsIrsaProfile
from muster.registration.drivers.kubeconfigs import KubeconfigDriver
from muster.registration.drivers.seam import DriverConfigError, HubContext, SpokeContext


class Stub(KubeconfigDriver):
    def hub(self, context: HubContext) -> NoReturn:
        raise DriverConfigError(self.name, "enabled-registration-drivers", "nothing can be registered by a stub")

    def spoke(self, context: SpokeContext) -> NoReturn:
        raise DriverConfigError(self.name, "registration-auth", "nothing can be registered by a stub")


class AwsIrsa(AwsIrsaProfile, Stub):
    """The profile is ours."""
