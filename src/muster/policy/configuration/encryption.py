"""The keys by which a policy's templates are decrypted: the policy framework encrypts what hub templates read of Secrets.

A policy with the annotation `encryption-iv` is encrypted; the key, and the one before it while keys rotate, are in a Secret of the
policy's namespace. The Secrets are followed by name, so that a new key is used without asking for it at each evaluation.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final

from muster.api.policy.v1 import ConfigurationPolicy
from muster.machinery.objects import Object, ObjectKey
from muster.policy.names import ENCRYPTION_IV_ANNOTATION, ENCRYPTION_KEY_SECRET
from muster.policy.resolver.interfaces import Encryption
from muster.runtime.cache import Informer, Informers, Snapshot
from muster.runtime.client.builtin import SECRETS

REASON: Final = "Template encryption configuration error"


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
    def __init__(self, informers: Informers, namespaces: Sequence[str]) -> None:
        """An empty namespace stands for all."""
        self.informers: list[Informer[Snapshot]] = [
            informers.of(SECRETS, namespace, field_selector=f"metadata.name={ENCRYPTION_KEY_SECRET}") for namespace in namespaces
        ]

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with a namespace whose key changed."""

        def changed(old: Snapshot | None, new: Snapshot | None) -> None:
            found = new or old
            if found is not None:
                handler(found.namespace)

        for informer in self.informers:
            informer.on_change(changed)

    def of(self, policy: ConfigurationPolicy) -> Encryption | None:
        """None for a policy that is not encrypted. Raises EncryptionError."""
        if not is_encrypted(policy):
            return None
        return decryption(policy, self._secret(policy.metadata.namespace))

    def _secret(self, namespace: str) -> Object | None:
        key = ObjectKey(namespace, ENCRYPTION_KEY_SECRET)
        return next((found.data for informer in self.informers if (found := informer.cache.get(key)) is not None), None)
