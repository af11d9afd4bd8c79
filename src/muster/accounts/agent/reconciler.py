"""Reconciles one ManagedServiceAccount: ServiceAccount → token → Secret → status.

The ServiceAccount on the managed cluster is created if it is missing. An existing one of that name without the label was created
by somebody else, perhaps for the agent itself or for another addon, with permissions of its own: it is not adopted and no token
is requested for it, and the condition says so. The token on the hub stays as long as it is valid (`tokens.py`); its successor is
requested before it expires and replaces it in a single write. When a ManagedServiceAccount is deleted, its ServiceAccount is
deleted too, which invalidates every token of it; the hub's garbage collector removes the Secret. If a ManagedServiceAccount was
deleted and created again while the agent was not running, it gets a new ServiceAccount, so that tokens of the former one become
invalid all the same.

No state is kept in memory that a restart would lose, so a reconcile may be interrupted before or after any request. A failure is
reported in the object's own condition and retried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster.accounts.agent.secrets import foreign_secret, token_in, token_secret
from muster.accounts.agent.status import with_failure, with_token
from muster.accounts.agent.tokens import AccountError, AccountTokens, validity_of
from muster.accounts.names import ACCOUNT_LABEL, OWNER_ANNOTATION
from muster.api import condition_of
from muster.api.authentication.v1beta1 import TOKEN_REPORTED, ManagedServiceAccount
from muster.kube.token_claims import TokenClaims, read_claims
from muster.machinery.clock import Clock
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.cache import Informer, MutationCache, Snapshot
from muster.runtime.client import AlreadyExists, Conflict, KubeClient, KubeError, NotFound, Unreachable, patch_object
from muster.runtime.client.builtin import SECRETS, SERVICE_ACCOUNTS

log = get_logger("muster.accounts.agent")

RECHECK_INTERVAL: Final = 300.0
"""Seconds until a problem that somebody else has to resolve is checked again: objects without the label are not watched."""


@dataclass(frozen=True)
class AgentOptions:
    cluster: str
    """Name of the cluster on the hub; the namespace of that name has its ManagedServiceAccounts."""
    namespace: str
    """Namespace on the managed cluster for the ServiceAccounts and the agent's lease."""
    authority: Callable[[], bytes]
    """Returns the CA bundle (PEM) of the managed cluster's API server; empty if the system's trusted CAs cover it."""


