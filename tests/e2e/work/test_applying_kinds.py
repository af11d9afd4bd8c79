"""Objects of many kinds on a real server: what it fills in is no difference, and what it refuses is told in its words."""

from __future__ import annotations

import copy
import itertools
from collections.abc import AsyncIterator

import pytest

from muster.runtime.errors import NotFound, StatusError
from muster.runtime.kubeconfig import load_kubeconfig
from muster.runtime.resource import NAMESPACES, Object
from muster.work.agent.applying import ClusterApplier
from muster.work.agent.seam import UNKNOWN, Owner
from tests.support.bad_manifests import BAD_MANIFESTS
from tests.support.manifests import KINDS, manifest, resource_of, sight_of
from tests.support.planes import ControlPlane
from tests.support.working import Counting

OWNER = Owner("hash-kinds", "11111111-1111-1111-1111-111111111111")
_numbers = itertools.count(1)


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Counting]:
    client = Counting(load_kubeconfig(plane.kubeconfig, environ={}), agent="work-agent")
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Counting) -> AsyncIterator[str]:
    name = f"kinds-{next(_numbers)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


def placed(document: Object, namespace: str) -> Object:
    document = copy.deepcopy(document)
    if resource_of(document).namespaced:
        document["metadata"]["namespace"] = namespace
    return document


@pytest.mark.parametrize("strategy", ["Update", "ServerSideApply"])
async def test_no_kind_is_written_twice(client: Counting, namespace: str, strategy: str) -> None:
    # Not owned: the record that would own them is not there, and a garbage collector would take them.
    planned = [manifest(placed(document, namespace), owned=False, type=strategy) for document in KINDS]
    written: list[str] = []
    try:
        for one in planned:
            applier = ClusterApplier(client)
            first = await applier.apply(one, OWNER, UNKNOWN)
            assert first.wrote
            if strategy == "Update":
                # As a new process sees it.
                applier = ClusterApplier(client)
            seen = sight_of(await client.get(one.ref.resource, one.ref.name, one.ref.namespace))
            client.asked.clear()
            again = await applier.apply(one, OWNER, seen)
            written += [str(one.ref) for _ in client.asked]
            assert again.document is not None
        assert written == []
    finally:
        for one in planned:
            if not one.ref.namespace:
                await _gone(client, one.ref.resource, one.ref.name)


async def _gone(client: Counting, resource: object, name: str) -> None:
    try:
        await client.delete(resource, name)  # type: ignore[arg-type]
    except NotFound:
        return


async def test_what_the_server_refuses_is_told_in_its_words(client: Counting, namespace: str) -> None:
    applier = ClusterApplier(client)
    for bad in BAD_MANIFESTS:
        with pytest.raises(StatusError) as caught:
            await applier.apply(manifest(bad.document(namespace), owned=False), OWNER, UNKNOWN)
        assert bad.says in str(caught.value), (bad.kind, str(caught.value))
