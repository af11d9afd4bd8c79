"""How long a token is asked for: what people write becomes seconds, or a problem that names the field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.accounts.agent.tokens import AccountError, validity_of
from muster.api.authentication.v1beta1 import ManagedServiceAccount, ManagedServiceAccountSpec, Rotation


def account(validity: str) -> ManagedServiceAccount:
    return ManagedServiceAccount(spec=ManagedServiceAccountSpec(rotation=Rotation(validity=validity)))


def test_a_years_default() -> None:
    assert validity_of(ManagedServiceAccount()) == 8640 * 3600


@pytest.mark.parametrize(("text", "seconds"), [("10m", 600), ("24h0m0s", 86400), ("600.9s", 600)])
def test_durations(text: str, seconds: int) -> None:
    assert validity_of(account(text)) == seconds


@given(st.text() | st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,3})?(h|m|s|ms|d)", fullmatch=True))
def test_any_text_is_a_validity_or_names_the_field(text: str) -> None:
    try:
        seconds = validity_of(account(text))
    except AccountError as problem:
        said = str(problem)
    else:
        said = ""
        assert 600 <= seconds <= 1 << 32
    assert said.startswith("spec.rotation.validity: ") or not said
