"""One pass for one ManagedServiceAccount: account → token → Secret → status.

The account on the managed cluster is made if it is missing. One of that name without the label was made by somebody else, perhaps
for the agent itself or for another addon, with rights of its own: it is neither taken over nor asked for a token, and the condition
says so. The token that lies on the hub stays as long as it serves (`tokens.py`); another one is there before the old one ends, and
takes its place in a single write. A ManagedServiceAccount that is gone, or going, takes its account along, and that ends every
token of it; the Secret is collected by the hub. One that was made anew while nobody looked gets a new account, so tokens
of the former one end all the same.

Nothing is remembered that a restart would miss, so a pass may end before or after any request. What fails is told in the account's
own condition and tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from muster.accounts.agent.secrets import foreign_secret, token_in, token_secret
from muster.accounts.agent.status import with_failure, with_token
from muster.accounts.agent.tokens import AccountProblem, AccountTokens, validity_of
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

RECHECK: Final = 300.0
"""Seconds until what somebody else has to mend is looked at again: objects without the label are not watched."""


@dataclass(frozen=True)
class AgentOptions:
    cluster: str
    """On the hub; its namespace there has the accounts."""
    namespace: str
    """On the managed cluster: where the accounts are, and the agent's lease."""
    authority: Callable[[], bytes]
    """PEM of whoever vouches for the managed cluster's API server; empty where the system's own authorities do."""


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
            # One that cannot be read is there all the same.
            if account is not None or key not in self._accounts.malformed:
                await self._remove(name)
            return None
        try:
            claims = await self._provide(account)
        except AccountProblem as problem:
            await self._report_failure(account, str(problem))
            return RECHECK
        except (Conflict, Unreachable):
            # Somebody was faster, or there is nobody to be told.
            raise
        except KubeError as error:
            await self._report_failure(account, str(error))
            raise
        await self._write_status(account, with_token(account, claims, self._clock.now()))
        return self._tokens.next_look(name, claims)

    # The account has a token on the hub.

    async def _provide(self, account: ManagedServiceAccount) -> TokenClaims:
        name = account.metadata.name
        validity = validity_of(account)
        uid = await self._ensure_service_account(name, account.metadata.uid)
        found = await self._secret_of(account)
        token = token_in(found)
        reason = await self._tokens.replacement_reason(name, uid, token, self._longest_life(account, validity))
        if reason:
            token = (await self._tokens.request(name, uid, validity)).token
        claims = read_claims(token)
        assert claims is not None, "a token that cannot be read is replaced"
        await self._write_secret(found, token_secret(found, account, token, self._options.authority()))
        if reason:
            log.info("token replaced", account=name, cause=reason, expires=claims.expires.isoformat())
        return claims

    def _longest_life(self, account: ManagedServiceAccount, validity: int) -> float | None:
        """A shorter validity counts at once, but once: a cluster may give tokens that live longer than was asked for."""
        told = condition_of(account.status.conditions, TOKEN_REPORTED)
        known = told is not None and told.observed_generation >= account.metadata.generation
        return None if known else float(validity)

    async def _ensure_service_account(self, name: str, owner: str) -> str:
        """Gives its uid; `owner` is that of the object on the hub. Raises AccountProblem and KubeError."""
        key = ObjectKey(self._options.namespace, name)
        known = self._service_accounts.snapshot(key)
        if known is not None and (known.data["metadata"].get("annotations") or {}).get(OWNER_ANNOTATION, owner) != owner:
            await self._delete(known)
            known = None
        found = known.data if known is not None else await self._get_or_create(name, owner)
        metadata = found["metadata"]
        where = f"ServiceAccount {key} on the managed cluster"
        if (metadata.get("labels") or {}).get(ACCOUNT_LABEL) != "true":
            raise AccountProblem(
                f"{where} was made by somebody else, and its rights are not for the hub to have; choose another name for the "
                f"account, or, if the hub may have them, label it {ACCOUNT_LABEL}=true"
            )
        if metadata.get("deletionTimestamp"):
            raise AccountProblem(f"{where} is being deleted; it is made anew when it is gone")
        return str(metadata["uid"])

    async def _get_or_create(self, name: str, owner: str) -> Object:
        namespace = self._options.namespace
        try:
            return await self._spoke.get(SERVICE_ACCOUNTS, name, namespace)
        except NotFound:
            marks = {"labels": {ACCOUNT_LABEL: "true"}, "annotations": {OWNER_ANNOTATION: owner}}
            metadata = {"name": name, "namespace": namespace, **marks}
            body = {"apiVersion": SERVICE_ACCOUNTS.api_version, "kind": SERVICE_ACCOUNTS.kind, "metadata": metadata}
        try:
            made = await self._spoke.create(SERVICE_ACCOUNTS, body, namespace)
        except AlreadyExists:
            return await self._spoke.get(SERVICE_ACCOUNTS, name, namespace)
        self._service_accounts.record_write(made)
        return made

    async def _secret_of(self, account: ManagedServiceAccount) -> Object | None:
        """Raises AccountProblem where it is somebody else's, and KubeError."""
        known = self._secrets.snapshot(ObjectKey(account.metadata.namespace, account.metadata.name))
        if known is not None:
            found = known.decode()
        else:
            try:
                # One that has lost its label is not watched.
                found = await self._hub.get(SECRETS, account.metadata.name, account.metadata.namespace)
            except NotFound:
                return None
        if problem := foreign_secret(found, account):
            raise AccountProblem(problem)
        return found

    async def _write_secret(self, found: Object | None, wanted: Object) -> None:
        if wanted == found:
            return
        if found is None:
            answer = await self._hub.create(SECRETS, wanted, wanted["metadata"]["namespace"])
        else:
            answer = await self._hub.update(SECRETS, wanted)
        self._secrets.record_write(answer)

    # What is told of it.

    async def _report_failure(self, account: ManagedServiceAccount, problem: str) -> None:
        known = self._secrets.snapshot(ObjectKey(account.metadata.namespace, account.metadata.name))
        after = with_failure(account, problem, self._clock.now(), secret=known is not None)
        if await self._write_status(account, after):
            log.warning("no token for an account", account=account.metadata.name, problem=problem)

    async def _write_status(self, before: ManagedServiceAccount, after: ManagedServiceAccount) -> bool:
        answer = await patch_object(self._hub, before, after, status=True)
        if answer is not None:
            self._latest.record_write(answer)
        return answer is not None

    # It is no longer wanted.

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
        log.info("account removed", account=found.name)
