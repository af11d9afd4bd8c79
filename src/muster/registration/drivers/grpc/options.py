"""The options of this driver on the command line, of the hub's and of the agent's side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from muster.api.agents import GRPC_SERVER_ACCOUNT
from muster.machinery.confinement import located
from muster.machinery.golang.durations import SECOND, parse_duration
from muster.machinery.golang.errors import GoError
from muster.registration.drivers.certificates import options as shared
from muster.registration.drivers.certificates.options import EXPIRATION, listed, refuse_unknown
from muster.registration.drivers.errors import DriverConfigError
from muster.registration.drivers.flags import GRPC
from muster.registration.drivers.profile import DriverOptions, last
from muster.registration.names import HUB_NAMESPACE

APPROVED_USERS: Final = "auto-approved-grpc-users"
CA_FILE: Final = "grpc-ca-file"
KEY_FILE: Final = "grpc-key-file"
SIGNING_DURATION: Final = "grpc-signing-duration"
SERVER_ACCOUNT: Final = "grpc-server-account"
BOOTSTRAP_CONFIG: Final = "grpc-bootstrap-config"
HUB_CONFIG: Final = "grpc-config"

DEFAULT_ACCOUNT: Final = f"system:serviceaccount:{HUB_NAMESPACE}:{GRPC_SERVER_ACCOUNT}"
DEFAULT_DURATION: Final = "720h"
_OF_HUB: Final = (APPROVED_USERS, CA_FILE, KEY_FILE, SIGNING_DURATION, SERVER_ACCOUNT)
_OF_AGENT: Final = (BOOTSTRAP_CONFIG, HUB_CONFIG, EXPIRATION)
_KNOWN: Final = (*_OF_HUB, *_OF_AGENT)


@dataclass(frozen=True)
class HubSide:
    approved_users: frozenset[str]
    """Users whose first requests are approved automatically."""
    accounts: frozenset[str]
    """The service accounts of the hub's gRPC servers."""
    ca_file: Path
    key_file: Path
    duration: timedelta
    """The longest validity of certificates."""


def hub_side(options: DriverOptions) -> HubSide:
    """Raises DriverConfigError."""
    refuse_unknown(GRPC, options, _KNOWN, _OF_HUB)
    return HubSide(
        listed(options, APPROVED_USERS),
        server_accounts(options),
        _file(options, CA_FILE, "the certificate of the authority that signs agents' certificates"),
        _file(options, KEY_FILE, f"the private key of the authority in --{CA_FILE}"),
        _duration(options),
    )


def server_accounts(options: DriverOptions) -> frozenset[str]:
    """The service accounts of the hub's gRPC servers."""
    return listed(options, SERVER_ACCOUNT) or frozenset((DEFAULT_ACCOUNT,))


def client_expiration(options: DriverOptions) -> int:
    """The requested validity of agents' certificates in seconds. Raises DriverConfigError."""
    refuse_unknown(GRPC, options, _KNOWN, _OF_AGENT)
    return shared.client_expiration(GRPC, options)


def bootstrap_configs(options: DriverOptions) -> tuple[str, ...]:
    """The agents' bootstrap configuration files, in order of preference."""
    return _several(options.get(BOOTSTRAP_CONFIG, ()))


def hub_config(options: DriverOptions) -> str:
    """The file of the agent's configuration as other processes see it; empty if not set."""
    return last(options, HUB_CONFIG)


def _several(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _file(options: DriverOptions, name: str, what: str) -> Path:
    path = last(options, name)
    if not path:
        raise DriverConfigError(GRPC, name, f"missing: give the file with {what}")
    return located(path)


def _duration(options: DriverOptions) -> timedelta:
    text = last(options, SIGNING_DURATION) or DEFAULT_DURATION
    try:
        seconds = parse_duration(text) / SECOND
    except GoError:
        seconds = 0.0
    if seconds < 1:
        raise DriverConfigError(GRPC, SIGNING_DURATION, f"expected a duration of at least a second, such as 720h; found {text!r}")
    return timedelta(seconds=seconds)
