"""Continue tokens of paged lists: the revision of all pages, and the key at which the next page starts.

A token is opaque to clients and has kube-apiserver's form: base64url of `{"v","rv","start"}` (`storage.EncodeContinue`). An invalid
token is rejected with the message of upstream's decoder.
"""

from __future__ import annotations

import base64
from typing import Any

import orjson

from muster.apiserver import errors
from muster.apiserver.decode.jsonsyntax import syntax_problem
from muster.apiserver.decode.strict import json_kind

_VERSION = "meta.k8s.io/v1"
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def encode_token(revision: int, start: str) -> str:
    raw = orjson.dumps({"v": _VERSION, "rv": revision, "start": start})
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_token(token: str) -> tuple[int | None, str]:
    """(revision, or None for the newest; key relative to the prefix of the list)."""
    raw = _token_fields(_token_bytes(token))
    version, revision, start = raw.get("v") or "", raw.get("rv") or 0, raw.get("start") or ""
    if version != _VERSION:
        raise errors.bad_continue(f"server does not recognize this encoded version {version}")
    if not isinstance(revision, int) or revision == 0:
        raise errors.bad_continue(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not isinstance(start, str) or not start:
        raise errors.bad_continue(f"encoded start key empty (version {_VERSION})")
    return (None if revision < 0 else revision), start


def _token_bytes(token: str) -> bytes:
    wrong = next((index for index, char in enumerate(token) if char not in _ALPHABET), None)
    if wrong is None and len(token) % 4 == 1:
        wrong = len(token) - 1
    if wrong is not None:
        raise errors.bad_continue(f"illegal base64 data at input byte {wrong}")
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def _token_fields(raw: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise errors.bad_continue(syntax_problem(raw)) from None
    if not isinstance(fields, dict):
        raise errors.bad_continue(f"json: cannot unmarshal {json_kind(fields)} into Go value of type storage.continueToken")
    return fields
