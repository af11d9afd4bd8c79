"""Errors of the resolver's functions and of its encryption. The classes are go-template-utils' sentinel errors, with its
messages.

A message contains constants and the function's arguments, which are in `arguments`: sensitive data can get into it only through
them. If one of these errors is the reason why a template was not resolved, it is the `__cause__` of the ResolveError.
"""

from __future__ import annotations

from muster.gotemplate import GoError


class FunctionError(GoError):
    """`arguments` are the arguments of the call that the message may contain."""

    def __init__(self, text: str, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.arguments = arguments


class EncryptionError(FunctionError):
    """A value cannot be encrypted or decrypted."""


class InvalidKey(EncryptionError):
    """The AES key is missing or has a wrong length."""


class InvalidInitializationVector(EncryptionError):
    """It is missing or does not have 16 bytes."""


class InvalidBase64(EncryptionError):
    """The text after `$ocm_encrypted:` is not base64."""


class InvalidPadding(EncryptionError):
    """The value was not encrypted with this key."""


class ProtectNotEnabled(FunctionError):
    pass


class DeniedFunction(FunctionError):
    pass


class NewLinesNotAllowed(FunctionError):
    pass


class InvalidInput(FunctionError):
    """Required arguments are missing or invalid."""


class RestrictedNamespace(FunctionError):
    pass


class ClusterScopedLookup(FunctionError):
    """Lookups are restricted to a namespace, and the allow list does not contain this cluster-scoped object."""


class MissingAPIResource(FunctionError):
    """The server does not serve the kind."""


class ObjectNotFound(FunctionError):
    pass


class LookupFailed(FunctionError):
    """The server refused or could not be reached; `__cause__` is the client's error."""


class InvalidContext(FunctionError):
    """The context contains a value of an unsupported type."""
