"""Fixtures that give a test a control plane.

`plane` is the one chosen by MUSTER_E2E (`embedded`, the default, or `kube`); `both_planes` starts both for tests that
compare. Each lives for the whole session; a failing test shows the end of the logs of the planes it used.
"""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import slowest_first
from tests.support.planes import ControlPlane, EmbeddedPlane, KubePlane

# How long an example takes says how busy the machine is, nothing of the code. A machine that judges a change tries the same
# examples every time; people's runs go on looking for new ones.
settings.register_profile("people", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("judge", settings.get_profile("people"), derandomize=True)
settings.load_profile("judge" if os.environ.get("CI") else "people")

# A job in a shell's background is deaf to Ctrl-C, and so would be the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_running: dict[str, ControlPlane] = {}


@dataclass(frozen=True)
class BothPlanes:
    embedded: ControlPlane
    kube: ControlPlane


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files come in the order of `slowest_first`. Tests marked `kube` belong to `make test-kube` (MUSTER_E2E=kube); elsewhere they
    are not part of the run."""
    items.sort(key=lambda item: slowest_first.turn(item.path))
    if os.environ.get("MUSTER_E2E") != "kube":
        away = [item for item in items if item.get_closest_marker("kube")]
        config.hook.pytest_deselected(items=away)
        items[:] = [item for item in items if not item.get_closest_marker("kube")]


def _session_plane(kind: str, directory: Path) -> ControlPlane:
    if kind not in _running:
        plane = KubePlane(directory) if kind == "kube" else EmbeddedPlane(directory)
        plane.start()
        _running[kind] = plane
    return _running[kind]


@pytest.fixture(scope="session", autouse=True)
def _stop_planes() -> Iterator[None]:
    yield
    for plane in _running.values():
        plane.stop(kill=True)
    _running.clear()


@pytest.fixture(scope="session")
def embedded_plane(tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    return _session_plane("embedded", tmp_path_factory.mktemp("embedded"))


@pytest.fixture(scope="session")
def kube_plane(tmp_path_factory: pytest.TempPathFactory) -> ControlPlane:
    return _session_plane("kube", tmp_path_factory.mktemp("kube"))


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> ControlPlane:
    kind = os.environ.get("MUSTER_E2E", "embedded")
    chosen: ControlPlane = request.getfixturevalue(f"{kind}_plane")
    return chosen


@pytest.fixture(scope="session")
def both_planes(embedded_plane: ControlPlane, kube_plane: ControlPlane) -> BothPlanes:
    return BothPlanes(embedded_plane, kube_plane)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.failed:
        used = set(getattr(item, "fixturenames", ()))
        for kind, plane in _running.items():
            if used & {"plane", "both_planes", f"{kind}_plane"}:
                report.sections.append((f"{kind} control plane", plane.log(12)))
