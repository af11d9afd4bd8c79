"""The keys by which a policy's templates are decrypted: the policy framework encrypts what hub templates read of Secrets.

A policy with the annotation `encryption-iv` is encrypted; the key, and the one before it while keys rotate, are in a Secret of the
policy's namespace. Where there is such a policy, the Secret is followed by name, so that a new key is used without asking for it at
each evaluation.
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
"""Seconds within which the key of a namespace is to be known."""


class EncryptionError(Exception):
    """Why a policy cannot be decrypted; the text is for its status."""


def is_encrypted(policy: ConfigurationPolicy) -> bool:
    return bool(policy.metadata.annotations.get(ENCRYPTION_IV_ANNOTATION))


def decryption(policy: ConfigurationPolicy, secret: Object | None) -> Encryption:
    """What an encrypted policy is decrypted with; `secret` holds the keys. Raises EncryptionError."""
    namespace = policy.metadata.namespace
    try:
        vector = base64.b64decode(policy.metadata.annotations[ENCRYPTION_IV_ANNOTATION], validate=True)
    except ValueError as error:  # Also for what is not even ASCII, which is no binascii.Error.
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
        """An empty namespace stands for all. Nothing is followed before an encrypted policy needs it."""
        self._informers = informers
        self._namespaces = namespaces
        self._clock = clock
        self._followed: dict[str, Informer[Snapshot]] = {}
        self._handlers: list[Callable[[str], None]] = []

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with a namespace whose key changed."""
        self._handlers.append(handler)

    async def of(self, policy: ConfigurationPolicy) -> Encryption | None:
        """None for a policy that is not encrypted. Raises EncryptionError, and Unreachable where the key did not come in time."""
        if not is_encrypted(policy):
            return None
        namespace = policy.metadata.namespace
        informer = self._follow(namespace if namespace in self._namespaces else "")
        if not informer.has_synced:
            try:
                await within(self._clock, SYNC_TIMEOUT, informer.synced())
            except TimeoutError:
                reason = informer.outage or "the encryption key did not come in time"
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
        # Whoever needs the first state waits for it.
        if found is not None and informer.has_synced:
            for handler in self._handlers:
                handler(found.namespace)
