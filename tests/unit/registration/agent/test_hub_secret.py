"""The agent's memory: what is written when, what stays, and what the directory beside it looks like."""

import asyncio
import base64
import stat
from pathlib import Path

import pytest

from muster.registration.agent.memory.hub_kubeconfig import HubAddress, hub_kubeconfig
from muster.registration.agent.memory.hub_secret import HubSecret, mirror, opened, part_of, settled, stepped
from muster.registration.names import AGENT_NAMESPACE, AgentIdentity
from muster.runtime.client.builtin import SECRETS
from muster.runtime.client.errors import Conflict
from tests.unit.registration.agent.conftest import Fleet, Link

HERE, THERE = HubAddress("here", "https://here"), HubAddress("there", "https://there")
IDENTITY = AgentIdentity("c1", "a")
NAMES = {"cluster-name": b"c1", "agent-name": b"a"}
USER = {"client-certificate": "tls.crt", "client-key": "tls.key"}


def after(data: dict[str, bytes], changes: dict[str, bytes | None]) -> dict[str, bytes]:
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def registered(address: HubAddress = HERE) -> dict[str, bytes]:
    return {**NAMES, "tls.crt": b"cert", "tls.key": b"key", "kubeconfig": hub_kubeconfig(address, USER)}


def test_a_first_registration_notes_names_and_hub_before_anything_else() -> None:
    prefix, changes = opened({}, None, HERE, IDENTITY)
    assert prefix == ""
    assert after({}, changes) == {**NAMES, "pending.hub": HERE.fingerprint.encode()}


def test_what_was_begun_for_a_hub_is_gone_on_with_and_for_another_hub_dropped() -> None:
    begun = {**NAMES, "pending.hub": HERE.fingerprint.encode(), "pending.key": b"k", "pending.name": b"n"}
    prefix, changes = opened(begun, None, HERE, IDENTITY)
    assert (prefix, after(begun, changes)) == ("", begun)
    prefix, changes = opened(begun, None, THERE, IDENTITY)
    assert (prefix, after(begun, changes)) == ("", {**NAMES, "pending.hub": THERE.fingerprint.encode()})


def test_a_credential_for_another_hub_stays_whole_until_the_next_one_can_be_used() -> None:
    data = registered()
    prefix, changes = opened(data, HERE, THERE, IDENTITY)
    data = after(data, changes)
    data = after(data, stepped(data, prefix, {"pending.key": b"k2", "pending.name": b"n2"}))
    assert {key: data[key] for key in registered()} == registered()
    assert part_of(data, prefix)["pending.name"] == b"n2"
    assert "pending.name" not in part_of(data, "")
    last = {"tls.crt": b"cert2", "tls.key": b"key2", "pending.key": None, "pending.name": None}
    data = after(data, settled(data, prefix, last, hub_kubeconfig(THERE, USER)))
    assert data == {**registered(THERE), "tls.crt": b"cert2", "tls.key": b"key2"}


def test_what_was_begun_for_a_third_hub_is_dropped() -> None:
    data = {**registered(), "next.pending.hub": b"third", "next.pending.key": b"k"}
    prefix, changes = opened(data, HERE, THERE, IDENTITY)
    assert part_of(after(data, changes), prefix) == {"pending.hub": THERE.fingerprint.encode()}
    prefix, changes = opened(data, HERE, HERE, IDENTITY)
    assert (prefix, after(data, changes)) == ("", registered())


def test_another_identity_keeps_nothing_of_the_old_one() -> None:
    _, changes = opened(registered(), HERE, HERE, AgentIdentity("c2", "a"))
    assert after(registered(), changes) == {
        "cluster-name": b"c2",
        "agent-name": b"a",
        "pending.hub": HERE.fingerprint.encode(),
    }


async def test_the_secret_is_made_then_only_what_differs_is_written(fleet: Fleet) -> None:
    secret = _secret(fleet)
    await secret.store({"a": b"1", "b": b"2"})
    assert await fleet.stored() == {"a": b"1", "b": b"2"}
    writes = len(fleet.spoke.requests)
    await secret.store({"a": b"1", "c": None})
    assert len(fleet.spoke.requests) == writes
    await secret.store({"a": None, "b": b"3"})
    assert await fleet.stored() == {"b": b"3"}
    assert len(fleet.spoke.requests) == writes + 1


async def test_of_two_agents_the_second_is_told_and_sees_what_the_first_wrote(fleet: Fleet) -> None:
    mine, theirs = _secret(fleet), _secret(fleet)
    await theirs.store({"pending.name": b"theirs"})
    with pytest.raises(Conflict):
        await mine.store({"pending.name": b"mine"})
    assert mine.data == {"pending.name": b"theirs"}
    await theirs.store({"pending.name": b"again"})
    with pytest.raises(Conflict):
        await mine.store({"pending.name": b"mine"})
    assert await fleet.stored() == {"pending.name": b"again"}


async def test_late_news_of_an_older_state_does_not_undo_what_was_written(fleet: Fleet) -> None:
    secret = _secret(fleet)
    await secret.store({"a": b"1"})
    old = await fleet.admin.get(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE)
    await secret.store({"a": b"2"})
    secret._take(old)
    assert secret.data == {"a": b"2"}


async def test_only_changes_by_others_are_told(fleet: Fleet) -> None:
    secret, told = _secret(fleet), asyncio.Event()
    secret.on_change(told.set)
    await secret.store({"a": b"1"})
    assert not told.is_set()
    patch = {"data": {"a": base64.b64encode(b"2").decode()}}
    secret._take(await fleet.admin.patch(SECRETS, "hub-kubeconfig-secret", patch, AGENT_NAMESPACE))
    assert told.is_set()


async def test_the_directory_shows_the_secret_without_unfinished_business(fleet: Fleet) -> None:
    secret = _secret(fleet)
    await secret.store({"tls.crt": b"c", "pending.key": b"p", "next.tls.crt": b"n"})
    assert [path.name for path in (fleet.directory / "hub").iterdir()] == ["tls.crt"]


def test_a_mirrored_directory_is_its_owners_alone_and_holds_nothing_stale(tmp_path: Path) -> None:
    directory = tmp_path / "hub"
    directory.mkdir(mode=0o755)
    (directory / "stale").write_text("x")
    (directory / "tls.key").write_text("old")
    mirror(directory, {"tls.key": b"new", "kubeconfig": b"k"})
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {"tls.key": b"new", "kubeconfig": b"k"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_file_that_is_right_is_not_touched(tmp_path: Path) -> None:
    mirror(tmp_path / "hub", {"a": b"1", "b": b"1"})
    before = {path.name: path.stat().st_ino for path in (tmp_path / "hub").iterdir()}
    mirror(tmp_path / "hub", {"a": b"1", "b": b"2"})
    after = {path.name: path.stat().st_ino for path in (tmp_path / "hub").iterdir()}
    assert before["a"] == after["a"]


def _secret(fleet: Fleet) -> HubSecret:
    client = Link(fleet.spoke, fleet.account)
    return HubSecret(client, AGENT_NAMESPACE, "hub-kubeconfig-secret", fleet.directory / "hub")
