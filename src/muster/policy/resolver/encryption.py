"""Encrypted values in policies, which only the managed cluster's controller can decrypt: `$ocm_encrypted:` and base64 of
AES-CBC.

The hub's policy framework encrypts values that its templates read from Secrets (`protect`); the controller on the managed
cluster decrypts them before it resolves the managed templates. Both have the key, which the hub rotates: during rotation, the
previous key is tried too. Equal values have equal ciphertexts, because the initialization vector is the policy's, so that an
unchanged policy stays unchanged.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from muster.gotemplate.sprig.encodings import CorruptInput, decode_base64
from muster.machinery.golang.text import decode, encode
from muster.policy.resolver.errors import EncryptionError, InvalidBase64, InvalidInitializationVector, InvalidKey, InvalidPadding
from muster.policy.resolver.interfaces import Encryption

PROTECTED_PREFIX: Final = "$ocm_encrypted:"
_BLOCK: Final = 16
_KEY_SIZES: Final = frozenset({16, 24, 32})
_PROTECTED: Final = re.compile(re.escape(PROTECTED_PREFIX) + r"([a-zA-Z0-9+/=]+)")
_SHOWN: Final = 40
"""Characters of a ciphertext in an error message."""


def check(encryption: Encryption) -> None:
    """Raises InvalidKey or InvalidInitializationVector if encryption or decryption is required but not possible."""
    if not (encryption.encrypt or encryption.decrypt):
        return
    if not encryption.key:
        raise InvalidKey("AESKey must be set to use this encryption mode")
    for key in (encryption.key, encryption.fallback_key):
        if key and len(key) not in _KEY_SIZES:
            raise InvalidKey(f"the AES key is invalid: crypto/aes: invalid key size {len(key)}")
    if not encryption.initialization_vector:
        raise InvalidInitializationVector("initialization vector must be set to use this encryption mode")
    if len(encryption.initialization_vector) != _BLOCK:
        raise InvalidInitializationVector("initialization vector must be 128 bits")


def protect(encryption: Encryption, value: str) -> str:
    if not value:
        return value
    data = encode(value)
    padding = _BLOCK - len(data) % _BLOCK
    encryptor = Cipher(AES(encryption.key), CBC(encryption.initialization_vector)).encryptor()
    encrypted = encryptor.update(data + bytes([padding]) * padding) + encryptor.finalize()
    return PROTECTED_PREFIX + base64.b64encode(encrypted).decode()


def unprotect(encryption: Encryption, text: str) -> tuple[str, bool]:
    """The text with all values decrypted, and whether there were any.

    New lines become the two characters `\n`, so that they do not change the structure of the document.
    """

    def plaintext(match: re.Match[str]) -> str:
        try:
            return decode(_decrypt(encryption, match[1])).replace("\n", "\\n")
        except EncryptionError as error:
            shown = match[0] if len(match[0]) <= _SHOWN else match[0][:_SHOWN] + "…"
            raise type(error)(f"decryption of {shown} failed: {error}") from None

    decrypted, count = _PROTECTED.subn(plaintext, text)
    return decrypted, count > 0


def _decrypt(encryption: Encryption, value: str) -> bytes:
    try:
        data = decode_base64(value.encode())
    except CorruptInput as error:
        raise InvalidBase64(f"the encrypted string is invalid base64: illegal base64 data at input byte {error}") from None
    if not data or len(data) % _BLOCK:
        raise InvalidPadding("invalid PCKS7 padding: the encrypted string is not made of full blocks")
    failure: InvalidPadding | None = None
    for key in filter(None, (encryption.key, encryption.fallback_key)):
        decryptor = Cipher(AES(key), CBC(encryption.initialization_vector)).decryptor()
        try:
            return _unpadded(decryptor.update(data) + decryptor.finalize())
        except InvalidPadding as error:
            failure = error
    raise failure or InvalidKey("AESKey must be set to use this encryption mode")


def _unpadded(data: bytes) -> bytes:
    padding = data[-1]
    if padding == 0 or padding > len(data):
        raise InvalidPadding("invalid PCKS7 padding: the padding length is invalid")
    if data[-padding:] != bytes([padding]) * padding:
        raise InvalidPadding("invalid PCKS7 padding: not all the padding bytes match")
    return data[:-padding]
