"""gRPC's headers: timeouts, metadata, and the status of a call.

The status is sent in trailers; its message is percent-encoded. Values of keys that end in `-bin` are base64 on the wire; they are
not decoded here, since they are not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

from muster.http.http2.fields import Fields, encode
from muster.transport.rpc.interfaces import Metadata
from muster.transport.rpc.status import Code, RpcError

CONTENT_TYPE: Final = b"application/grpc"
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])").fullmatch
_RESERVED: Final = frozenset(
    {"content-type", "te", "user-agent", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding", "content-length"}
)
_RESERVED_ANSWERS: Final = frozenset({"content-type", "grpc-status", "grpc-message", "grpc-encoding", "grpc-accept-encoding"})
_PLAIN: Final = re.compile(rb"[ -$&-~]*").fullmatch

OK_HEAD: Final = encode(((b":status", b"200"), (b"content-type", CONTENT_TYPE)))
OK_TRAILERS: Final = encode(((b"grpc-status", b"0"),))


def is_grpc(content_type: bytes) -> bool:
    kind = content_type.lower()
    return kind.startswith(CONTENT_TYPE) and kind[len(CONTENT_TYPE) : len(CONTENT_TYPE) + 1] in (b"", b"+", b";")


def parse_timeout(value: bytes) -> float:
    """Raises RpcError."""
    found = _TIMEOUT(value)
    if found is None:
        raise RpcError(Code.INTERNAL, "malformed grpc-timeout: at most eight digits and one of H, M, S, m, u, n are expected")
    return int(found[1]) * _UNITS[found[2]]


def format_timeout(seconds: float) -> bytes:
    """At least a millisecond, and never less than the given time."""
    milliseconds = max(1, -int(-seconds * 1000 // 1))
    if milliseconds < 10**8:
        return b"%dm" % milliseconds
    return b"%dS" % min(-(-milliseconds // 1000), 10**8 - 1)


def metadata_of(fields: Fields, reserved: frozenset[str] = _RESERVED) -> Metadata:
    """Without the headers of HTTP and gRPC. Values of a repeated key are joined by commas."""
    found: dict[str, str] = {}
    for raw, value in fields:
        if raw[:1] == b":":
            continue
        name = raw.decode("latin-1")
        if name in reserved:
            continue
        text = value.decode("latin-1")
        found[name] = f"{found[name]},{text}" if name in found else text
    return found


def answer_metadata(fields: Fields) -> Metadata:
    return metadata_of(fields, _RESERVED_ANSWERS)


def metadata_fields(metadata: Metadata) -> Iterable[tuple[bytes, bytes]]:
    """Raises ValueError for invalid header names and values."""
    for name, value in metadata.items():
        if name.startswith((":", "grpc-")) or name != name.lower():
            raise ValueError(f"the metadata key {name!r} is not for calls; keys are in lower case, and grpc- is gRPC's own")
        yield name.encode("latin-1"), value.encode("latin-1")


def answer_head(metadata: Metadata) -> bytes:
    return OK_HEAD + encode(metadata_fields(metadata)) if metadata else OK_HEAD


def status_fields(code: Code, message: str) -> list[tuple[bytes, bytes]]:
    fields = [(b"grpc-status", b"%d" % code)]
    if message:
        fields.append((b"grpc-message", _encode_message(message)))
    return fields


def trailers(code: Code, message: str) -> bytes:
    return OK_TRAILERS if code is Code.OK and not message else encode(status_fields(code, message))


def trailers_only(code: Code, message: str, status: bytes = b"200", extra: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """The response to a call that ends with its head."""
    return encode([(b":status", status), (b"content-type", CONTENT_TYPE), *extra, *status_fields(code, message)])


def _encode_message(message: str) -> bytes:
    raw = message.encode("utf-8", "replace")
    if _PLAIN(raw):
        return raw
    return b"".join([bytes((byte,)) if 32 <= byte <= 126 and byte != 37 else b"%%%02X" % byte for byte in raw])


def read_status(fields: Fields) -> RpcError | None:
    """The status of a call in its trailers; None if there is none."""
    found = dict(fields)
    raw = found.get(b"grpc-status")
    if raw is None:
        return None
    try:
        code = Code(int(raw))
    except ValueError:
        return RpcError(Code.UNKNOWN, "the server ended the call with a status that gRPC does not have")
    return RpcError(code, unquote_to_bytes(found.get(b"grpc-message", b"")).decode("utf-8", "replace"))


_BY_HTTP: Final = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    429: Code.UNAVAILABLE,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
}


def status_of_http(status: int) -> RpcError:
    """The status for a response that is not gRPC's, e.g. of a proxy."""
    return RpcError(_BY_HTTP.get(status, Code.UNKNOWN), f"the answer is not gRPC's: HTTP status {status}")
