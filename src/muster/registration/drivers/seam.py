"""The former name of `interfaces`, for drivers of other distributions that import it; new ones import `interfaces`."""

from __future__ import annotations

from muster.registration.drivers.interfaces import NOTHING_TO_DO as NOTHING_TO_DO
from muster.registration.drivers.interfaces import AcceptanceContext as Accepting
from muster.registration.drivers.interfaces import AccountToken as AccountToken
from muster.registration.drivers.interfaces import CredentialReport as Report
from muster.registration.drivers.interfaces import Driver as Driver
from muster.registration.drivers.interfaces import DriverConfigError as DriverConfigError
from muster.registration.drivers.interfaces import DriverError as DriverError
from muster.registration.drivers.interfaces import GrantResult as Outcome
from muster.registration.drivers.interfaces import GrantStep as Step
from muster.registration.drivers.interfaces import HubContext as HubContext
from muster.registration.drivers.interfaces import HubDriver as HubDriver
from muster.registration.drivers.interfaces import SpokeContext as SpokeContext
from muster.registration.drivers.interfaces import SpokeDriver as SpokeDriver
from muster.registration.drivers.interfaces import StepResult as Progress
from muster.registration.drivers.interfaces import Undo as Undo
from muster.registration.drivers.interfaces import Vote as Vote
from muster.registration.drivers.interfaces import WatchTarget as Watched
from muster.registration.drivers.interfaces import is_derived as is_derived

__all__ = [
    "NOTHING_TO_DO",
    "Accepting",
    "AccountToken",
    "Driver",
    "DriverConfigError",
    "DriverError",
    "HubContext",
    "HubDriver",
    "Outcome",
    "Progress",
    "Report",
    "SpokeContext",
    "SpokeDriver",
    "Step",
    "Undo",
    "Vote",
    "Watched",
    "is_derived",
]
