"""Decryption keys of policies: the policy framework encrypts values that hub templates read from Secrets.

A policy with the annotation `encryption-iv` is encrypted; the key, and during rotation the previous one, are in a Secret in the
policy's namespace. If there is such a policy, the Secret is watched by name, so that a new key is used without a request per
evaluation.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from muster.api.policy.v1 import ConfigurationPolicy
from muster.machinery.clock import SYSTEM, Clock, within
from muster.machinery.objects import Object, ObjectKey
from muster.policy.names import ENCRYPTION_IV_ANNOTATION, ENCRYPTION_KEY_SECRET
from muster.policy.resolver.interfaces import Encryption
from muster.runtime.cache import Informer, Informers, Snapshot
from muster.runtime.client import Unreachable
from muster.runtime.client.builtin import SECRETS

REASON: Final = "Template encryption configuration error"
SYNC_TIMEOUT: Final = 15.0
"""Seconds within which the cache of the key must have synced."""


class EncryptionError(Exception):
    """Why a policy cannot be decrypted; the message is for its status."""


def is_encrypted(policy: ConfigurationPolicy) -> bool:
    return bool(policy.metadata.annotations.get(ENCRYPTION_IV_ANNOTATION))


def decryption(policy: ConfigurationPolicy, secret: Object | None) -> Encryption:
    """The decryption options of an encrypted policy; `secret` contains the keys. Raises EncryptionError."""
    namespace = policy.metadata.namespace
    try:
        vector = base64.b64decode(policy.metadata.annotations[ENCRYPTION_IV_ANNOTATION], validate=True)
    except ValueError as error:  # For non-ASCII text, this is not a binascii.Error.
        raise EncryptionError(f'the policy annotation of "{ENCRYPTION_IV_ANNOTATION}" is not Base64: {error}') from None
    if secret is None:
        raise EncryptionError(
            f"failed to get the encryption key from Secret {namespace}/{ENCRYPTION_KEY_SECRET}: "
            f'Secret "{ENCRYPTION_KEY_SECRET}" not found'
        )
    data: dict[str, Any] = secret.get("data") or {}
    key, previous = (base64.b64decode(data.get(name) or "") for name in ("key", "previousKey"))
    return Encryption(key=key, fallback_key=previous, initialization_vector=vector, decrypt=True)


class EncryptionKeys:
    def __init__(self, informers: Informers, namespaces: Sequence[str], *, clock: Clock = SYSTEM) -> None:
        """An empty namespace means all. Nothing is watched before an encrypted policy needs it."""
        self._informers = informers
        self._namespaces = namespaces
        self._clock = clock
        self._followed: dict[str, Informer[Snapshot]] = {}
        self._handlers: list[Callable[[str], None]] = []

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with the namespace of a changed key."""
        self._handlers.append(handler)

    async def get(self, policy: ConfigurationPolicy) -> Encryption | None:
        """None for a policy that is not encrypted. Raises EncryptionError, and Unreachable if the cache does not sync in time."""
        if not is_encrypted(policy):
            return None
        namespace = policy.metadata.namespace
        informer = self._follow(namespace if namespace in self._namespaces else "")
        if not informer.has_synced:
            try:
                await within(self._clock, SYNC_TIMEOUT, informer.synced())
            except TimeoutError:
                reason = informer.outage or "the encryption key was not read in time"
                raise Unreachable(informer.client.server, reason) from None
        found = informer.cache.get(ObjectKey(namespace, ENCRYPTION_KEY_SECRET))
        return decryption(policy, None if found is None else found.data)

    def _follow(self, namespace: str) -> Informer[Snapshot]:
        informer = self._followed.get(namespace)
        if informer is None:
            informer = self._informers.of(SECRETS, namespace, field_selector=f"metadata.name={ENCRYPTION_KEY_SECRET}")
            informer.on_change(partial(self._changed, informer))
            self._followed[namespace] = informer
        return informer

    def _changed(self, informer: Informer[Snapshot], old: Snapshot | None, new: Snapshot | None) -> None:
        found = new or old
        # The first state is awaited by `get`.
        if found is not None and informer.has_synced:
            for handler in self._handlers:
                handler(found.namespace)
