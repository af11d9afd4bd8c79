"""What is observed on a managed cluster: its claims, its resources, its API server's health; and who the agent is."""

import random
from collections.abc import AsyncGenerator
from typing import Any, Self

import pytest

from muster.api.cluster.v1alpha1 import ClusterClaim
from muster.registration.agent.options import AgentOptions
from muster.registration.agent.reports.claims import exposed, values_of
from muster.registration.agent.reports.health import HEALTHY, ApiServerHealth
from muster.registration.agent.reports.resources import Node, decode_node, reduced_node, resources_of
from muster.registration.agent.state.identity import settle
from muster.runtime.client.errors import Forbidden, KubeError, NotFound, ServerFailure, Unreachable
from muster.runtime.client.rest import RestClient
from tests.support.fake_clock import FakeClock


def claim(name: str, value: str = "x", **labels: str) -> ClusterClaim:
    return ClusterClaim.decode({"metadata": {"name": name, "labels": labels}, "spec": {"value": value}})


def test_reserved_claims_come_first_and_custom_ones_by_name_up_to_the_limit() -> None:
    names = ["z", "product.open-cluster-management.io", "b", "id.k8s.io", "a", "x.mine"]
    found = exposed(values_of([claim(name) for name in names]), 2, (".mine",))
    assert [one.name for one in found.claims] == ["id.k8s.io", "product.open-cluster-management.io", "x.mine", "a", "b"]
    assert (found.custom, found.hidden) == (3, 1)


def test_claims_for_this_cluster_only_stay_here_and_odd_ones_are_left_out() -> None:
    claims = [claim("a"), claim("b", **{"open-cluster-management.io/spoke-only": ""}), claim("c", ""), claim("d", "x" * 1025)]
    assert [one.name for one in exposed(values_of(claims), 20).claims] == ["a"]


def node(name: str, cpu: str, memory: str, **spec: bool) -> Node:
    resources = {"cpu": cpu, "memory": memory}
    raw: dict[str, Any] = {"metadata": {"name": name}, "spec": spec, "status": {"capacity": resources, "allocatable": resources}}
    import orjson

    return decode_node(orjson.dumps(raw))


def test_resources_are_added_up_and_unschedulable_nodes_give_nothing_away() -> None:
    found = resources_of([node("a", "1500m", "1Gi"), node("b", "500m", "512Mi"), node("c", "1", "1Gi", unschedulable=True)])
    assert found.capacity == {"cpu": "3", "memory": "2560Mi"}
    assert found.allocatable == {"cpu": "2", "memory": "1536Mi"}


def test_of_a_node_little_is_kept() -> None:
    raw = b'{"metadata":{"name":"n","uid":"u","resourceVersion":"5","managedFields":[{"a":1}]},"spec":{"podCIDR":"x"},'
    raw += b'"status":{"capacity":{"cpu":"4"},"images":[{"names":["' + b"x" * 5000 + b'"]}]}}'
    kept = reduced_node(raw)
    assert len(kept) < 150
    assert decode_node(kept).metadata.resourceVersion == "5"


class Answering(RestClient):
    """Answers each path with what the test put there."""

    def __init__(self, answers: dict[str, bytes | KubeError]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    @property
    def server(self) -> str:
        return "test"

    def as_user(self, name: str) -> Self:
        return self

    async def exchange(self, method: str, path: str, *given: Any, idempotent: bool) -> bytes:
        self.asked.append(path)
        answer = self.answers[path]
        if isinstance(answer, KubeError):
            raise answer
        return answer

    def lines(self, *given: Any) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError

    async def close(self) -> None:
        return None


VERSION: dict[str, bytes | KubeError] = {"/version": b'{"gitVersion":"v1.35.0"}'}


async def test_a_healthy_server_is_asked_two_things(clock: FakeClock) -> None:
    server = Answering({"/livez": b"ok", **VERSION})
    health = ApiServerHealth(server, clock, 60)
    await health.probe()
    assert (health.condition, health.version, health.rest) == (HEALTHY, "v1.35.0", 60)
    assert server.asked == ["/livez", "/version"]


async def test_the_version_is_asked_for_now_and_then_and_after_every_failure(clock: FakeClock) -> None:
    server = Answering({"/livez": b"ok", **VERSION})
    health = ApiServerHealth(server, clock, 60)
    for _ in range(11):
        await health.probe()
        await clock.advance(60)
    assert server.asked.count("/version") == 3
    server.answers |= {"/livez": Unreachable("test", "upgrading"), "/version": b'{"gitVersion":"v1.36.0"}'}
    await health.probe()
    server.answers["/livez"] = b"ok"
    await health.probe()
    assert health.version == "v1.36.0"


@pytest.mark.parametrize("answer", [NotFound(404), Forbidden(403)])
async def test_where_livez_is_not_open_healthz_is_asked(answer: KubeError, clock: FakeClock) -> None:
    health = ApiServerHealth(Answering({"/livez": answer, "/healthz": b"ok", **VERSION}), clock, 60)
    await health.probe()
    assert health.condition is HEALTHY


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ServerFailure(500, "", "etcd failed"), "The kube-apiserver is not ok, status code: 500, etcd failed"),
        (Unreachable("test", "refused"), "The kube-apiserver is not ok, status code: 0, refused"),
    ],
)
async def test_a_failure_has_to_last_and_is_then_told(answer: KubeError, message: str, clock: FakeClock) -> None:
    health = ApiServerHealth(Answering({"/livez": answer}), clock, 60)
    for _ in range(4):
        await health.probe()
        assert health.condition is None
        assert health.rest == 5
        await clock.advance(5)
    await health.probe()
    assert health.condition is not None
    assert (health.condition.status, health.condition.message) == ("False", message)
    assert health.rest == 60


async def test_a_short_failure_is_forgotten(clock: FakeClock) -> None:
    server = Answering({"/livez": b"ok", **VERSION})
    health = ApiServerHealth(server, clock, 60)
    await health.probe()
    for answer in (Unreachable("test", "x"), b"ok", Unreachable("test", "x")):
        server.answers["/livez"] = answer
        await clock.advance(19)
        await health.probe()
        assert health.condition is HEALTHY


def test_names_come_from_the_options_then_from_before_then_from_chance() -> None:
    chance = random.Random(1).random
    stored = {"cluster-name": b"before", "agent-name": b"earlier"}
    assert settle(AgentOptions(cluster_name="now", agent_name="me"), stored, chance).common_name.endswith(":now:me")
    assert settle(AgentOptions(), stored, chance).common_name.endswith(":before:earlier")
    made = settle(AgentOptions(), {"cluster-name": b"Not A Name"}, chance)
    assert len(made.cluster) == 36
    assert len(made.agent) == 5
    assert not set(made.agent) & set("aeiou013")
