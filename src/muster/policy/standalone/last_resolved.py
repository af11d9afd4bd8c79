"""The last resolved state of each policy with hub templates: a Secret beside the policy, for times when the hub cannot be
reached.

It is named `<policy UID>-last-resolved`, has an owner reference to the policy, and contains the stripped policy as JSON, in
upstream's form. It is a Secret because templates may have read Secrets of the hub. It is written before the state is enforced,
and only if it has changed; it is always the hub's last result for this generation of the policy. A Secret from another source
(of another policy, generation or owner, or with unresolved templates) is never used.

Secrets of the policies' namespaces are watched, so that no requests are needed while nothing changes; of other Secrets only the
names are cached.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from muster.machinery.clock import SYSTEM, Clock, within
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.policy.names import CONTROLLER, LAST_RESOLVED_KEY, LAST_RESOLVED_SUFFIX
from muster.policy.standalone.document import has_hub_templates, is_same_policy
from muster.runtime.cache import Informers, MutationCache
from muster.runtime.client import AlreadyExists, Forbidden, Invalid, KubeClient, NotFound, StatusError, Unreachable
from muster.runtime.client.builtin import SECRETS

log = get_logger("muster.policy.standalone.last_resolved")

SYNC_TIMEOUT: Final = 15.0
"""Seconds within which the cache of a namespace's Secrets must have synced."""
_TOO_LARGE: Final = 413


class _Owner(msgspec.Struct, frozen=True, gc=False):
    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    ownerReferences: list[_Owner] | None = None


class SavedSecret(msgspec.Struct, frozen=True):
    """The cached part of a Secret: everything relevant if it contains a policy, otherwise the name."""

    metadata: _Metadata
    data: dict[str, str] | None = None

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.metadata.namespace, self.metadata.name)


_read = msgspec.json.Decoder(SavedSecret).decode


def _reduced(raw: bytes) -> bytes:
    secret = _read(raw)
    if not secret.metadata.name.endswith(LAST_RESOLVED_SUFFIX):
        secret = msgspec.structs.replace(secret, data=None)
    return msgspec.json.encode(secret)


class LastResolved:
    def __init__(self, client: KubeClient, informers: Informers, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._caches: dict[str, MutationCache[SavedSecret]] = {}

    async def load(self, policy: Object) -> Object | None:
        """The last resolved, stripped policy; None if there is none of this generation. Raises KubeError."""
        cache = await self._cache(policy)
        secret = cache.get(key_of_saved(policy))
        if secret is None:
            return None
        document = _document(secret)
        mismatch = _mismatch(secret, document, policy)
        if mismatch:
            log.warning("last resolved policy not used", **_fields(policy), reason=mismatch)
            return None
        return document

    async def save(self, policy: Object, document: Object) -> None:
        """Save a resolved, stripped policy, unless it is saved already. Raises KubeError.

        If the cluster does not accept the Secret (for example because it is too large), the previous one is deleted.
        """
        cache = await self._cache(policy)
        key = key_of_saved(policy)
        secret = cache.get(key)
        owner = _owner_of(policy)
        if secret is not None and secret.metadata.ownerReferences == [owner] and _document(secret) == document:
            return
        references = [msgspec.to_builtins(owner)]
        data = {LAST_RESOLVED_KEY: base64.b64encode(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).decode()}
        try:
            cache.record_write(await self._write(key, references, data, exists=secret is not None))
        except StatusError as error:
            if not isinstance(error, Forbidden | Invalid) and error.code != _TOO_LARGE:
                raise
            log.warning("last resolved policy not saved", **_fields(policy), error=str(error))
            await self.remove(policy)

    async def remove(self, policy: Object) -> None:
        """Raises KubeError."""
        cache = await self._cache(policy)
        key = key_of_saved(policy)
        secret = cache.get(key)
        if secret is None:
            return
        try:
            answer = await self._client.delete(SECRETS, key.name, key.namespace)
        except NotFound:
            answer = {"kind": "Status"}
        cache.record_delete(key, secret.metadata.uid, answer)
        log.info("last resolved policy removed", **_fields(policy))

    async def _write(self, key: ObjectKey, references: list[Any], data: Mapping[str, str], *, exists: bool) -> Object:
        metadata = {"name": key.name, "namespace": key.namespace, "ownerReferences": references}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
        if not exists:
            try:
                return await self._client.create(SECRETS, secret, manager=CONTROLLER)
            except AlreadyExists:
                pass
        patch = {"metadata": {"ownerReferences": references}, "data": data}
        try:
            return await self._client.patch(SECRETS, key.name, patch, key.namespace, manager=CONTROLLER)
        except NotFound:
            pass
        except Invalid:
            # It was made immutable.
            await self._client.delete(SECRETS, key.name, key.namespace)
        return await self._client.create(SECRETS, secret, manager=CONTROLLER)

    async def _cache(self, policy: Object) -> MutationCache[SavedSecret]:
        namespace = policy["metadata"]["namespace"]
        informer = self._informers.of(SECRETS, namespace, decode=_read, reduce=_reduced)
        if namespace not in self._caches:
            self._caches[namespace] = cache = MutationCache(informer, clock=self._clock)
            informer.on_change(lambda old, new: None if new or not old else cache.confirm_delete(old.key, old.metadata.uid))
        if not informer.has_synced:
            try:
                await within(self._clock, SYNC_TIMEOUT, informer.synced())
            except TimeoutError:
                reason = informer.outage or "its Secrets were not read in time"
                raise Unreachable(self._client.server, reason) from None
        return self._caches[namespace]


def key_of_saved(policy: Object) -> ObjectKey:
    metadata = policy["metadata"]
    return ObjectKey(metadata["namespace"], metadata["uid"] + LAST_RESOLVED_SUFFIX)


def _owner_of(policy: Object) -> _Owner:
    metadata = policy["metadata"]
    return _Owner(policy["apiVersion"], policy["kind"], metadata["name"], metadata["uid"])


def _document(secret: SavedSecret) -> Object | None:
    try:
        document = orjson.loads(base64.b64decode((secret.data or {}).get(LAST_RESOLVED_KEY, ""), validate=True))
    except (binascii.Error, orjson.JSONDecodeError):
        return None
    return document if isinstance(document, dict) else None


def _fields(policy: Object) -> dict[str, str]:
    metadata = policy["metadata"]
    return {"kind": policy["kind"], "namespace": metadata["namespace"], "name": metadata["name"]}


def _mismatch(secret: SavedSecret, document: Object | None, policy: Object) -> str:
    """Why a Secret is not the last resolved state of the policy; empty if it is."""
    if _owner_of(policy) not in (secret.metadata.ownerReferences or ()):
        return "it does not belong to the policy"
    if document is None or not isinstance(document.get("spec"), dict):
        return "it contains no policy"
    if not is_same_policy(document, policy):
        return "it is of another policy or generation"
    return "its hub templates are not resolved" if has_hub_templates(document["spec"]) else ""
