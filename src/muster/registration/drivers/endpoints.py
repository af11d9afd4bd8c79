"""Endpoints of a hub, as all code outside the drivers sees them: the address, whether it is usable, and a client for it.

An agent gets a hub's endpoint, and keeps its own credential for the hub, as entries of a Secret or files of a directory. One entry
refers to the others: it has the hub's address and names the files of the credential. For most drivers that is a kubeconfig
(`kubeconfigs.py`); a driver with another transport has its own `EndpointFormat`, and a client with the same verbs and no HTTP. No
other code knows the name of such an entry or its syntax: the format parses it (`read`), and the resulting `HubEndpoint` has the
hub's address and makes clients.

Two endpoints are the same hub if their addresses are equal: name, server, proxy, certificate authority, and whatever else their
format stores about the hub. The name is included because a hub may be rebuilt behind the same address and certificate with other
signing keys; changing the name is how an administrator announces that. The authority is compared by content, not by file.
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
    """An endpoint is unusable: `source` is where an administrator finds it, `problem` what to correct there."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}" if source else problem)
        self.source = source
        self.problem = problem


@dataclass(frozen=True)
class HubAddress:
    name: str
    """The name of the hub in the configuration."""
    server: str
    ca: bytes = field(default=b"", repr=False)
    proxy_url: str = ""
    tls_server_name: str = ""
    details: bytes = field(default=b"", repr=False)
    """Further settings of the hub in the format's own encoding: endpoints that are made from this address keep them."""

    @property
    def fingerprint(self) -> str:
        """A short hash, equal for equal addresses, that reveals nothing which a reader of the Secret does not know."""
        parts = [self.name, self.server, self.proxy_url, self.tls_server_name, hashlib.sha256(self.ca).hexdigest()]
        if self.details:
            parts.append(hashlib.sha256(self.details).hexdigest())
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]

    @property
    def server_hash(self) -> str:
        """The hash of the server that labels on the managed cluster use for this hub."""
        return hashlib.sha256(self.server.encode()).hexdigest()


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a client of the hub: its user agent, its metrics, and its concurrency."""

    agent: str
    metrics: Metrics | None = None
    clock: Clock = SYSTEM
    random: Random = chance.random
    at_once: int = 0
    """Limit of concurrent plain requests; 0 is no limit."""
    cluster: str = ""
    """The cluster of the agent, for hubs that need it in requests; empty if the credential has it."""
    source: str = ""
    """The source of the agent's CloudEvents, if it sends any; empty means the cluster."""


class HubEndpoint(Protocol):
    """An immutable endpoint: when a token, an authority or the server changes, it is another endpoint."""

    @property
    def address(self) -> HubAddress: ...

    @property
    def url(self) -> str:
        """The server exactly as configured: the names of records on the managed cluster contain its hash."""
        ...

    def files(self) -> Mapping[str, Path]:
        """The files that connecting reads, by their purpose. Raises EndpointError if connecting would."""
        ...

    def is_portable(self) -> bool:
        """Whether it is usable outside of the agent's pod. Raises EndpointError."""
        ...

    def connect(self, settings: ClientSettings) -> KubeClient:
        """A client that reloads changed files. Raises EndpointError."""
        ...


class EndpointFormat(Protocol):
    """Syntax of an endpoint."""

    @property
    def name(self) -> str:
        """The name in a work agent's `--workload-source-driver`."""
        ...

    @property
    def key(self) -> str:
        """The entry that refers to the others: its key in Secrets, its file name in directories."""
        ...

    def read(self, file: Path, content: bytes, source: str = "", siblings: Mapping[str, bytes] | None = None) -> HubEndpoint:
        """Parse the entry that is, or will be, in `file`; `source` is where an administrator finds it, if not there.

        `siblings` has the other entries, if they are at hand; missing ones are read from files. Raises EndpointError.
        """
        ...
