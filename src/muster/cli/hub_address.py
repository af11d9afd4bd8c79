"""Watches whether the registration agent's configuration file still is for the same hub.

Registration drivers know the format of the file. The address is compared exactly: the names of records on the managed cluster
contain its hash, and all agents must use the same one. Clients reload a renewed credential; after a change of the hub the agent is
restarted.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.machinery.confinement import read, shown

if TYPE_CHECKING:
    from muster.registration.drivers.endpoints import EndpointFormat, HubEndpoint

POLL_INTERVAL = 5.0


def find_hub(file: Path, endpoints: EndpointFormat) -> HubEndpoint:
    from muster.registration.drivers.endpoints import EndpointError

    try:
        return endpoints.read(file, read(file))
    except (OSError, EndpointError) as error:
        problem = error.problem if isinstance(error, EndpointError) else error.strerror or str(error)
        raise click.ClickException(f"{shown(file)}: not a {endpoints.key} that leads to a hub: {problem}") from None


async def until_moved(file: Path, endpoints: EndpointFormat, url: str) -> str:
    """Wait until the file is for another hub, and return its address; a missing or incomplete file is waited for."""
    while True:
        await asyncio.sleep(POLL_INTERVAL)
        try:
            found = await asyncio.to_thread(find_hub, file, endpoints)
        except click.ClickException:
            continue
        if found.url != url:
            return found.url
