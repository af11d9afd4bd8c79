"""The AWS identity of a program, from its environment; and roles that it assumes.

The first of these is used, as in AWS' own programs: keys in variables; a role with a file of a service account token, as in pods;
on a user's own machine a profile, with its programs and logins. Without any, the error lists the options. Identities of machines
and containers are never used: a pod without an identity must not act as its node.

Temporary credentials are renewed before they expire, by the first caller who comes then; all others continue with the old ones.
There is one renewal at a time; after a failure there is a pause, and the old credentials are used until they expire. The token file
is read for each renewal, since it is rotated.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.aws.client import AwsClient, Threads
from muster.aws.errors import AwsError, NoIdentity, NoLibrary
from muster.aws.interfaces import AwsCredentials, CredentialSource, Sts
from muster.aws.process_env import ROLE_ARN, SESSION_NAME, TOKEN_FILE, ProcessEnv
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger

if TYPE_CHECKING:
    from botocore.session import Session

log = get_logger("muster.aws")

ROLE_SECONDS: Final = 3600
"""The duration of role sessions; a role assumed from another session may not have more."""
RENEW_BEFORE_SHARE: Final = 0.2
"""The share of their lifetime that credentials have left when they are renewed."""
MAX_RENEW_BEFORE: Final = timedelta(minutes=5)
FRESH_SECONDS: Final = 10.0
"""Credentials younger than this are not renewed if AWS refuses them, because new ones would be refused as well."""
DEFAULT_SESSION: Final = "muster"
SHORTEST_TOKEN: Final = 4
_WHO: Final = "credentials"


class FixedCredentials:
    """Credentials from variables, for the lifetime of the process."""

    def __init__(self, credentials: AwsCredentials) -> None:
        self._credentials = credentials

    async def credentials(self) -> AwsCredentials:
        return self._credentials

    def discard(self, credentials: AwsCredentials) -> None:
        """There are no others."""


class RenewedCredentials:
    """Temporary credentials. `fetch` starts another session."""

    def __init__(
        self, fetch: Callable[[], Awaitable[AwsCredentials]], *, clock: Clock = SYSTEM, random: Random = chance.random
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._backoff = Backoff(1.0, 60.0, random=random)
        self._renewing = asyncio.Lock()
        self._held: AwsCredentials | None = None
        self._since = 0.0
        self._ahead = timedelta()
        self._not_before = 0.0
        self._failure: AwsError | None = None

    async def credentials(self) -> AwsCredentials:
        held = self._good
        if held is not None and (not self._is_due(held) or self._renewing.locked()):
            return held
        async with self._renewing:
            held = self._good
            if held is not None and not self._is_due(held):
                return held
            if self._failure is not None and self._clock.monotonic() < self._not_before:
                if held is not None:
                    return held
                raise _again(self._failure)
            return await self._renewed(held)

    def discard(self, credentials: AwsCredentials) -> None:
        if credentials is self._held and self._clock.monotonic() - self._since >= FRESH_SECONDS:
            self._held = None

    async def _renewed(self, held: AwsCredentials | None) -> AwsCredentials:
        try:
            fresh = await self._fetch()
        except AwsError as error:
            self._failure = error
            self._not_before = self._clock.monotonic() + self._backoff.next()
            if held is None:
                raise
            write = log.warning if self._backoff.failures == 1 else log.debug
            write("cannot renew the AWS credentials yet", error=str(error))
            return held
        self._failure = None
        self._backoff.reset()
        self._held, self._since = fresh, self._clock.monotonic()
        if fresh.expires is not None:
            self._ahead = min(max(fresh.expires - self._clock.now(), timedelta()) * RENEW_BEFORE_SHARE, MAX_RENEW_BEFORE)
        return fresh

    @property
    def _good(self) -> AwsCredentials | None:
        held = self._held
        return held if held is not None and (held.expires is None or held.expires > self._clock.now()) else None

    def _is_due(self, held: AwsCredentials) -> bool:
        return held.expires is not None and held.expires - self._ahead <= self._clock.now()


class ProfileCredentials:
    """Credentials of a profile of the machine's user, which botocore renews: keys, a role, a program or a login."""

    def __init__(self, process_env: ProcessEnv, threads: Threads) -> None:
        self._surroundings = process_env
        self._threads = threads
        self._session: Session | None = None

    async def credentials(self) -> AwsCredentials:
        return await self._threads.run(self._load)

    def discard(self, credentials: AwsCredentials) -> None:
        """botocore reads its source each time."""

    def _load(self) -> AwsCredentials:
        try:
            from muster.aws import library
        except ModuleNotFoundError as error:
            raise NoLibrary(_WHO, "", f"{error.name} is not installed: pip install 'muster[aws]'") from error
        try:
            if self._session is None:
                self._session = library.profile_session(self._surroundings.environ)
            found = self._session.get_credentials()
            keys = None if found is None else found.get_frozen_credentials()
        except (library.BotoCoreError, library.ClientError) as error:
            raise NoIdentity(_WHO, type(error).__name__, str(error)) from None
        if keys is None:
            raise _no_identity()
        return AwsCredentials(keys.access_key, keys.secret_key, keys.token or "")


