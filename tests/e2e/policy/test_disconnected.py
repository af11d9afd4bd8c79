"""The hub away in every manner, the controller restarted or not, and the hub back (goal 3): no wrong or stale spec is enforced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.support.https_server import Answer, HttpsServer
from tests.support.policies import ManagedCluster, PolicyHub, path
from tests.support.sites import beside_kube


def color(shop: str, name: str = "settings") -> str:
    return f'{{{{hub fromConfigMap "{shop}" "{name}" "color" hub}}}}'


def _unavailable(_: object) -> Answer:
    return Answer("no healthy upstream", 503)


class Faults:
    """Ways in which the hub of a cluster can be away; each is put right at the end of its block."""

    def __init__(self, cluster: ManagedCluster) -> None:
        self._cluster = cluster
        self._hub = cluster.hub.cluster.url

    @contextmanager
    def refused(self) -> Iterator[None]:
        with self._mended():
            self._cluster.link.refuse()
            yield

    @contextmanager
    def cut(self) -> Iterator[None]:
        with self._mended():
            self._cluster.link.cut()
            yield

    @contextmanager
    def silent(self) -> Iterator[None]:
        with self._mended():
            self._cluster.link.silence()
            yield

    @contextmanager
    def untrusted(self) -> Iterator[None]:
        with HttpsServer(_unavailable) as server, self._mended():
            self._cluster.link.lead_to(f"https://127.0.0.1:{server.port}")
            yield

    @contextmanager
    def unavailable(self) -> Iterator[None]:
        """A load balancer with a certificate of its own that is trusted, and nobody behind it."""
        with HttpsServer(_unavailable) as server:
            self._cluster.write_kubeconfig(self._cluster.link.url(self._hub), server.ca)
            with self._mended():
                self._cluster.link.lead_to(f"https://127.0.0.1:{server.port}")
                yield
            self._cluster.write_kubeconfig(self._cluster.link.url(self._hub))

    @contextmanager
    def nameless(self) -> Iterator[None]:
        """Its name cannot be resolved. A controller whose hub has another address ends, and its kubelet starts it anew."""
        self._cluster.link.cut()
        self._cluster.write_kubeconfig("https://hub.invalid:6443")
        try:
            yield
        finally:
            self._cluster.write_kubeconfig(self._cluster.link.url(self._hub))
            self._cluster.link.mend()
            self._cluster.controller.restart()

    @contextmanager
    def _mended(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._cluster.link.lead_to(self._hub)


FAULTS: dict[str, Callable[[Faults], AbstractContextManager[None]]] = {
    "refused": Faults.refused,
    "silent": Faults.silent,
    "untrusted": Faults.untrusted,
    "unavailable": Faults.unavailable,
    "nameless": Faults.nameless,
}


@pytest.fixture(params=["refused", *(pytest.param(fault, marks=beside_kube) for fault in FAULTS if fault != "refused")])
def away(request: pytest.FixtureRequest, c1: ManagedCluster) -> Callable[[], AbstractContextManager[None]]:
    return lambda: FAULTS[request.param](Faults(c1))


def drift(cluster: ManagedCluster, name: str) -> None:
    cluster.admin.patch(path("ConfigMap", "default", name), {"data": {"value": "drifted"}}).expect(200)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "nameless"])
def test_a_controller_that_goes_on_enforces_what_it_knows(c1: ManagedCluster, shop: str, name: str, fault: str) -> None:
    """A7."""
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    before = c1.saved_secret(policy)
    with FAULTS[fault](Faults(c1)):
        drift(c1, name)
        c1.wait_value(name, "red")
        c1.wait_status(policy, "Compliant")
        assert c1.saved_secret(policy) == before


def test_a_controller_that_starts_anew_enforces_what_was_kept_until_the_hub_is_back(
    hub: PolicyHub, c1: ManagedCluster, shop: str, name: str, away: Callable[[], AbstractContextManager[None]]
) -> None:
    """A8, A9; and A10: an edit is not what was resolved."""
    policy, other = c1.bring_value(name, color(shop)), c1.bring_value(f"{name}-edited", color(shop))
    for one in (policy, other):
        c1.wait_status(one, "Compliant")
    before = c1.saved_secret(policy)
    with away():
        with c1.restarted():
            drift(c1, name)
            edited = c1.bring_value(f"{name}-edited", f"{color(shop)}!")
        c1.wait_value(name, "red")
        c1.wait_status(policy, "Compliant")
        c1.wait_status(edited, "NonCompliant", "failed to resolve the template")
        assert c1.value(f"{name}-edited") == "red", "neither the edit nor what it replaces is enforced"
        assert c1.saved_secret(policy) == before
        kept = c1.saved(other)
        assert kept is not None
        assert kept["metadata"]["generation"] == 1, "kept, and not used"
        hub.settings(shop, color="blue")
    began = time.monotonic()
    c1.wait_value(name, "blue", 25)
    assert time.monotonic() - began < 20
    c1.wait_value(f"{name}-edited", "blue!")
    c1.wait_status(edited, "Compliant")


def test_edits_while_disconnected_work_as_long_as_they_ask_nothing_new(c1: ManagedCluster, shop: str, name: str) -> None:
    """A11 (non-goal 2)."""
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    with Faults(c1).cut():
        c1.bring_value(name, f"{color(shop)}!")
        c1.wait_value(name, "red!")
        c1.wait(lambda: (c1.saved(policy) or {})["metadata"]["generation"] == 2, "what was resolved is kept")
        c1.bring_value(name, f"{color(shop)}{color(shop, 'other')}")
        c1.wait_status(policy, "NonCompliant", "failed to resolve the template")
        assert c1.value(name) == "red!"
        c1.bring_value(name, color(shop))
        c1.wait_value(name, "red")
        c1.wait_status(policy, "Compliant")


@pytest.mark.parametrize("kill", [True, pytest.param(False, marks=beside_kube)])
def test_a_controller_that_is_killed_while_the_hub_changes_ends_with_what_the_hub_says(
    hub: PolicyHub, c1: ManagedCluster, shop: str, name: str, kill: bool
) -> None:
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    for turn in range(3):
        hub.settings(shop, color=f"blue{turn}")
        # At whatever moment of its doing that is.
        time.sleep(0.03 * turn)
        with c1.restarted(kill=kill):
            pass
        c1.wait_value(name, f"blue{turn}")
        c1.wait(lambda turn=turn: f"blue{turn}" in str(c1.saved(policy)), "what was resolved is kept")


def test_a_certificate_is_rotated_without_a_restart(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """The watch of before goes on, and new connections are made with the new certificate."""
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    process = c1.controller.process.pid
    c1.rotate()
    hub.settings(shop, color="blue")
    c1.wait_value(name, "blue")
    c1.link.cut()
    c1.link.mend()
    hub.settings(shop, color="green")
    c1.wait_value(name, "green")
    assert c1.controller.process.pid == process


@beside_kube
def test_a_dead_hub_is_asked_rarely_and_mentioned_once(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """A27, for a quarter of a minute."""
    policies = []
    for number in range(12):
        hub.settings(shop, f"s{number}", color=f"{number}th")
        policies.append(c1.bring_value(f"{name}-{number}", color(shop, f"s{number}")))
    for policy in policies:
        c1.wait_status(policy, "Compliant")
    with Faults(c1).cut():
        lines = len(c1.log().splitlines())
        time.sleep(3)
        before = c1.link.attempts
        time.sleep(12)
        assert c1.link.attempts - before <= 6
        said = [line for line in c1.log().splitlines()[lines:] if "server" in line]
        assert len(said) <= 2, said
    hub.settings(shop, "s3", color="back")
    c1.wait_value(f"{name}-3", "back", 25)
    for policy in policies:
        c1.drop(policy)


@beside_kube
@pytest.mark.parametrize("moment", [0.0, 0.05, 0.2, 0.5, 1.0, 2.0])
def test_the_hub_comes_back_at_any_moment_of_a_start(
    hub: PolicyHub, c1: ManagedCluster, shop: str, name: str, moment: float
) -> None:
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    with Faults(c1).refused():
        c1.controller.stop(kill=True)
        hub.settings(shop, color="blue")
        c1.controller.process.start()
        time.sleep(moment)
    c1.wait_value(name, "blue", 25)
    c1.wait_status(policy, "Compliant")


def test_a_policy_that_loses_its_hub_templates_loses_what_was_kept(c1: ManagedCluster, shop: str, name: str) -> None:
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    assert c1.saved_secret(policy) is not None
    c1.bring_value(name, "plain")
    c1.wait_value(name, "plain")
    c1.wait(lambda: c1.saved_secret(policy) is None, "what was kept to go")
