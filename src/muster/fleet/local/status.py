"""How far a fleet is, as its process last wrote it: for those who cannot ask the hub, or want to know what is being done."""

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
    """What `status.json` has."""

    pid: int
    url: str
    hub: MemberStatus
    clusters: dict[str, MemberStatus]
    aws: str = ""
    """Where the local AWS is, if there is one."""

    @property
    def members(self) -> dict[str, MemberStatus]:
        return {HUB: self.hub, **self.clusters}

    @property
    def problems(self) -> dict[str, str]:
        """Of those that are not as they should be; empty when all is well."""
        return {name: one.reason or one.state for name, one in self.members.items() if one.state != "Available"}


def write_status(directory: FleetDirectory, status: FleetStatus) -> None:
    replace_private(directory.status, msgspec.json.encode(status))


def read_status(directory: FleetDirectory) -> FleetStatus | None:
    """What the fleet's process last wrote; whether it still runs is another question."""
    try:
        return msgspec.json.decode(directory.status.read_bytes(), type=FleetStatus)
    except (OSError, msgspec.DecodeError):
        return None
