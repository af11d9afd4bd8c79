"""What a token says of itself is read from anything, and believed of nothing that is not shaped like one."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import orjson
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.token_claims import TokenClaims, read_claims


def token(payload: object) -> bytes:
    return b"e30." + base64.urlsafe_b64encode(orjson.dumps(payload)).rstrip(b"=") + b".c2ln"


def test_whose_it_is_and_how_long_it_lives() -> None:
    claims = read_claims(token({"sub": "system:serviceaccount:a:b", "iat": 1000, "exp": 2000, "aud": ["x"]}))
    assert claims == TokenClaims("system:serviceaccount:a:b", datetime.fromtimestamp(1000, UTC), datetime.fromtimestamp(2000, UTC))
    assert claims.seconds == 1000
    assert claims.after(0.8) == datetime.fromtimestamp(1800, UTC)


@given(st.binary() | st.builds(lambda parts: b".".join(parts), st.lists(st.binary(), max_size=5)))
def test_bytes_of_any_kind(text: bytes) -> None:
    read_claims(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text() | st.integers(-(2**63), 2**63 - 1), st.lists, max_leaves=5
)


@given(st.dictionaries(st.sampled_from(["sub", "iat", "exp", "aud"]), JSON))
def test_claims_of_any_kind(payload: dict[str, object]) -> None:
    claims = read_claims(token(payload))
    assert claims is None or (claims.subject == payload.get("sub", "") and claims.issued.tzinfo is UTC)
