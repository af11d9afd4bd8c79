"""Which hub a kubeconfig leads to, and whether it still does.

The address counts letter by letter: records on the managed cluster are named by it, and other agents must name them alike. A
credential that is renewed is followed by whoever uses it; another hub makes another agent.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from muster.machinery.confinement import read, shown

LOOK_SECONDS = 5.0


def hub_address(file: Path) -> str:
    import yaml

    try:
        document = yaml.safe_load(read(file)) or {}
        context = next(one["context"] for one in document["contexts"] if one["name"] == document["current-context"])
        return str(next(one["cluster"]["server"] for one in document["clusters"] if one["name"] == context["cluster"]))
    except (OSError, yaml.YAMLError, LookupError, TypeError, StopIteration) as error:
        raise click.ClickException(f"{shown(file)}: not a kubeconfig with a current context: {error}") from None


async def until_elsewhere(file: Path, address: str) -> str:
    """Until the kubeconfig leads to another hub, whose address is given; one that is away or being written is waited for."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            found = await asyncio.to_thread(hub_address, file)
        except click.ClickException:
            continue
        if found != address:
            return found
