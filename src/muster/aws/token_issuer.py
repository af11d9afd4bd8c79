"""Issues tokens repeatedly: one AWS session for many tokens.

A token costs no request, it is only a signature. The session of the role that signs it does, so an issuer keeps one per role and
renews it in time. An issuer belongs to the environment of one program: its sessions are used for no other.

The program's own identity and the role are requested in the program's own region, if it has one: the region of the target cluster
may be disabled for its account.
"""

from __future__ import annotations

import random as chance
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from muster.aws.client import AwsClient, Threads
from muster.aws.identity import assumed_role, own_identity
from muster.aws.interfaces import CredentialSource
from muster.aws.process_env import ProcessEnv
from muster.aws.tokens import SESSION, Token, make_token
from muster.machinery.clock import SYSTEM, Clock, Random

MOST_ROLES: Final = 16


@dataclass(frozen=True)
class TokenRequest:
    region: str
    cluster: str
    """The name in EKS."""
    role_arn: str = ""
    """The role to assume first; empty: the own identity."""


class TokenIssuer:
    def __init__(self, process_env: ProcessEnv, threads: Threads, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self._surroundings = process_env
        self._threads = threads
        self._clock = clock
        self._random = random
        self._sources: OrderedDict[tuple[str, str], CredentialSource] = OrderedDict()

    async def issue(self, request: TokenRequest) -> Token:
        """Raises AwsError."""
        credentials = await self._source(request).credentials()
        endpoint = self._surroundings.endpoint("sts")
        return make_token(credentials, request.region, request.cluster, self._clock.now(), endpoint)

    def _source(self, request: TokenRequest) -> CredentialSource:
        region = self._surroundings.region or request.region
        own = self._kept((region, "")) or self._keep(
            (region, ""), own_identity(self._surroundings, region, self._threads, clock=self._clock, random=self._random)
        )
        if not request.role_arn:
            return own
        key = (region, request.role_arn)
        return self._kept(key) or self._keep(key, self._role(region, own, request.role_arn))

    def _role(self, region: str, own: CredentialSource, role_arn: str) -> CredentialSource:
        sts = AwsClient(region, self._surroundings, own, clock=self._clock, threads=self._threads)
        return assumed_role(sts, role_arn, SESSION, clock=self._clock, random=self._random)

    def _kept(self, key: tuple[str, str]) -> CredentialSource | None:
        if key in self._sources:
            self._sources.move_to_end(key)
        return self._sources.get(key)

    def _keep(self, key: tuple[str, str], source: CredentialSource) -> CredentialSource:
        self._sources[key] = source
        while len(self._sources) > MOST_ROLES:
            self._sources.popitem(last=False)
        return source
