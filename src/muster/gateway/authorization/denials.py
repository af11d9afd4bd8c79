"""What the gateway forwards for nobody, whatever the hub grants: an administrator's last word, for some clusters or for all.

`tokens` are tokens that a cluster issues for its service accounts: with one, a client needs neither gateway nor hub any more.
`secrets` are Secrets, with every verb, because patches and deletions answer with the object too. This closes the direct way only:
whoever may run commands in pods, or reach them by proxy, may find the same there.
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

    def covers(self, cluster: str, asked: AccessAttributes) -> bool:
        if self.cluster and self.cluster != cluster:
            return False
        if not asked.is_resource or asked.group not in ("", "*"):
            return False
        if self.what == SECRETS:
            return asked.resource in ("secrets", "*")
        return asked.resource in ("serviceaccounts", "*") and asked.subresource in ("token", "*")


def parse_denial(text: str) -> Denial:
    """One value of `--deny`; ValueError says what is wrong with it."""
    what, at, cluster = text.partition("@")
    if what not in CHOICES:
        raise ValueError(f'"{what}" cannot be denied: write {FORMAT}')
    if at and (not cluster or dns1123_subdomain(cluster)):
        raise ValueError(f'"{cluster}" is not the name of a cluster: write {FORMAT}')
    return Denial(what, cluster)


def denied(denials: Iterable[Denial], cluster: str, asked: AccessAttributes) -> Denial | None:
    return next((denial for denial in denials if denial.covers(cluster, asked)), None)
