"""The ways to a hub, as everybody but a driver sees them: where one leads, whether it can be used, and a client for it.

A hub is given to an agent, and an agent's own credential for it is kept, as entries of a Secret or files of a directory. One of
them leads to the others: it says where the hub is and which files prove who asks. For most drivers that is a kubeconfig
(`kubeconfigs.py`); a driver with another transport brings an `EndpointFormat` of its own, and a client that has a client's verbs
and nothing of HTTP. Nobody else knows what such an entry is called or how it is written: whoever has one asks its format to `read`
it, and asks the `HubEndpoint` that comes of it which hub it is and for a client.

Two endpoints lead to the same hub when their addresses are equal: name, server, proxy, certificate authority, and whatever else
their format says of the hub. The name counts because a hub may be rebuilt behind the same address and certificate: then it signs
with other keys, and whoever changed the name in what the agent was given says so. The authority counts by its content, wherever it
is kept.
"""

from __future__ import annotations

import hashlib
import random as chance
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import orjson

from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.client import KubeClient


class EndpointError(Exception):
    """A way to a hub cannot be used: `source` is where an administrator finds it, `problem` what to correct there."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}" if source else problem)
        self.source = source
        self.problem = problem


@dataclass(frozen=True)
class HubAddress:
    name: str
    """What the hub is called by whoever told of it."""
    server: str
    ca: bytes = field(default=b"", repr=False)
    proxy_url: str = ""
    tls_server_name: str = ""
    details: bytes = field(default=b"", repr=False)
    """What else the format says of the hub, in a notation of its own: ways that are made of this address keep it."""

    @property
    def fingerprint(self) -> str:
        """Equal for equal addresses, short, and nothing that a Secret's reader did not know."""
        parts = [self.name, self.server, self.proxy_url, self.tls_server_name, hashlib.sha256(self.ca).hexdigest()]
        if self.details:
            parts.append(hashlib.sha256(self.details).hexdigest())
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]

    @property
    def server_hash(self) -> str:
        """What labels on the managed cluster call this hub."""
        return hashlib.sha256(self.server.encode()).hexdigest()


@dataclass(frozen=True)
class ClientSettings:
    """How somebody wants a hub's client to be: under which name it asks, what it counts, and how much it asks at once."""

    agent: str
    metrics: Metrics | None = None
    clock: Clock = SYSTEM
    random: Random = chance.random
    at_once: int = 0
    """Plain requests under way; 0 is no limit."""
    cluster: str = ""
    """Whose agent asks, for hubs that have to be told; empty where the credential says it."""
    source: str = ""
    """As whom the agent signs events, where it sends any; empty: as the cluster."""


class HubEndpoint(Protocol):
    """A value: when a token, an authority or the server changes, that is another endpoint."""

    @property
    def address(self) -> HubAddress: ...

    @property
    def url(self) -> str:
        """The server letter by letter as it is written: records on the managed cluster are named by it."""
        ...

    def files(self) -> Mapping[str, Path]:
        """The files that connecting reads, by what they are. Raises EndpointError where connecting would."""
        ...

    def is_portable(self) -> bool:
        """Whether it is of use to others than the agent in its pod. Raises EndpointError."""
        ...

    def connect(self, settings: ClientSettings) -> KubeClient:
        """A client that follows files that change. Raises EndpointError."""
        ...


class EndpointFormat(Protocol):
    """How a way to a hub is written."""

    @property
    def name(self) -> str:
        """What a work agent's `--workload-source-driver` calls it."""
        ...

    @property
    def key(self) -> str:
        """The entry that leads to the others: the key in Secrets, the name of the file beside them."""
        ...

    def read(self, file: Path, content: bytes, source: str = "", siblings: Mapping[str, bytes] | None = None) -> HubEndpoint:
        """What an entry says that is kept, or will be, in `file`; `source` is where an administrator finds it, if not there.

        `siblings` has the other entries, if they are at hand; entries that are not in it are read from files. Raises EndpointError.
        """
        ...