class NoCredentials:
    async def credentials(self) -> AwsCredentials:
        raise _no_identity()

    def discard(self, credentials: AwsCredentials) -> None:
        """There are none."""


def own_identity(
    process_env: ProcessEnv,
    region: str,
    threads: Threads,
    *,
    clock: Clock = SYSTEM,
    random: Random = chance.random,
    sts: Sts | None = None,
) -> CredentialSource:
    """`sts` is used for web identities; AWS itself by default."""
    environ = process_env.environ
    key, secret = environ.get("AWS_ACCESS_KEY_ID", ""), environ.get("AWS_SECRET_ACCESS_KEY", "")
    if key and secret:
        return FixedCredentials(AwsCredentials(key, secret, environ.get("AWS_SESSION_TOKEN", "")))
    role, file = environ.get(ROLE_ARN, ""), environ.get(TOKEN_FILE, "")
    if role and file:
        client = sts or AwsClient(region, process_env, clock=clock, threads=threads)

        async def fetch() -> AwsCredentials:
            token = await _token(process_env, file)
            session = environ.get(SESSION_NAME) or DEFAULT_SESSION
            return await client.assume_role_with_web_identity(role, session, token, ROLE_SECONDS)

        return RenewedCredentials(fetch, clock=clock, random=random)
    return ProfileCredentials(process_env, threads) if process_env.of_machine else NoCredentials()


def assumed_role(
    sts: Sts, role_arn: str, session: str, *, clock: Clock = SYSTEM, random: Random = chance.random
) -> CredentialSource:
    """The role, assumed with the credentials of `sts`."""
    return RenewedCredentials(lambda: sts.assume_role(role_arn, session, ROLE_SECONDS), clock=clock, random=random)


def connect(process_env: ProcessEnv, region: str = "", *, clock: Clock = SYSTEM, random: Random = chance.random) -> AwsClient:
    """A client with the identity of this environment, which the caller must close. Raises NoIdentity without a region."""
    region = region or process_env.region
    if not region:
        raise NoIdentity(_WHO, "", "AWS_REGION: not set; set the region of AWS")
    threads = Threads()
    source = own_identity(process_env, region, threads, clock=clock, random=random)
    return AwsClient(region, process_env, source, clock=clock, threads=threads, owns_threads=True)


async def _token(process_env: ProcessEnv, file: str) -> str:
    try:
        token = (await asyncio.to_thread(process_env.read, Path(file))).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise NoIdentity(_WHO, "", f"{TOKEN_FILE}: {file}: {error.strerror or error}") from None
    if len(token) < SHORTEST_TOKEN:
        raise NoIdentity(_WHO, "", f"{TOKEN_FILE}: {file}: there is no token in it")
    return token


def _no_identity() -> NoIdentity:
    message = f"no AWS identity is there: expected {ROLE_ARN} and {TOKEN_FILE}, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return NoIdentity(_WHO, "", f"{message}, or on a user's machine a profile")


def _again(error: AwsError) -> AwsError:
    """A copy, since an error that is raised twice would accumulate tracebacks."""
    return type(error)(error.operation, error.code, error.message)
