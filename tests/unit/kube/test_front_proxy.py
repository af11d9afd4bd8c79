"""What a front proxy says of users survives the way through header fields, and tokens do not survive the way on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.aggregation.remote import identity_fields
from muster.kube.front_proxy import FrontProxyHeaders, RemoteUsers, remote_user
from muster.kube.websocket_token import BEARER_PROTOCOL, protocol_token, without_bearer_protocol
from muster.machinery.authentication import UserInfo

NAME = st.text(min_size=1, max_size=20)
KEY = st.text(min_size=1, max_size=12).map(lambda key: key.lower()).filter(lambda key: key == key.lower())
USERS = st.builds(
    UserInfo,
    NAME,
    st.text(max_size=8),
    st.lists(NAME, max_size=3).map(tuple),
    st.dictionaries(KEY, st.lists(NAME, min_size=1, max_size=2).map(tuple), max_size=3),
)


@given(USERS)
def test_a_user_arrives_as_it_was_sent(user: UserInfo) -> None:
    fields = [(name.lower(), value) for name, value in identity_fields(user)]
    assert remote_user(fields) == user


@given(st.lists(st.tuples(st.sampled_from(["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-"]), st.text())))
def test_whatever_comes_is_a_user_or_none(fields: list[tuple[str, str]]) -> None:
    found = remote_user([(name, value.encode().decode("latin-1")) for name, value in fields])
    users = [value for name, value in fields if name == "x-remote-user" and value]
    assert found is None or [found.name] == users


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        b"X-Remote-User",
                        b"x-remote-user",
                        b"X-Who",
                        b"X-Remote-Uid",
                        b"X-Remote-Group",
                        b"X-Remote-Extra-A",
                        b"Accept",
                    ]
                ),
                st.sampled_from([b"", b"alice", b"b\xc3\xb6b", b"\xff", b"x" * 5000]),
            )
        )
    )
)
def test_what_is_remembered_is_what_would_be_read(requests: list[list[tuple[bytes, bytes]]]) -> None:
    names = FrontProxyHeaders(user=("x-who", "x-remote-user"))
    users = RemoteUsers(names)
    for fields in [*requests, *requests]:
        assert users.find(fields) == remote_user(
            [(name.decode().lower(), value.decode("latin-1")) for name, value in fields], names
        )


def test_the_first_configured_field_that_is_there_names_the_user() -> None:
    names = FrontProxyHeaders(user=("x-first", "x-second"), group=("x-groups", "x-more"))
    fields = [("x-second", "bob"), ("x-first", ""), ("x-more", "b"), ("x-groups", "a"), ("x-more", "c"), ("x-remote-user", "alice")]
    assert remote_user(fields, names) == UserInfo("bob", groups=("a", "b", "c"))


def test_a_token_is_taken_out_of_the_protocols() -> None:
    value = f"v4.channel.k8s.io, {BEARER_PROTOCOL}Z29vZA ,v5.channel.k8s.io"
    assert protocol_token([value]) == "good"
    assert without_bearer_protocol(value) == "v4.channel.k8s.io, v5.channel.k8s.io"
    assert without_bearer_protocol(f"{BEARER_PROTOCOL}Z29vZA") == ""
    assert without_bearer_protocol("v4.channel.k8s.io") == "v4.channel.k8s.io"


@pytest.mark.parametrize("encoded", ["Z29vZA==", "Z29v+ZA", "Z29v/A", "Z", "_w", "Z29v ZA", "é"])
def test_what_is_no_token_is_refused_without_being_quoted(encoded: str) -> None:
    with pytest.raises(ValueError, match="bearer token") as refused:
        protocol_token([f"v4, {BEARER_PROTOCOL}{encoded}"])
    assert encoded not in str(refused.value).replace("WebSocket", "")


@given(
    st.lists(st.sampled_from(["v4", "v5", f"{BEARER_PROTOCOL}Zw", f"{BEARER_PROTOCOL.upper()}Zw", f" {BEARER_PROTOCOL}", ""])).map(
        ",".join
    )
)
def test_no_token_is_left(value: str) -> None:
    assert BEARER_PROTOCOL not in without_bearer_protocol(value).lower()
