"""One request cannot stall or exhaust the server: attacks that once did, at full size, and every growing request in short form.

Costs are processor time of the server, so that a busy machine does not count; `python -m tests.fuzz cost` is the long form.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.fuzz.cost.case import BODY_LIMIT, HOLE, Case, in_list, meta, namespaced, posted, repeated
from tests.fuzz.cost.fields import FIELDS
from tests.fuzz.cost.judge import LONGEST_WAIT, MOST_ANSWER, PATIENCE, Court
from tests.fuzz.cost.meter import Waits, bystander, measure
from tests.fuzz.cost.named import NAMED
from tests.fuzz.cost.session import ATTACKS
from tests.fuzz.cost.things import set_the_scene
from tests.fuzz.session import rss
from tests.support.planes import USERS, EmbeddedPlane

ONCE_FATAL = [
    "owner references that all are the controller",
    "a Role of n verbs, groups and resources, granted by somebody without them",
    "a certificate request with many unknown usages",
    "a certificate request with the same usage again and again",
    "new finalizers of a deleted object",
    "managed fields of many managers",
    "create a Thing from YAML: a list of short items",
    "values that are not in a large enumeration",
]
MOST_SECONDS = 2.5
"""At the body limit. The real server needs up to a second for the worst of them, and no machine is as fast as the last."""
MOST_GROWTH = 512 << 20
SHORT = (64, 16)
"""Parts of the limit in short form."""
SAMPLE = 40
"""So many of the attacks that were thought of, and a quarter as many of the lists and maps of all kinds."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPlane]:
    plane = EmbeddedPlane(tmp_path_factory.mktemp("cost"), clusters=())
    plane.start()
    client = plane.client()
    set_the_scene(client)
    client.close()
    yield plane
    plane.stop(kill=True)


@pytest.mark.parametrize("case", [case for case in NAMED if case.name in ONCE_FATAL], ids=lambda case: case.name)
def test_an_attack_at_the_body_limit_is_answered_while_others_are_served(server: EmbeddedPlane, case: Case) -> None:
    client = server.client(timeout=60)
    if case.before is not None:
        case.before(client, case.limit)
    before = rss(server.pid)
    with bystander(server, server.pid) as waits:
        sample = measure(client, server.pid, case.ask(case.limit), USERS[case.user].token)
    client.close()
    assert sample.reply.status in (201, 403, 422), sample.reply.text[:300]
    assert sample.seconds < MOST_SECONDS
    assert len(sample.reply.body) < MOST_ANSWER
    assert rss(server.pid) - before < MOST_GROWTH
    assert Waits.p99(waits.processor) < PATIENCE, f"{len(waits.processor)} requests of somebody else meanwhile"


def test_a_pod_with_a_million_containers_keeps_nobody_waiting(server: EmbeddedPlane) -> None:
    """Each is given defaults and a token: the longest that the server works for one request."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(), "spec": {"containers": HOLE}}
    ask = posted(namespaced("/api/v1", "pods"), pod, lambda size: in_list(repeated(b"{}", size)))
    client = server.client(timeout=60)
    with bystander(server, server.pid) as waits:
        sample = measure(client, server.pid, ask(BODY_LIMIT), USERS["admin"].token)
    client.close()
    assert sample.reply.status == 422, sample.reply.text[:300]
    assert Waits.p99(waits.processor) < PATIENCE, f"{len(waits.processor)} requests of somebody else meanwhile"
    assert max(waits.processor) < LONGEST_WAIT


@pytest.mark.timeout(300)
def test_what_a_request_costs_grows_in_step_with_its_size(server: EmbeddedPlane) -> None:
    chosen = random.Random(6)
    cases = [*chosen.sample(ATTACKS, SAMPLE), *chosen.sample(FIELDS, SAMPLE // 4)]
    verdict = Court(server, server.pid).judge(cases, SHORT)
    assert verdict.problems() == []
    assert verdict.measured == len(cases)
