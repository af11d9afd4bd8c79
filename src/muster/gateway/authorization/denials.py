"""Requests that the gateway denies to everybody, whatever the hub grants, for some clusters or for all.

`tokens` are tokens that a cluster issues for its service accounts: a client that has one no longer needs the gateway or the hub.
`secrets` are Secrets, with every verb, because patches and deletions return the object too. Only the direct way is denied: a
client that may run commands in pods, or reach them by proxy, may find the same there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster.kube.names import dns1123_subdomain
from muster.machinery.authorization import AccessAttributes

TOKENS: Final = "tokens"
SECRETS: Final = "secrets"
CHOICES: Final = (TOKENS, SECRETS)
FORMAT: Final = f"{'|'.join(CHOICES)}[@CLUSTER]"


@dataclass(frozen=True, slots=True)
class Denial:
    what: str
    cluster: str = ""
    """Empty for every cluster."""

    def covers(self, cluster: str, attributes: AccessAttributes) -> bool:
        if self.cluster and self.cluster != cluster:
            return False
        if not attributes.is_resource or attributes.group not in ("", "*"):
            return False
        if self.what == SECRETS:
            return attributes.resource in ("secrets", "*")
        return attributes.resource in ("serviceaccounts", "*") and attributes.subresource in ("token", "*")


def parse_denial(text: str) -> Denial:
    """Parses one value of `--deny`. Raises ValueError with the reason."""
    what, at, cluster = text.partition("@")
    if what not in CHOICES:
        raise ValueError(f'"{what}" cannot be denied: write {FORMAT}')
    if at and (not cluster or dns1123_subdomain(cluster)):
        raise ValueError(f'"{cluster}" is not the name of a cluster: write {FORMAT}')
    return Denial(what, cluster)


def find_denial(denials: Iterable[Denial], cluster: str, attributes: AccessAttributes) -> Denial | None:
    return next((denial for denial in denials if denial.covers(cluster, attributes)), None)
