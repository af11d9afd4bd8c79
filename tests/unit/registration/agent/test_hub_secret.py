"""The agent's memory: what is written when, what stays, and what the directory beside it looks like."""

import asyncio
import base64
import stat
from pathlib import Path

import pytest

from muster.registration.agent.state.directory import mirror
from muster.registration.agent.state.hub_secret import HubSecret
from muster.registration.agent.state.old_layout import take_over
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, hub_kubeconfig
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import SECRETS
from muster.runtime.client.errors import Conflict
from tests.unit.registration.agent.conftest import Fleet, Link

HERE, THERE, THIRD = (HubAddress(name, f"https://{name}") for name in ("here", "there", "third"))
NAMES = {"cluster-name": b"c1", "agent-name": b"a"}
USER = {"client-certificate": "tls.crt", "client-key": "tls.key"}


def registered(address: HubAddress = HERE) -> dict[str, bytes]:
    return {**NAMES, "tls.crt": b"cert", "tls.key": b"key", "kubeconfig": hub_kubeconfig(address, USER)}


def of(hub: HubAddress, **begun: bytes) -> dict[str, bytes]:
    """How what is begun on a hub is kept."""
    return {f"{hub.fingerprint}.{key}": value for key, value in begun.items()}


async def test_names_come_first_then_what_was_begun_then_nothing_once_it_is_done(fleet: Fleet) -> None:
    pending = _secret(fleet).pending
    await pending.begin(NAMES, [HERE])
    assert await fleet.stored(pending.name) == NAMES
    await pending.note(HERE, {"key": b"k", "name": b"n"}, NAMES)
    assert pending.begun(HERE) == {"key": b"k", "name": b"n"}
    assert await fleet.stored(pending.name) == {**NAMES, **of(HERE, key=b"k", name=b"n")}
    await pending.close(HERE, [HERE])
    assert not pending.exists
    assert await fleet.stored(pending.name) == {}


async def test_what_was_begun_for_a_known_hub_is_gone_on_with_and_for_another_dropped(fleet: Fleet) -> None:
    pending = _secret(fleet).pending
    for hub in (HERE, THERE, THIRD):
        await pending.note(hub, {"key": hub.name.encode()}, NAMES)
    await pending.begin(NAMES, [HERE, THERE])
    assert await fleet.stored(pending.name) == {**NAMES, **of(HERE, key=b"here"), **of(THERE, key=b"there")}
    await pending.close(THERE, [HERE, THERE])
    assert await fleet.stored(pending.name) == {**NAMES, **of(HERE, key=b"here")}
    await pending.close(THERE, [THERE])
    assert await fleet.stored(pending.name) == {}


async def test_what_was_begun_on_a_hub_goes_on_where_it_has_moved_to(fleet: Fleet) -> None:
    pending = _secret(fleet).pending
    await pending.note(HERE, {"key": b"k"}, NAMES)
    await pending.move(HERE, THERE)
    assert (pending.begun(HERE), pending.begun(THERE)) == ({}, {"key": b"k"})


async def test_a_credential_for_another_hub_stays_whole_until_one_write_replaces_it(fleet: Fleet) -> None:
    secret = _secret(fleet)
    await secret.replace(HERE, registered())
    await secret.pending.note(THERE, {"key": b"k2"}, NAMES)
    assert secret.stored(HERE) == registered()
    assert secret.stored(THERE) == {}
    writes = len(fleet.spoke.requests)
    await secret.replace(THERE, {**registered(THERE), "token": b"t"})
    assert len(fleet.spoke.requests) == writes + 1
    await secret.replace(HERE, registered())
    assert await fleet.stored() == registered()


