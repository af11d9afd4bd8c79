"""The progress of a fleet as its process last wrote it, for commands that cannot query the hub yet."""

from __future__ import annotations

from typing import Literal

import msgspec

from muster.fleet.local.directory import HUB, FleetDirectory
from muster.machinery.privatefiles import replace_private

State = Literal["Waiting", "Starting", "Joining", "Available", "Leaving", "Failed"]


class MemberStatus(msgspec.Struct, frozen=True):
    state: State
    reason: str = ""


class FleetStatus(msgspec.Struct, frozen=True):
    """The content of `status.json`."""

    pid: int
    url: str
    hub: MemberStatus
    clusters: dict[str, MemberStatus]
    aws: str = ""
    """The URL of the local AWS, if there is one."""

    @property
    def members(self) -> dict[str, MemberStatus]:
        return {HUB: self.hub, **self.clusters}

    @property
    def problems(self) -> dict[str, str]:
        """Problems by cluster; empty if there are none."""
        return {name: one.reason or one.state for name, one in self.members.items() if one.state != "Available"}


def write_status(directory: FleetDirectory, status: FleetStatus) -> None:
    replace_private(directory.status, msgspec.json.encode(status))


def read_status(directory: FleetDirectory) -> FleetStatus | None:
    """The status that the fleet's process wrote last; the process may have ended since."""
    try:
        return msgspec.json.decode(directory.status.read_bytes(), type=FleetStatus)
    except (OSError, msgspec.DecodeError):
        return None
