"""`hub`, and two managed clusters `c1` and `c2` with a policy controller each, all of the chosen kind, there for the whole folder.

Scenarios (A1…A28), goals, stories and non-goals are those of the seed's acceptance list; docstrings say which one a test shows.
Names of namespaces and policies are given once, so tests do not meet; whoever breaks a link or stops a controller puts it right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.support.planes import ControlPlane, lent
from tests.support.policies import ManagedCluster, PolicyHub
from tests.support.processes import complaints, tail

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("policy"), "c1", "c2")


@pytest.fixture(scope="package")
def hub(ground: ControlPlane) -> PolicyHub:
    found = PolicyHub(ground.cluster)
    found.accept("c1", cloud="Amazon")
    found.accept("c2", cloud="Azure")
    return found


def _managed(name: str, ground: ControlPlane, hub: PolicyHub) -> Iterator[ManagedCluster]:
    cluster = ManagedCluster(name, ground.extra(name), hub, ground.directory)
    cluster.controller.start()
    yield cluster
    cluster.controller.stop()
    cluster.link.close()
    assert complaints(cluster.controller.process.log) == []


@pytest.fixture(scope="package")
def c1(ground: ControlPlane, hub: PolicyHub) -> Iterator[ManagedCluster]:
    yield from _managed("c1", ground, hub)


@pytest.fixture(scope="package")
def c2(ground: ControlPlane, hub: PolicyHub) -> Iterator[ManagedCluster]:
    yield from _managed("c2", ground, hub)


@pytest.fixture
def shop(hub: PolicyHub, c1: ManagedCluster) -> str:
    """A namespace of the hub whose ConfigMaps the hub templates of `c1` may read; `settings` is one of them."""
    name = hub.namespace()
    hub.grant("c1", name)
    hub.settings(name, color="red")
    return name


@pytest.fixture
def name() -> str:
    """Of a policy."""
    return f"p{next(_numbers)}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        for found in getattr(item, "funcargs", {}).values():
            if isinstance(found, ManagedCluster):
                report.sections.append((found.controller.process.name, tail(found.controller.process.log, 30)))
