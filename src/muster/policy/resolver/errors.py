"""Why a function of the resolver, or its encryption, failed. The classes are go-template-utils' sentinel errors, with its texts.

A text holds constants and the function's own arguments, which `arguments` lists: what is sensitive can come into it only through
them. When one of these is why a template was not resolved, it is the `__cause__` of the ResolveError.
"""

from __future__ import annotations

from muster.gotemplate import GoError


class FunctionError(GoError):
    """`arguments` are those of the call that the text may show."""

    def __init__(self, text: str, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.arguments = arguments


class EncryptionError(FunctionError):
    """A value cannot be encrypted or decrypted."""


class InvalidKey(EncryptionError):
    """There is no AES key, or it has a wrong length."""


class InvalidInitializationVector(EncryptionError):
    """There is none, or it has not 16 bytes."""


class InvalidBase64(EncryptionError):
    """What follows `$ocm_encrypted:` is no base64."""


class InvalidPadding(EncryptionError):
    """What was decrypted was not encrypted with this key."""


class ProtectNotEnabled(FunctionError):
    pass


class DeniedFunction(FunctionError):
    pass


class NewLinesNotAllowed(FunctionError):
    pass


class InvalidInput(FunctionError):
    """Arguments that are required are missing, or cannot be understood."""


class RestrictedNamespace(FunctionError):
    pass


class ClusterScopedLookup(FunctionError):
    """Lookups are restricted to a namespace, and the allow list does not name this cluster-scoped object."""


class MissingAPIResource(FunctionError):
    """The server has no such kind."""


class ObjectNotFound(FunctionError):
    pass


class LookupFailed(FunctionError):
    """The server refused or could not be asked; `__cause__` is the client's error."""


class InvalidContext(FunctionError):
    """The context holds something that templates cannot have."""
