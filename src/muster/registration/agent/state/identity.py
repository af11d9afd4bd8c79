"""Who the agent is: names from the command line, else those it had before, else new ones."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from muster.machinery.clock import Random
from muster.registration.agent.options import AgentOptions
from muster.registration.agent.state.hub_secret import AGENT_NAME, CLUSTER_NAME
from muster.registration.names import AgentIdentity, is_cluster_name

SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels: no name spells a word."""
AGENT_NAME_LENGTH = 5


def settle(options: AgentOptions, stored: Mapping[str, bytes], random: Random) -> AgentIdentity:
    cluster = options.cluster_name or _stored(stored, CLUSTER_NAME)
    if not is_cluster_name(cluster):
        # What is stored is no name that a hub would take; a wrong one on the command line was refused before.
        cluster = str(uuid.UUID(bytes=bytes(int(random() * 256) for _ in range(16)), version=4))
    agent = options.agent_name or _stored(stored, AGENT_NAME)
    if not agent:
        agent = "".join(SAFE_LETTERS[int(random() * len(SAFE_LETTERS))] for _ in range(AGENT_NAME_LENGTH))
    return AgentIdentity(cluster, agent)


def _stored(stored: Mapping[str, bytes], key: str) -> str:
    return stored.get(key, b"").decode(errors="replace").strip()
