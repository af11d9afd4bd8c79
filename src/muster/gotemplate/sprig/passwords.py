"""sprig's passwords and symmetric encryption: bcrypt, htpasswd, derivePassword, AES, random bytes, UUIDs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid

from muster.gotemplate.limits import charge_size
from muster.gotemplate.signature import FuncTable
from muster.gotemplate.sprig import blowfish
from muster.gotemplate.sprig.encodings import CorruptInput, decode_base64
from muster.machinery.golang.errors import GoError
from muster.machinery.golang.text import decode, encode

PASSWORDS = FuncTable()
_SEED = b"com.lyndir.masterpassword"
_TEMPLATES = {
    "maximum": ["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
    "long": [
        "CvcvnoCvcvCvcv", "CvcvCvcvnoCvcv", "CvcvCvcvCvcvno", "CvccnoCvcvCvcv", "CvccCvcvnoCvcv", "CvccCvcvCvcvno",
        "CvcvnoCvccCvcv", "CvcvCvccnoCvcv", "CvcvCvccCvcvno", "CvcvnoCvcvCvcc", "CvcvCvcvnoCvcc", "CvcvCvcvCvccno",
        "CvccnoCvccCvcv", "CvccCvccnoCvcv", "CvccCvccCvcvno", "CvcvnoCvccCvcc", "CvcvCvccnoCvcc", "CvcvCvccCvccno",
        "CvccnoCvcvCvcc", "CvccCvcvnoCvcc", "CvccCvcvCvccno",
    ],
    "medium": ["CvcnoCvc", "CvcCvcno"],
    "short": ["Cvcn"],
    "basic": ["aaanaaan", "aannaaan", "aaannaaa"],
    "pin": ["nnnn"],
}  # fmt: skip
_LETTERS = {
    "V": "AEIOU",
    "C": "BCDFGHJKLMNPQRSTVWXYZ",
    "v": "aeiou",
    "c": "bcdfghjklmnpqrstvwxyz",
    "A": "AEIOUBCDFGHJKLMNPQRSTVWXYZ",
    "a": "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
    "n": "0123456789",
    "o": "@&%?,=[]_:-+*$#!'^~;()/.",
    "x": "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
}


@PASSWORDS.add("bcrypt", "string", "string")
def bcrypt(password: str) -> str:
    data = encode(password)
    if len(data) > 72:
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
    return blowfish.bcrypt(data, secrets.token_bytes(16), cost=10)


@PASSWORDS.add("htpasswd", "string, string", "string")
def htpasswd(user: str, password: str) -> str:
    return f"invalid username: {user}" if ":" in user else f"{user}:{bcrypt(password)}"


@PASSWORDS.add("derivePassword", "uint32, string, string, string, string", "string")
def derive_password(counter: int, kind: str, password: str, user: str, site: str) -> str:
    templates = _TEMPLATES.get(kind)
    if templates is None:
        return f"cannot find password template {kind}"
    name, place = encode(user), encode(site)
    salt = _SEED + len(name).to_bytes(4, "big") + name
    key = hashlib.scrypt(encode(password), salt=salt, n=32768, r=8, p=2, maxmem=128 << 20, dklen=64)
    message = _SEED + len(place).to_bytes(4, "big") + place + int(counter).to_bytes(4, "big")
    seed = hmac.digest(key, message, "sha256")
    template = templates[seed[0] % len(templates)]
    return "".join(_LETTERS[slot][byte % len(_LETTERS[slot])] for slot, byte in zip(template, seed[1:], strict=False))


@PASSWORDS.add("randBytes", "int", "string")
def rand_bytes(count: int) -> str:
    if count < 0:
        raise GoError("runtime error: makeslice: len out of range")
    charge_size(count)
    return base64.b64encode(secrets.token_bytes(count)).decode()


@PASSWORDS.add("uuidv4", "", "string")
def uuidv4() -> str:
    return str(uuid.uuid4())


def _aes(password: str, vector: bytes):  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(encode(password)[:32].ljust(32, b"\0")), modes.CBC(vector))


@PASSWORDS.add("encryptAES", "string, string", "string")
def encrypt_aes(password: str, text: str) -> str:
    if not text:
        return ""
    data = encode(text)
    padding = 16 - len(data) % 16
    vector = secrets.token_bytes(16)
    encryptor = _aes(password, vector).encryptor()
    sealed = encryptor.update(data + bytes([padding]) * padding) + encryptor.finalize()
    return base64.b64encode(vector + sealed).decode()


@PASSWORDS.add("decryptAES", "string, string", "string")
def decrypt_aes(password: str, text: str) -> str:
    if not text:
        return ""
    try:
        data = decode_base64(encode(text))
    except CorruptInput as error:
        raise GoError(f"illegal base64 data at input byte {error}") from None
    if len(data) < 16:
        raise GoError(f"runtime error: slice bounds out of range [:16] with capacity {_go_capacity(text)}")
    if len(data) % 16:
        raise GoError("crypto/cipher: input not full blocks")
    decryptor = _aes(password, data[:16]).decryptor()
    plain = decryptor.update(data[16:]) + decryptor.finalize()
    if not plain:
        raise GoError("runtime error: index out of range [-1]")
    if plain[-1] > len(plain):
        raise GoError(f"runtime error: slice bounds out of range [:{len(plain) - plain[-1]}]")
    return decode(plain[: len(plain) - plain[-1]])


def _go_capacity(text: str) -> int:
    """The size of Go's buffer for decoding this text."""
    return len(text) // 4 * 3
