"""The wire reader: traps of the Kubernetes encoding, and malformed bodies, which must end in DecodeError and nothing else."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.apiserver.decode import DecodeError, protobuf
from muster.apiserver.decode.layouts import layout

with gzip.open(Path(__file__).parent / "data/corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
    BODIES = [base64.b64decode(json.loads(line)["pb"]) for line in lines]


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, payload: bytes | int) -> bytes:
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def body(api_version: str, kind: str, message: bytes) -> bytes:
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return protobuf.MAGIC + field(1, meta) + field(2, message) + field(3, b"") + field(4, b"")


def test_a_zero_behind_a_pointer_is_a_value_and_an_absent_one_is_not() -> None:
    zero = body("apps/v1", "Deployment", field(2, field(1, 0)))
    absent = body("apps/v1", "Deployment", field(2, b""))
    assert protobuf.decode(zero)["spec"]["replicas"] == 0
    assert "replicas" not in protobuf.decode(absent)["spec"]


def test_an_inlined_struct_is_a_message_on_the_wire_and_flat_in_json() -> None:
    volume = field(1, b"v") + field(2, field(6, field(1, b"s")))
    pod = protobuf.decode(body("v1", "Pod", field(2, field(1, volume))))
    assert pod["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_negative_numbers_survive() -> None:
    lease = protobuf.decode(body("coordination.k8s.io/v1", "Lease", field(2, field(2, -5))))
    assert lease["spec"]["leaseDurationSeconds"] == -5


def test_an_envelope_without_a_type_uses_the_callers() -> None:
    options = protobuf.decode(body("", "", field(1, 5)), "meta.k8s.io/v1", "DeleteOptions")
    assert options["gracePeriodSeconds"] == 5


def test_unknown_field_numbers_are_skipped() -> None:
    assert protobuf.decode(body("v1", "ConfigMap", field(99, b"x") + field(98, 1)))["metadata"] == {}


@pytest.mark.parametrize(
    ("malformed", "text"),
    [
        (b"", "does not appear to be a protobuf message"),
        (b"k8s\x00\xff", "unexpected EOF"),
        (body("v1", "Nonsense", b""), 'no kind "Nonsense" is registered for version "v1"'),
        (body("v1", "ConfigMap", b"\x0a\xff\xff\xff\xff\x0f"), "unexpected EOF"),
        (body("v1", "ConfigMap", b"\x0a" + b"\xff" * 11), "integer overflow"),
        (body("v1", "ConfigMap", b"\x0b"), "illegal wireType"),
        (body("v1", "ConfigMap", field(1, 5)), "wrong wireType"),
        (body("v1", "ConfigMap", b"\x00\x00"), "illegal tag"),
        (body("v1", "Pod", field(2, field(4, b"x"))), "wrong wireType"),
    ],
)
def test_a_malformed_body_is_refused(malformed: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        protobuf.decode(malformed)


def test_nesting_is_bounded() -> None:
    schema_type = layout("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    negation = schema_type.json_fields["not"].number
    message = b""
    for _ in range(300):
        message = field(negation, message)
    schema = field(1, b"v1") + field(4, field(1, message))
    with pytest.raises(DecodeError, match="nested too deeply"):
        protobuf.decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, field(7, schema))))


def test_a_small_body_cannot_grow_into_a_large_object() -> None:
    containers = field(2, b"") * 1_500_000
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="too many parts"):
            protobuf.decode(body("v1", "Pod", field(2, containers)))
        assert tracemalloc.get_traced_memory()[1] < 128 * 1024 * 1024
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    for candidate in (data, protobuf.MAGIC + data, body("v1", "Pod", data)):
        with contextlib.suppress(DecodeError):
            assert isinstance(protobuf.decode(candidate, "v1", "Pod"), dict)


@given(st.sampled_from(BODIES), st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_body_decodes_or_is_refused(original: bytes, data: st.DataObject) -> None:
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(4, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(4, len(damaged)))
    with contextlib.suppress(DecodeError):
        assert isinstance(protobuf.decode(bytes(damaged[:cut])), dict)
