"""Objects of many kinds on a real server: what it fills in is no difference, and what it refuses is told in its words."""

from __future__ import annotations

import copy
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.api.work.v1 import ServerSideApply
from muster.machinery.objects import GVR, Object
from muster.runtime.cache.observed import UNKNOWN
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SECRETS
from muster.runtime.client.errors import Invalid, NotFound, StatusError
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.work.agent.applying import ClusterApplier
from muster.work.agent.interfaces import ApplyProblem, ManifestOwner
from tests.support.bad_manifests import BAD_MANIFESTS
from tests.support.manifests import KINDS, SELECTOR, manifest, of, resource_of, sight_of
from tests.support.planes import ControlPlane
from tests.support.working import Counting, until_accounted

OWNER = ManifestOwner("hash-kinds", "11111111-1111-1111-1111-111111111111")
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
    await until_accounted(client, name)
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


async def _gone(client: Counting, resource: GVR, name: str) -> None:
    try:
        await client.delete(resource, name)
    except NotFound:
        return


async def test_what_the_server_refuses_is_told_in_its_words(client: Counting, namespace: str) -> None:
    applier = ClusterApplier(client)
    for bad in BAD_MANIFESTS:
        with pytest.raises(StatusError) as caught:
            await applier.apply(manifest(bad.document(namespace), owned=False), OWNER, UNKNOWN)
        assert bad.says in str(caught.value), (bad.kind, str(caught.value))


async def test_one_alternative_comes_instead_of_another(client: Counting, namespace: str) -> None:
    def web(**pod: Any) -> Object:
        template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}], **pod}}
        return placed(of("apps/v1", "Deployment", "web", spec={"selector": SELECTOR, "template": template}), namespace)

    await applied(client, web(volumes=[{"name": "v", "configMap": {"name": "c"}}]))
    other = web(volumes=[{"name": "v", "emptyDir": {}}])
    other["spec"] |= {"strategy": {"type": "Recreate"}}
    changed = await applied(client, other)
    assert changed["spec"]["template"]["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert changed["spec"]["strategy"] == {"type": "Recreate"}


async def test_a_secret_of_another_type_that_is_not_ours_is_not_taken_away(client: Counting, namespace: str) -> None:
    await applied(client, placed(of("v1", "Secret", "s", stringData={"a": "b"}), namespace))
    basic = placed(of("v1", "Secret", "s", type="kubernetes.io/basic-auth", stringData={"username": "u"}), namespace)
    with pytest.raises(Invalid, match="immutable"):
        await applied(client, basic, owned=True)
    assert (await client.get(SECRETS, "s", namespace))["type"] == "Opaque"


async def test_a_field_of_somebody_else_is_a_conflict_unless_it_is_taken_by_force(client: Counting, namespace: str) -> None:
    document = placed(of("v1", "ConfigMap", "cm", data={"a": "1"}), namespace)
    await applied(client, document, type="ServerSideApply")
    await client.patch(CONFIG_MAPS, "cm", {"data": {"a": "2"}}, namespace, manager="somebody")
    with pytest.raises(ApplyProblem, match='conflict with "somebody"') as caught:
        await applied(client, document, type="ServerSideApply")
    assert caught.value.reason == "ApplyConflict"
    forced = await applied(client, document, type="ServerSideApply", server_side_apply=ServerSideApply(force=True))
    assert forced["data"] == {"a": "1"}


async def applied(client: Counting, document: Object, *, owned: bool = False, **strategy: Any) -> Object:
    """By an agent that has just started."""
    result = await ClusterApplier(client).apply(manifest(document, owned=owned, **strategy), OWNER, UNKNOWN)
    assert result.document is not None
    return result.document
