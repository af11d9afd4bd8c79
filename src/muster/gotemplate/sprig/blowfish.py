"""bcrypt, for which neither the standard library nor `cryptography` has a public function.

The system's own `crypt(3)` is used where it knows bcrypt; elsewhere the cipher runs here in plain Python, which gives the
same hash a hundred times more slowly. Blowfish's tables are the first digits of pi, so they are computed, not listed.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator
from functools import cache

_ALPHABET = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_MAGIC = b"OrpheanBeholderScryDoubt"
_MASK = 0xFFFFFFFF


def _encode(data: bytes) -> str:
    """bcrypt's base64: its own alphabet, no padding."""
    out = []
    for at in range(0, len(data), 3):
        chunk = data[at : at + 3]
        bits = int.from_bytes(chunk.ljust(3, b"\0"), "big")
        out.append("".join(_ALPHABET[bits >> shift & 63] for shift in (18, 12, 6, 0))[: len(chunk) + 1])
    return "".join(out)


@cache
def _system_crypt() -> ctypes.CDLL | None:
    name = ctypes.util.find_library("crypt")
    if not name:
        return None
    try:
        library = ctypes.CDLL(name)
        library.crypt.restype = ctypes.c_char_p
        library.crypt.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    except (OSError, AttributeError):
        return None
    return library


def _arctan_inverse(x: int, unity: int) -> int:
    total = term = unity // x
    n, sign = 3, -1
    while term:
        term //= x * x
        total += sign * (term // n)
        n, sign = n + 2, -sign
    return total


@cache
def _pi_words() -> tuple[int, ...]:
    """The fraction of pi as 32-bit words: 18 subkeys and 4 boxes of 256."""
    words = 18 + 4 * 256
    bits, guard = 32 * words, 64
    unity = 1 << (bits + guard)
    pi = 4 * (4 * _arctan_inverse(5, unity) - _arctan_inverse(239, unity))
    fraction = (pi - 3 * unity) >> guard
    return tuple(fraction >> (bits - 32 * (at + 1)) & _MASK for at in range(words))


class _Blowfish:
    def __init__(self) -> None:
        words = list(_pi_words())
        self.keys = words[:18]
        self.boxes = [words[18 + 256 * at : 18 + 256 * (at + 1)] for at in range(4)]

    def encrypt(self, left: int, right: int) -> tuple[int, int]:
        box0, box1, box2, box3 = self.boxes
        keys = self.keys
        left ^= keys[0]
        for at in range(1, 17, 2):
            mixed = (box0[left >> 24] + box1[left >> 16 & 255]) ^ box2[left >> 8 & 255]
            right ^= ((mixed + box3[left & 255]) & _MASK) ^ keys[at]
            mixed = (box0[right >> 24] + box1[right >> 16 & 255]) ^ box2[right >> 8 & 255]
            left ^= ((mixed + box3[right & 255]) & _MASK) ^ keys[at + 1]
        return right ^ keys[17], left

    def expand(self, key: bytes, salt: bytes) -> None:
        key_words, salt_words = _words(key), _words(salt)
        self.keys = [word ^ next(key_words) for word in self.keys]
        left = right = 0
        for table in (self.keys, *self.boxes):
            for at in range(0, len(table), 2):
                left, right = self.encrypt(left ^ next(salt_words), right ^ next(salt_words))
                table[at], table[at + 1] = left, right


def _words(data: bytes) -> Iterator[int]:
    """The bytes repeated, four at a time; no bytes count as zeros."""
    data = data or b"\0\0\0\0"
    at = 0
    while True:
        word = 0
        for _ in range(4):
            word = word << 8 | data[at]
            at = (at + 1) % len(data)
        yield word


def _bcrypt_digest(password: bytes, salt: bytes, cost: int) -> bytes:
    key = password + b"\0"
    cipher = _Blowfish()
    cipher.expand(key, salt)
    zeros = b"\0" * 16
    for _ in range(1 << cost):
        cipher.expand(key, zeros)
        cipher.expand(salt, zeros)
    words = _words(_MAGIC)
    out = b""
    for _ in range(3):
        left, right = next(words), next(words)
        for _ in range(64):
            left, right = cipher.encrypt(left, right)
        out += left.to_bytes(4, "big") + right.to_bytes(4, "big")
    return out[:23]


def bcrypt(password: bytes, salt: bytes, cost: int) -> str:
    """The hash in its usual form, `$2a$<cost>$<salt><digest>`."""
    setting = f"$2a${cost:02d}${_encode(salt)}"
    library = _system_crypt()
    if library is not None and b"\0" not in password:
        found = library.crypt(password, setting.encode())
        if found and found.startswith(setting[:7].encode()) and len(found) == 60:
            return str(found.decode())
    return setting + _encode(_bcrypt_digest(password, salt, cost))