class AccountReconciler:
    def __init__(
        self,
        hub: KubeClient,
        spoke: KubeClient,
        options: AgentOptions,
        accounts: Informer[ManagedServiceAccount],
        secrets: Informer[Snapshot],
        service_accounts: Informer[Snapshot],
        clock: Clock,
    ) -> None:
        self._hub = hub
        self._spoke = spoke
        self._options = options
        self._clock = clock
        self._accounts = accounts
        self._latest: MutationCache[ManagedServiceAccount] = MutationCache(accounts, clock=clock)
        self._secrets = MutationCache(secrets, clock=clock)
        self._service_accounts = MutationCache(service_accounts, clock=clock)
        self._tokens = AccountTokens(spoke, options.namespace, clock)

    async def reconcile(self, name: str) -> float | None:
        key = ObjectKey(self._options.cluster, name)
        account = self._latest.get(key)
        if account is None or account.metadata.deletion_timestamp:
            # An object that cannot be decoded still exists on the hub.
            if account is not None or key not in self._accounts.malformed:
                await self._remove(name)
            return None
        try:
            claims = await self._provide(account)
        except AccountError as problem:
            await self._report_failure(account, str(problem))
            return RECHECK_INTERVAL
        except (Conflict, Unreachable):
            # The object has changed meanwhile, or the hub cannot be reached: no condition could be written.
            raise
        except KubeError as error:
            await self._report_failure(account, str(error))
            raise
        await self._write_status(account, with_token(account, claims, self._clock.now()))
        return self._tokens.recheck_delay(name, claims)

    # Token

    async def _provide(self, account: ManagedServiceAccount) -> TokenClaims:
        name = account.metadata.name
        validity = validity_of(account)
        uid = await self._ensure_service_account(name, account.metadata.uid)
        found = await self._secret_of(account)
        token = token_in(found)
        reason = await self._tokens.replacement_reason(name, uid, token, self._max_lifetime(account, validity))
        if reason:
            token = (await self._tokens.request(name, uid, validity)).token
        claims = read_claims(token)
        assert claims is not None, "a malformed token is replaced"
        await self._write_secret(found, token_secret(found, account, token, self._options.authority()))
        if reason:
            log.info("token replaced", account=name, reason=reason, expires=claims.expires.isoformat())
        return claims

    def _max_lifetime(self, account: ManagedServiceAccount, validity: int) -> float | None:
        """Seconds that a token may live, or None for any. A shorter validity is applied at once, but only once per generation: a
        cluster may issue tokens that live longer than requested."""
        reported = condition_of(account.status.conditions, TOKEN_REPORTED)
        known = reported is not None and reported.observed_generation >= account.metadata.generation
        return None if known else float(validity)

    async def _ensure_service_account(self, name: str, owner: str) -> str:
        """Returns its uid. `owner` is the uid of the ManagedServiceAccount. Raises AccountError and KubeError."""
        key = ObjectKey(self._options.namespace, name)
        known = self._service_accounts.snapshot(key)
        if known is not None and (known.data["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION, owner) != owner:
            await self._delete(known)
            known = None
        found = known.data if known is not None else await self._get_or_create(name, owner)
        metadata = found["metadata"]
        subject = f"ServiceAccount {key} on the managed cluster"
        if (metadata.get("labels") or {}).get(ACCOUNT_LABEL) != "true":
            raise AccountError(
                f"{subject} was created by somebody else, and the hub must not obtain its permissions; choose another name for the "
                f"account, or, if the hub may have these permissions, label it {ACCOUNT_LABEL}=true"
            )
        if metadata.get("deletionTimestamp"):
            raise AccountError(f"{subject} is being deleted; it is created again after that")
        return str(metadata["uid"])

    async def _get_or_create(self, name: str, owner: str) -> Object:
        namespace = self._options.namespace
        try:
            return await self._spoke.get(SERVICE_ACCOUNTS, name, namespace)
        except NotFound:
            owned = {"labels": {ACCOUNT_LABEL: "true"}, "annotations": {OWNER_ANNOTATION: owner}}
            metadata = {"name": name, "namespace": namespace, **owned}
            body = {"apiVersion": SERVICE_ACCOUNTS.api_version, "kind": SERVICE_ACCOUNTS.kind, "metadata": metadata}
        try:
            created = await self._spoke.create(SERVICE_ACCOUNTS, body, namespace)
        except AlreadyExists:
            return await self._spoke.get(SERVICE_ACCOUNTS, name, namespace)
        self._service_accounts.record_write(created)
        return created

    async def _secret_of(self, account: ManagedServiceAccount) -> Object | None:
        """Raises AccountError if the Secret belongs to somebody else, and KubeError."""
        known = self._secrets.snapshot(ObjectKey(account.metadata.namespace, account.metadata.name))
        if known is not None:
            found = known.decode()
        else:
            try:
                # A Secret that has lost its label is not in the cache.
                found = await self._hub.get(SECRETS, account.metadata.name, account.metadata.namespace)
            except NotFound:
                return None
        if problem := foreign_secret(found, account):
            raise AccountError(problem)
        return found

    async def _write_secret(self, found: Object | None, wanted: Object) -> None:
        if wanted == found:
            return
        if found is None:
            answer = await self._hub.create(SECRETS, wanted, wanted["metadata"]["namespace"])
        else:
            answer = await self._hub.update(SECRETS, wanted)
        self._secrets.record_write(answer)

    # Status

    async def _report_failure(self, account: ManagedServiceAccount, problem: str) -> None:
        known = self._secrets.snapshot(ObjectKey(account.metadata.namespace, account.metadata.name))
        after = with_failure(account, problem, self._clock.now(), secret=known is not None)
        if await self._write_status(account, after):
            log.warning("token not issued", account=account.metadata.name, problem=problem)

    async def _write_status(self, before: ManagedServiceAccount, after: ManagedServiceAccount) -> bool:
        answer = await patch_object(self._hub, before, after, status=True)
        if answer is not None:
            self._latest.record_write(answer)
        return answer is not None

    # Deletion

    async def _remove(self, name: str) -> None:
        self._tokens.forget(name)
        found = self._service_accounts.snapshot(ObjectKey(self._options.namespace, name))
        if found is not None and not found.data["metadata"].get("deletionTimestamp"):
            await self._delete(found)

    async def _delete(self, found: Snapshot) -> None:
        try:
            answer = await self._spoke.delete(SERVICE_ACCOUNTS, found.name, found.namespace, uid=found.uid)
        except NotFound:
            answer = {"kind": "Status"}
        self._service_accounts.record_delete(found.key, found.uid, answer)
        log.info("account deleted", account=found.name)
