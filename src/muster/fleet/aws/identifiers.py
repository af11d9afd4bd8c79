"""Unique ids in AWS' format: a prefix of four letters for the type, and seventeen random characters."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

RandomBytes = Callable[[int], bytes]

ROLE: Final = "AROA"
USER: Final = "AIDA"
POLICY: Final = "ANPA"
KEY: Final = "AKIA"
SESSION_KEY: Final = "ASIA"
_LENGTH: Final = 17


def unique_id(prefix: str, random: RandomBytes) -> str:
    return prefix + base64.b32encode(random(11))[:_LENGTH].decode()


def uuid(random: RandomBytes) -> str:
    text = random(16).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def secret(random: RandomBytes) -> str:
    return base64.b64encode(random(30)).decode()
