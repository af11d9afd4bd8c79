"""What an administrator can set on an agent, with the defaults that an empty command line gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster.registration.drivers import DEFAULT
from muster.registration.drivers.flags import ADDON_DRIVERS
from muster.registration.drivers.profile import DriverOptions
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_SECRET


@dataclass(frozen=True)
class AgentOptions:
    cluster_name: str = ""
    """Empty: as before, else a new UUID."""
    agent_name: str = ""
    """Empty: as before, else five random characters."""
    namespace: str = AGENT_NAMESPACE
    hub_secret: str = HUB_SECRET
    bootstrap_secrets: tuple[str, ...] = (BOOTSTRAP_SECRET,)
    """Secrets with a bootstrap kubeconfig, tried in this order."""
    bootstrap_kubeconfigs: tuple[Path, ...] = ()
    """Files instead of secrets, tried in this order."""
    hub_kubeconfig_dir: Path | None = None
    """Where the hub secret's contents are kept as files for this and other processes; None: a private temporary directory."""
    driver: str = DEFAULT
    driver_options: DriverOptions = field(default_factory=dict)
    external_server_urls: tuple[str, ...] = ()
    external_ca: bytes = b""
    cluster_annotations: Mapping[str, str] = field(default_factory=dict)
    health_check_seconds: float = 60.0
    hub_connection_timeout: float = 600.0
    """With several bootstrap kubeconfigs: so long without a renewed lease before another hub is tried."""
    cluster_claims: bool = True
    cluster_properties: bool = False
    """Whether ClusterProperties are told to the hub beside claims."""
    max_custom_claims: int = 20
    reserved_claim_suffixes: tuple[str, ...] = ()
    addons: bool = True
    """Whether addons get their credentials, and the hub is told how they are."""
    addon_driver: str = ADDON_DRIVERS[0]
    """How agents of addons prove themselves to the hub's API server."""
    addon_token_seconds: int = 0
    """For how long their tokens should be valid; 0 is a year."""
