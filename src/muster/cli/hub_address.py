"""Which hub the way leads to that the registration agent keeps, and whether it still does.

How such a way is written is known to registration drivers; here it is a file. The address counts letter by letter: records on the
managed cluster are named by it, and other agents must name them alike. A credential that is renewed is followed by whoever uses
it; another hub makes another agent.
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
    """Until the file leads to another hub, whose address is given; one that is away or being written is waited for."""
    while True:
        await asyncio.sleep(POLL_INTERVAL)
        try:
            found = await asyncio.to_thread(find_hub, file, endpoints)
        except click.ClickException:
            continue
        if found.url != url:
            return found.url
