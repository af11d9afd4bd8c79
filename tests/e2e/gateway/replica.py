"""One more process of the gateway on a site's hub: the account and the certificate are the first one's, all else is its own.

The hub's API server does not lead to it unless a test says so; it is asked at its own port.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.support.client import Client
from tests.support.hub_components import GatewayHub
from tests.support.planes import USERS
from tests.support.registration import http_text


class Replica(GatewayHub):
    def __init__(self, first: GatewayHub, directory: Path, *, hub_url: str = "", loopback: bool = True) -> None:
        """`hub_url`: another way to the same hub. `loopback`: clusters may be on this machine."""
        super().__init__(first.cluster, directory)
        self._loopback = loopback
        document = yaml.safe_load(first.kubeconfig.read_text())
        for entry in document["clusters"]:
            entry["cluster"]["server"] = hub_url or entry["cluster"]["server"]
        self.kubeconfig.write_text(yaml.safe_dump(document))
        self.kubeconfig.chmod(0o600)

    def start_flags(self) -> list[str]:
        return [flag for flag in super().start_flags() if self._loopback or flag != "--allow-loopback-endpoints"]


def straight(gateway: GatewayHub, user: str = "admin", *, timeout: float = 30) -> Client:
    """To a gateway's own port; that its certificate is for a Service is looked at elsewhere."""
    return Client(f"https://127.0.0.1:{gateway.port}", token=USERS[user].token, timeout=timeout)


def gauge(port: int, name: str, **labels: str) -> int:
    """What a process says at its health port of a metric now; 0 for what it does not speak of."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    for line in http_text(port, "/metrics").splitlines():
        if (found := re.fullmatch(rf"{name}(?:{{(.*)}})? (\S+)", line)) and all(one in (found[1] or "") for one in wanted):
            return int(float(found[2]))
    return 0
