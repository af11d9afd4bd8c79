"""Single edits of ConfigMap kube-system/aws-auth by clients other than the hub's controller: add or remove one entry.

Concurrent writers are not overwritten: on a conflict the edit is repeated on the new version.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from muster.registration.drivers.awsirsa.awsauth import KEY, NAME, NAMESPACE, Mapped, edited
from muster.runtime.client import Conflict, KubeClient, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS

MOST_CONFLICTS: Final = 8


async def put_in(client: KubeClient, entry: Mapped) -> None:
    """Add the entry. Raises Unreadable and KubeError."""
    await _edit(client, entry, "")


async def take_out(client: KubeClient, role_arn: str) -> None:
    """Remove the entry; without the ConfigMap there is none. Raises Unreadable and KubeError."""
    with suppress(NotFound):
        await _edit(client, None, role_arn)


async def _edit(client: KubeClient, entry: Mapped | None, gone: str) -> None:
    for attempt in range(MOST_CONFLICTS):
        found = await client.get(CONFIG_MAPS, NAME, NAMESPACE)
        text = str((found.get("data") or {}).get(KEY) or "")
        after = edited(text, [entry] if entry else [], [gone] if gone else [])
        if after == text:
            return
        try:
            await client.update(CONFIG_MAPS, {**found, "data": {**(found.get("data") or {}), KEY: after}})
            return
        except Conflict:
            if attempt + 1 == MOST_CONFLICTS:
                raise
