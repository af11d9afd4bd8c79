"""What administrators are told of an agent's key and name, before it has a credential and after."""

import base64
from collections.abc import AsyncIterator

import pytest

from muster.administration.members.klusterlets import agent_key, cluster_name_of, pending_key
from muster.api.operator.v1 import Klusterlet
from muster.fleet.in_process import InProcessClient
from muster.registration.drivers.certificates.requests import key_fingerprint, new_key
from muster.registration.names import AGENT_NAMESPACE, HUB_SECRET, PENDING_SECRET
from muster.runtime.client.builtin import NAMESPACES, SECRETS
from tests.support.in_process import serving

KLUSTERLET = Klusterlet.decode({"metadata": {"name": "klusterlet"}, "spec": {"namespace": AGENT_NAMESPACE}})
NOW, NEXT = new_key(), new_key()


@pytest.fixture
async def cluster() -> AsyncIterator[InProcessClient]:
    async with serving("c1") as server:
        client = InProcessClient(server.client(server.clusters["c1"]))
        await client.create(NAMESPACES, {"metadata": {"name": AGENT_NAMESPACE}})
        yield client


async def keep(client: InProcessClient, secret: str, **data: bytes) -> None:
    encoded = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in data.items()}
    await client.create(SECRETS, {"metadata": {"name": secret, "namespace": AGENT_NAMESPACE}, "data": encoded})


async def test_an_agent_without_any_key_has_none_to_tell(cluster: InProcessClient) -> None:
    assert await agent_key(cluster, KLUSTERLET) == ""
    assert await cluster_name_of(cluster, KLUSTERLET) == ""


async def test_the_key_that_is_asked_with_comes_before_the_one_in_use(cluster: InProcessClient) -> None:
    await keep(cluster, HUB_SECRET, tls_key=NOW)
    assert await agent_key(cluster, KLUSTERLET) == key_fingerprint(NOW)
    await keep(cluster, PENDING_SECRET, abc_key=NEXT, abc_name=b"c1-xxxxx")
    assert await agent_key(cluster, KLUSTERLET) == key_fingerprint(NEXT)


async def test_a_name_that_the_agent_chose_is_known_before_it_has_a_credential(cluster: InProcessClient) -> None:
    encoded = {"cluster-name": base64.b64encode(b"chosen").decode()}
    await cluster.create(SECRETS, {"metadata": {"name": PENDING_SECRET, "namespace": AGENT_NAMESPACE}, "data": encoded})
    assert await cluster_name_of(cluster, KLUSTERLET) == "chosen"


def test_of_keys_for_several_hubs_none_is_told() -> None:
    assert pending_key({"a.key": NOW, "b.key": NEXT}) == ""
    assert pending_key({"a.key": NOW, "a.name": b"n"}) == key_fingerprint(NOW)
