"""Secrets of agents that kept unfinished business in the Secret of the credential: taken over once, when an agent starts.

There it had the prefix `pending.`, and `next.pending.` where it was for another hub than the credential; `pending.hub` was the
fingerprint of the hub's address. It is written to its new place before it is removed from the old one, so dying in between loses
nothing; and a Secret that has no credential goes with it.
"""

from __future__ import annotations

from typing import Final

from muster.registration.agent.state.hub_secret import AGENT_NAME, CLUSTER_NAME, HubSecret

_PENDING: Final = "pending."
_NEXT: Final = "next."


async def take_over(secret: HubSecret) -> None:
    """Raises what writing Secrets raises."""
    old = [key for key in secret.data if key.startswith((_PENDING, _NEXT))]
    if not old:
        return
    in_use = secret.address.fingerprint if secret.address else ""
    names = {key: secret.data[key] for key in (CLUSTER_NAME, AGENT_NAME) if key in secret.data}
    begun = {**_begun(secret, _PENDING, in_use), **_begun(secret, _NEXT + _PENDING, "")}
    await secret.pending.store({**names, **begun, **secret.pending.data})
    if secret.has_endpoint:
        await secret.store(dict.fromkeys(old))
    else:
        await secret.remove()


def _begun(secret: HubSecret, prefix: str, in_use: str) -> dict[str, bytes]:
    part = {key.removeprefix(prefix): value for key, value in secret.data.items() if key.startswith(prefix)}
    hub = part.pop("hub", b"").decode(errors="replace") or in_use
    return {f"{hub}.{key}": value for key, value in part.items()} if hub.isascii() and hub.isalnum() else {}
