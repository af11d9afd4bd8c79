"""Random selectors over random labels, asked of both servers: the same objects, or the same refusal."""

from random import Random

import pytest

from tests.conftest import BothPlanes
from tests.support.client import Client, Reply

pytestmark = pytest.mark.kube

NAMESPACE = "selectors-both"
KEYS = ("a", "b", "x.io/c", "a_b")
VALUES = ("", "1", "2", "03", "-5", "web", "Web", "w.e-b_1")
OBJECTS = 24
SELECTORS = 300
NOISE = ("=", "==", "!=", "!", ",", "(", ")", "in", "notin", ">", "<", " ", "a", "1", "a b", "/", "-x", "é", "'")


def requirement(random: Random) -> str:
    key, value = random.choice(KEYS), random.choice(VALUES)
    listed = ",".join(random.sample(VALUES, random.randint(1, 3)))
    space = random.choice(("", " "))
    return random.choice(
        (
            f"{key}{space}={space}{value}",
            f"{key}=={value}",
            f"{key}!={value}",
            f"{key} in ({listed})",
            f"{key} notin{space}({listed})",
            f"{space}{key}",
            f"!{key}",
            f"{key}>{random.randint(-6, 6)}",
            f"{key} < {random.randint(-6, 6)}",
        )
    )


def selector(random: Random) -> str:
    """Mostly well formed; now and then something no grammar foresees."""
    if random.random() < 0.2:
        return "".join(random.choice(NOISE) for _ in range(random.randint(1, 6)))
    return ",".join(requirement(random) for _ in range(random.randint(1, 3)))


def field_selector(random: Random) -> str:
    if random.random() < 0.2:
        return "".join(random.choice(NOISE) for _ in range(random.randint(1, 4)))
    field = random.choice(("metadata.name", "metadata.namespace", "type", "data.a"))
    value = random.choice(("s1", "s2", NAMESPACE, "Opaque", "a\\,b", ""))
    return f"{field}{random.choice(('=', '==', '!='))}{value}"


def fill(client: Client, seed: int) -> None:
    random = Random(seed)
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201)
    for number in range(OBJECTS):
        labels = {key: random.choice(VALUES) for key in random.sample(KEYS, random.randint(0, len(KEYS)))}
        labels = {key: value for key, value in labels.items() if not value.startswith("-")}
        body = {"metadata": {"name": f"s{number}", "labels": labels}}
        client.post(f"/api/v1/namespaces/{NAMESPACE}/secrets", body).expect(201)


def answer(reply: Reply) -> object:
    body = reply.json
    if reply.status != 200:
        return reply.status, body["reason"], body["message"]
    return [item["metadata"]["name"] for item in body["items"]]


def test_random_selectors_choose_the_same_objects(both_planes: BothPlanes) -> None:
    seed = 20261115
    servers = [both_planes.kube.client(), both_planes.embedded.client()]
    for server in servers:
        fill(server, seed)
    random = Random(seed)
    differing = []
    for _ in range(SELECTORS):
        name, make = random.choice((("labelSelector", selector), ("labelSelector", selector), ("fieldSelector", field_selector)))
        query = {name: make(random)}
        real, ours = (answer(server.get(f"/api/v1/namespaces/{NAMESPACE}/secrets", query=query)) for server in servers)
        if real != ours:
            differing.append((query, real, ours))
    assert differing == []
