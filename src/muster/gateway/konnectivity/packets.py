"""Konnectivity's packets in protobuf's wire format.

Follows `konnectivity-client/proto/client/client.proto` of apiserver-network-proxy v0.34. Only the payload of the packet's type is
parsed; absent fields are zero or empty, as in proto3. Received packets are not trusted: fields of the wrong wire type and
messages with very many fields are malformed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from muster.machinery.protobuf import BYTES, VARINT, MalformedMessage, read_fields, signed, write_varint

PROXY: Final = "/ProxyService/Proxy"
"""The only method."""
MAX_FIELDS: Final = 32
"""Per message; packets have at most three. Each field is parsed one by one, which would block the event loop for very many."""
_INT64: Final = (1 << 64) - 1


class PacketType(IntEnum):
    DIAL_REQ = 0
    DIAL_RSP = 1
    CLOSE_REQ = 2
    CLOSE_RSP = 3
    DATA = 4
    DIAL_CLS = 5
    DRAIN = 6


@dataclass(frozen=True, slots=True)
class Packet:
    type: PacketType
    connect_id: int = 0
    random: int = 0
    """Identifies a dial until it has a connection."""
    error: str = ""
    data: bytes = b""


def dial_request(address: str, random: int) -> bytes:
    fields = _text(1, b"tcp") + _text(2, address.encode()) + _number(3, random)
    return _packet(PacketType.DIAL_REQ, 2, fields)


def data_packet(connect_id: int, data: bytes) -> bytes:
    return _packet(PacketType.DATA, 4, _number(1, connect_id) + _text(3, data))


def close_request(connect_id: int) -> bytes:
    return _packet(PacketType.CLOSE_REQ, 5, _number(1, connect_id))


def _packet(kind: PacketType, payload: int, fields: bytes) -> bytes:
    return _number(1, kind) + _text(payload, fields)


def _number(field: int, value: int) -> bytes:
    return bytes((field << 3 | VARINT,)) + write_varint(value & _INT64)


def _text(field: int, value: bytes) -> bytes:
    return bytes((field << 3 | BYTES,)) + write_varint(len(value)) + value


_PAYLOADS: Final[dict[PacketType, tuple[int, dict[int, str]]]] = {
    PacketType.DIAL_RSP: (3, {1: "error", 2: "connect_id", 3: "random"}),
    PacketType.DATA: (4, {1: "connect_id", 2: "error", 3: "data"}),
    PacketType.CLOSE_REQ: (5, {1: "connect_id"}),
    PacketType.CLOSE_RSP: (6, {1: "error", 2: "connect_id"}),
    PacketType.DIAL_CLS: (7, {1: "random"}),
    PacketType.DRAIN: (8, {}),
}
"""Packets that may be received: the field of the payload, and the fields of the payload."""
_NUMBERS: Final = frozenset(("connect_id", "random"))


def read_packet(message: bytes) -> Packet:
    """Raises MalformedMessage."""
    kind = 0
    payloads: dict[int, bytes] = {}
    for number, wire, value in _few_fields(message):
        if number == 1:
            kind = _checked(number, wire, VARINT, value)
        elif wire == BYTES:
            payloads[number] = value
    try:
        known = PacketType(kind)
        payload, names = _PAYLOADS[known]
    except (ValueError, KeyError):
        raise MalformedMessage(f"packets of type {kind} are not sent to clients") from None
    found: dict[str, Any] = {}
    for number, wire, value in _few_fields(payloads.get(payload, b"")):
        name = names.get(number)
        if name in _NUMBERS:
            found[name] = signed(_checked(number, wire, VARINT, value))
        elif name is not None:
            found[name] = _checked(number, wire, BYTES, value)
    if "error" in found:
        found["error"] = found["error"].decode("utf-8", "replace")
    return Packet(known, **found)


def _few_fields(message: bytes) -> list[tuple[int, int, Any]]:
    fields: list[tuple[int, int, Any]] = []
    for field in read_fields(message):
        if len(fields) == MAX_FIELDS:
            raise MalformedMessage(f"a packet has more than {MAX_FIELDS} fields")
        fields.append(field)
    return fields


def _checked(number: int, wire: int, expected: int, value: Any) -> Any:
    if wire != expected:
        raise MalformedMessage(f"field {number} has the wire type {wire}")
    return value
