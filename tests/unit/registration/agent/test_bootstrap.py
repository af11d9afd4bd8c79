"""Bootstrap kubeconfigs are followed: from Secrets and from files, one bad one disturbing no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster.registration.agent.state.bootstrap import Bootstraps
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, KubeconfigEndpoint
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.cache.informer import Informer
from muster.runtime.cache.store import Snapshot
from muster.runtime.client.builtin import SECRETS
from tests.unit.registration.agent.conftest import Fleet, Link, until


@asynccontextmanager
async def following(fleet: Fleet, names: tuple[str, ...] = (), files: tuple[Path, ...] = ()) -> AsyncIterator[Bootstraps]:
    client = Link(fleet.spoke, fleet.account)
    secrets: dict[str, Informer[Snapshot]] = {
        name: Informer(client, SECRETS, AGENT_NAMESPACE, field_selector=f"metadata.name={name}", clock=fleet.clock)
        for name in names
    }
    bootstraps = Bootstraps(secrets, AGENT_NAMESPACE, files, fleet.directory / "bootstrap", KUBECONFIGS, fleet.clock)
    tasks = [asyncio.create_task(run()) for run in (*(secret.run for secret in secrets.values()), bootstraps.run)]
    try:
        for informer in secrets.values():
            await informer.synced()
        await bootstraps.refresh()
        yield bootstraps
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_secrets_are_candidates_in_the_given_order(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig(), "b")
    await fleet.give(fleet.other.kubeconfig(), "a")
    async with following(fleet, ("b", "a")) as bootstraps:
        assert [candidate.address.server for candidate in bootstraps.candidates] == [fleet.hub.url, fleet.other.url]
        assert bootstraps.candidates[0].source == f"Secret {AGENT_NAMESPACE}/b"
        endpoint = bootstraps.candidates[0].endpoint
        assert isinstance(endpoint, KubeconfigEndpoint)
        assert endpoint.file.read_text() == fleet.hub.kubeconfig()


async def test_a_changed_secret_is_another_candidate_for_the_same_hub(fleet: Fleet) -> None:
    await fleet.give(fleet.hub.kubeconfig(), "a")
    async with following(fleet, ("a",)) as bootstraps:
        before = bootstraps.candidates
        told = asyncio.Event()
        bootstraps.on_change(told.set)
        await fleet.give(fleet.hub.kubeconfig(token="new"), "a")
        await asyncio.wait_for(told.wait(), 10)
        assert bootstraps.candidates != before
        assert bootstraps.candidates[0].address == before[0].address


async def test_what_cannot_be_used_is_named_and_left_out(fleet: Fleet) -> None:
    await fleet.give("not: a kubeconfig", "bad")
    await fleet.give(fleet.hub.kubeconfig(), "good")
    async with following(fleet, ("bad", "missing", "good")) as bootstraps:
        assert [candidate.source for candidate in bootstraps.candidates] == [f"Secret {AGENT_NAMESPACE}/good"]
        assert bootstraps.problems[f"Secret {AGENT_NAMESPACE}/missing"] == "does not exist"
        assert "current-context" in bootstraps.problems[f"Secret {AGENT_NAMESPACE}/bad"]


async def test_files_are_followed_and_read_again_only_when_touched(fleet: Fleet) -> None:
    path = fleet.directory / "bootstrap.kubeconfig"
    path.write_text(fleet.hub.kubeconfig())
    async with following(fleet, files=(path,)) as bootstraps:
        before = bootstraps.candidates
        await fleet.advance(30)
        assert bootstraps.candidates is before
        path.write_text(fleet.other.kubeconfig())
        await fleet.advance(11)
        await until(lambda: bootstraps.candidates is not before, "other candidates")
        assert bootstraps.candidates[0].address.server == fleet.other.url


async def test_a_file_that_comes_later_is_found(fleet: Fleet) -> None:
    path = fleet.directory / "bootstrap.kubeconfig"
    async with following(fleet, files=(path,)) as bootstraps:
        assert bootstraps.problems == {str(path): "No such file or directory"}
        path.write_text(fleet.hub.kubeconfig())
        await fleet.advance(11)
        await until(lambda: bootstraps.candidates, "a candidate")
        assert bootstraps.problems == {}


async def test_an_authority_in_a_file_of_its_own_is_followed_too(fleet: Fleet) -> None:
    ca, path = fleet.directory / "ca.crt", fleet.directory / "bootstrap.kubeconfig"
    ca.write_text("one")
    lines = fleet.hub.kubeconfig().splitlines()
    path.write_text("\n".join(f"    certificate-authority: {ca}" if "authority-data" in line else line for line in lines))
    async with following(fleet, files=(path,)) as bootstraps:
        before = bootstraps.candidates[0].address
        assert before.ca == b"one"
        ca.write_text("another")
        await fleet.advance(11)
        await until(lambda: bootstraps.candidates[0].address != before, "another address")