async def test_what_others_keep_beside_a_credential_stays_with_the_next_for_the_same_hub(fleet: Fleet) -> None:
    secret = _secret(fleet)
    await secret.replace(HERE, registered())
    await secret.store({"theirs": b"1"})
    await secret.replace(HERE, {**registered(), "tls.crt": b"cert2"})
    assert await fleet.stored() == {**registered(), "tls.crt": b"cert2", "theirs": b"1"}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("old", "stored", "pending"),
    [
        (
            {**NAMES, "pending.hub": HERE.fingerprint.encode(), "pending.key": b"k", "pending.name": b"n"},
            {},
            {**NAMES, **of(HERE, key=b"k", name=b"n")},
        ),
        ({**NAMES, "pending.hub": HERE.fingerprint.encode()}, {}, NAMES),
        (
            {**registered(), "pending.key": b"k", "pending.name": b"n"},
            registered(),
            {**NAMES, **of(HERE, key=b"k", name=b"n")},
        ),
        (
            {**registered(), "next.pending.hub": THERE.fingerprint.encode(), "next.pending.key": b"k"},
            registered(),
            {**NAMES, **of(THERE, key=b"k")},
        ),
        (registered(), registered(), {}),
        ({"cluster-name": b"c1"}, {"cluster-name": b"c1"}, {}),
    ],
)
async def test_what_was_pending_in_the_old_place_is_taken_over_once(
    fleet: Fleet, old: dict[str, bytes], stored: dict[str, bytes], pending: dict[str, bytes], known: bool
) -> None:
    secret = _secret(fleet)
    await secret.store(old)
    if known:
        # Somebody died after the first of the two writes.
        await secret.pending.store(pending)
    await take_over(secret)
    assert await fleet.stored() == stored
    assert await fleet.stored(secret.pending.name) == pending
    requests = len(fleet.spoke.requests)
    await take_over(secret)
    assert len(fleet.spoke.requests) == requests


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


async def test_a_secret_that_was_removed_does_not_come_back_by_late_news(fleet: Fleet) -> None:
    secret = _secret(fleet)
    await secret.store({"a": b"1"})
    old = await fleet.admin.get(SECRETS, "hub-kubeconfig-secret", AGENT_NAMESPACE)
    await secret.remove()
    secret._take(old)
    assert secret.data == {}
    assert not secret.exists
    assert await fleet.stored() == {}
    await secret.store({"a": b"2"})
    assert await fleet.stored() == {"a": b"2"}


async def test_a_secret_that_somebody_else_has_changed_is_not_removed(fleet: Fleet) -> None:
    mine, theirs = _secret(fleet), _secret(fleet)
    await mine.store({"a": b"1"})
    await theirs.load()
    await theirs.store({"a": b"2"})
    with pytest.raises(Conflict):
        await mine.remove()
    assert mine.data == {"a": b"2"}
    await mine.remove()
    assert await fleet.stored() == {}


async def test_the_directory_shows_the_credential_and_nothing_that_is_pending(fleet: Fleet) -> None:
    secret = _secret(fleet)
    await secret.pending.note(HERE, {"key": b"p"}, NAMES)
    await secret.store({"tls.crt": b"c"})
    assert [path.name for path in (fleet.directory / "hub").iterdir()] == ["tls.crt"]
    await secret.remove()
    assert not list((fleet.directory / "hub").iterdir())


def test_a_mirrored_directory_is_its_owners_alone_and_holds_nothing_stale(tmp_path: Path) -> None:
    directory = tmp_path / "hub"
    directory.mkdir(mode=0o755)
    (directory / "stale").write_text("x")
    (directory / "tls.key").write_text("old")
    mirror(directory, {"tls.key": b"new", "kubeconfig": b"k"}, "kubeconfig")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {"tls.key": b"new", "kubeconfig": b"k"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


def test_a_file_that_is_right_is_not_touched(tmp_path: Path) -> None:
    mirror(tmp_path / "hub", {"a": b"1", "b": b"1"}, "a")
    before = {path.name: path.stat().st_ino for path in (tmp_path / "hub").iterdir()}
    mirror(tmp_path / "hub", {"a": b"1", "b": b"2"}, "a")
    after = {path.name: path.stat().st_ino for path in (tmp_path / "hub").iterdir()}
    assert before["a"] == after["a"]


def _secret(fleet: Fleet) -> HubSecret:
    client = Link(fleet.spoke, fleet.account)
    return HubSecret(client, AGENT_NAMESPACE, "hub-kubeconfig-secret", fleet.directory / "hub", KUBECONFIGS)
